"""Make the pictures of the README: one of each view of a run, from the runs that `faber demo` makes.

Usage:
    pictures.py [--directory DIR]    write an SVG of each view in the terminal and report.png. Default: docs/pictures

Everything is what the commands print: only colours become SVG, and the page of the report a PNG, which needs a
Chromium. Times differ from one call to the next.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
from chromium import Chromium, program  # noqa: E402 - these stand where the line above leads
from faber.demo import healed_phase, killed_run  # noqa: E402
from faber.errors import FaberError  # noqa: E402
from faber.foreign.open_run import open_run  # noqa: E402
from faber.store.bundle import PROGRAM  # noqa: E402
from faber.store.clock import utc_now  # noqa: E402
from faber.store.layout import Layout  # noqa: E402
from faber.view.live_frame import Scene, Watching, frame  # noqa: E402
from faber.view.read_view import read_view  # noqa: E402
from faber.view.run_view import RunView  # noqa: E402
from faber.view.styled_lines import coloured  # noqa: E402
from faber.view.tree_text import tree  # noqa: E402

COLUMNS, LINES = 80, 16
WIDTH, HEIGHT = 1000, 1220  # of the part of the report that is shown
LARGEST = 150_000  # bytes of a picture
_FABER = [sys.executable, "-I", "-X", "utf8", str(ROOT / "scripts" / "faber")]


def main() -> int:
    """Make them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, default=ROOT / "docs" / "pictures")
    into: Path = parser.parse_args().directory
    browser = program()
    if browser is None:
        print("A Chromium is needed: `apt-get install chromium`.", file=sys.stderr)
        return 1
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="faber-pictures-") as place:
        healed, killed = Path(place, "healed"), Path(place, "killed")
        working = _watched(healed)
        _faber(place, "demo", "--directory", str(killed))
        seen = frame(Scene([working]), Watching(selected=len(working.phases) - 1), COLUMNS, LINES, str)
        _terminal(into / "watch.svg", "faber watch", coloured(seen))
        made = read_view(open_run(Layout(str(killed)), killed_run.RUN_ID), utc_now())
        _terminal(into / "status.svg", f"faber status {killed_run.RUN_ID}", coloured(tree(made, COLUMNS, str)))
        _terminal(into / "brief.svg", "what a new session is told", _brief(killed))
        why = _faber(str(killed), "why", killed_run.RUN_ID).replace(PROGRAM, "faber")
        _terminal(into / "why.svg", f"faber why {killed_run.RUN_ID}", why)
        page = healed / "report.html"
        _faber(str(healed), "report", healed_phase.RUN_ID, "--output", str(page))
        with Chromium(browser) as opened:
            opened.prefer("light")
            opened.open(page, width=WIDTH, height=HEIGHT)
            (into / "report.png").write_bytes(opened.picture(height=HEIGHT))
    large = [file.name for file in into.iterdir() if file.stat().st_size > LARGEST]
    print(f"{', '.join(large)}: more than {LARGEST} bytes" if large else f"Made in {into}", file=sys.stderr)
    return 1 if large else 0


def _faber(project: str, *arguments: str, stdin: str | None = None) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FABER_", "CLAUDE", "GIT_"))}
    done = subprocess.run([*_FABER, *arguments], cwd=project, env=kept, input=stdin, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"faber {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def _watched(project: Path) -> RunView:
    """A nebula's run while its remediation is worked on, as another process sees it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FABER_", "CLAUDE", "GIT_"))}
    command = [*_FABER, "demo", "--heal", "--directory", str(project)]
    found: RunView | None = None
    with subprocess.Popen(command, cwd=project.parent, env=kept, stdout=subprocess.DEVNULL) as demo:
        while demo.poll() is None:
            time.sleep(0.02)
            try:
                view = read_view(open_run(Layout(str(project)), healed_phase.RUN_ID), utc_now())
            except FaberError:
                continue
            if view.healing and any(phase.remedies and phase.stage for phase in view.phases):
                found = view
    if found is None or demo.returncode:
        raise SystemExit("The demo was not seen while it healed its phase.")
    return found


def _brief(project: Path) -> str:
    """What the hook tells a session that starts in the project."""
    given = {"hook_event_name": "SessionStart", "session_id": "new", "cwd": str(project), "source": "startup"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FABER_", "CLAUDE", "GIT_"))}
    hook = [sys.executable, "-I", str(ROOT / "scripts" / "faber" / "hooks"), "session-start"]
    done = subprocess.run(
        hook, cwd=project, env=kept, input=json.dumps(given), capture_output=True, text=True, check=True
    )
    told = json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"].replace(PROGRAM, "faber")
    lines = (textwrap.wrap(line, COLUMNS, subsequent_indent="  ", break_on_hyphens=False) for line in told.splitlines())
    return "".join(f"{line}\n" for wrapped in lines for line in wrapped)


def _terminal(file: Path, title: str, text: str) -> None:
    """A terminal's text with its colours, as an SVG that loads no font."""
    from rich._export_format import CONSOLE_SVG_FORMAT
    from rich.console import Console
    from rich.text import Text

    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(Text.from_ansi(text), end="")
        form = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
        form = form.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")
        form = re.sub(r"<!--.*?-->\n", "", form)
        file.write_text(console.export_svg(title=title, code_format=form, unique_id=file.stem), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
