"""How often a command opens a file to read it."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from faber.store.layout import METADATA, PLAN, STATE

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
CONFIG = "config.yaml"
WATCHED = (STATE, METADATA, PLAN, CONFIG)

# What a command writes goes through a temporary file of another name, so only reading counts.
COUNTING = """
import os, sys
opened = []
def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], str):
        opened.append(os.path.basename(arguments[0]))
sys.addaudithook(hook)
from faber.cli.app import main
status = main(sys.argv[1:])
sys.stdout.flush()
sys.stderr.write("\\n".join(["OPENED", *opened]))
sys.stderr.flush()
os._exit(status)
"""


def opened(project: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> dict[str, int]:
    """How often `faber ARGUMENTS`, which must succeed, opens each of the watched files.

    `environment` replaces that of the tests, of which faber's and the client's own variables are left out.
    """
    if environment is None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("FABER_", "CLAUDE"))}
    done = subprocess.run(
        [sys.executable, "-c", COUNTING, *arguments],
        cwd=project,
        env={**environment, "PYTHONPATH": str(SCRIPTS)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counted = Counter(done.stderr.partition("OPENED\n")[2].splitlines())
    return {name: counted[name] for name in WATCHED if counted[name]}
