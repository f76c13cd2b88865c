"""Timing side by side: every ratio comes from rounds in which all subjects take turns on the same machine.

A shared machine is never quiet, but it is about equally loud for everything that happens within a tenth of a
second. So a round runs every subject once, in random order; a ratio is the median over the rounds of what two
subjects took in the same round, and the quartiles say how far to trust it.

Importing this module moves the script into faber's own environment (building it if it is not there), so
that whatever Python starts a benchmark, the floors and faber are measured with the same interpreter.
"""

import argparse
import json
import os
import platform
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FABER = str(ROOT / "bin" / "faber")

sys.path.insert(0, str(ROOT / "scripts"))
from environment import place_of  # noqa: E402 - it stands where the line above leads

PLACE = place_of(ROOT / "requirements.lock", "venv", os.environ.get("FABER_VENV"))
PYTHON = str(PLACE.python)

if Path(sys.prefix).resolve() != PLACE.directory.resolve():
    if not PLACE.usable():
        subprocess.run([FABER, "--version"], check=True, stdout=subprocess.DEVNULL)
    os.execv(PYTHON, [PYTHON, *sys.argv])

# A person's terminal: in an agent's session some commands are refused, and a root given would spare the search.
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("FABER_", "CLAUDE_", "PYTHON", "GIT_")) or name == "FABER_VENV"
}

Subject = Callable[[], float]


class Ratio(NamedTuple):
    """One line of a result: `seconds` (median) of `subject`, and how many times `of` that is.

    `low` and `high` are the quartiles of the ratio over the rounds; `target` is the most it may be,
    None where nothing is promised.
    """

    subject: str
    seconds: float
    ratio: float
    low: float
    high: float
    of: str
    target: float | None

    @property
    def met(self) -> bool | None:
        """Whether the ratio is within its target; None where it has none."""
        return None if self.target is None else self.ratio <= self.target


def options(documentation: str, add: Callable[[argparse.ArgumentParser], None] | None = None) -> argparse.Namespace:
    """The arguments that every benchmark has, and those that `add` adds; `documentation` is the script's docstring."""
    parser = argparse.ArgumentParser(
        description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--quick", action="store_true", help="few rounds and short runs: shows that it works, not how fast"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--rounds", type=int, metavar="N", help="how often every subject is measured")
    parser.add_argument(
        "--project", metavar="DIR", help="what `faber demo --directory DIR` made, to be copied instead of made again"
    )
    parser.add_argument(
        "--directory", metavar="DIR", help="where to work (the disk that is measured). Default: /var/tmp"
    )
    if add is not None:
        add(parser)
    return parser.parse_args()


@contextmanager
def workplace(arguments: argparse.Namespace) -> Iterator[str]:
    """A directory to work in, gone at the end. /var/tmp is on a disk where /tmp may be memory."""
    with tempfile.TemporaryDirectory(prefix="faber-benchmark-", dir=arguments.directory or "/var/tmp") as made:
        yield os.path.realpath(made)


def spawn(command: Sequence[str], cwd: str, *, status: int = 0) -> float:
    """Seconds from starting `command` to its end; it must end with `status`, or what it measured was something else."""
    begun = time.perf_counter()
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        process.wait()
        taken = time.perf_counter() - begun
    if process.returncode != status:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode} in {cwd}")
    return taken


def rounds(subjects: Mapping[str, Subject], arguments: argparse.Namespace, usual: int) -> dict[str, list[float]]:
    """The seconds that every subject took in each round: as many as `arguments` say, or `usual` ones.

    Rounds before them warm the caches, but in the quick mode.
    """
    warm, count = (0, arguments.rounds or 1) if arguments.quick else (2, arguments.rounds or usual)
    order = list(subjects)
    shuffled = random.Random(158)
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for number in range(warm + count):
        shuffled.shuffle(order)
        for name in order:
            seconds = subjects[name]()
            if number >= warm:
                times[name].append(seconds)
        if sys.stderr.isatty():
            print(f"\r{number + 1}/{warm + count} rounds ", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    return times


def ratio(times: Mapping[str, list[float]], subject: str, of: str, target: float | None = None) -> Ratio:
    """`subject` as a multiple of `of`, round by round."""
    each = [mine / its for mine, its in zip(times[subject], times[of], strict=True)]
    low, middle, high = statistics.quantiles(each, n=4, method="inclusive") if len(each) > 1 else each * 3
    return Ratio(subject, statistics.median(times[subject]), middle, low, high, of, target)


def report(arguments: argparse.Namespace, title: str, ratios: Sequence[Ratio], place: str, **more: Any) -> None:
    """Print the result: a table within 80 columns, or one JSON object. `more` is what else was counted."""
    about = machine(place)
    if arguments.json:
        rows = [{**line._asdict(), "met": line.met} for line in ratios]
        print(json.dumps({"title": title, "machine": about, **more, "ratios": rows}, indent=2))
        return
    print(title)
    for words in _wrapped([f"{name} {value}" for name, value in {**about, **more}.items()]):
        print(f"  {words}")
    print(f"\n{'':<29}{'median':>10}{'ratio':>7}{'quartiles':>12}  {'of':<14}{'target':>6}")
    for line in ratios:
        quartiles = f"{line.low:.2f}-{line.high:.2f}"
        target = "" if line.target is None else f"{line.target:g}{' ' if line.met else '!'}"
        print(
            f"{line.subject:<29.29}{line.seconds * 1000:>7.2f} ms{line.ratio:>7.2f}"
            f"{quartiles:>12}  {line.of:<15.15}{target:>5}".rstrip()
        )
    if any(line.met is False for line in ratios):
        print("! is past its target")


def _wrapped(parts: list[str]) -> list[str]:
    lines = [""]
    for part in parts:
        if len(lines[-1]) + len(part) > 74:
            lines.append("")
        lines[-1] += f"{', ' if lines[-1] else ''}{part}"
    return lines


def machine(place: str) -> dict[str, str]:
    """What the figures depend on, beside the code."""
    return {
        "faber": _said("git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*") or "unknown",
        "python": platform.python_version(),
        "jq": _said("jq", "--version").removeprefix("jq-") or "none",
        "bash": (re.findall(r"version (\S+?)\(", _said("bash", "--version")) or ["none"])[0],
        "git": _said("git", "--version").removeprefix("git version "),
        "kernel": platform.release(),
        "filesystem": _filesystem(place),
        "cores": str(os.cpu_count()),
    }


def _said(*command: str) -> str:
    if not shutil.which(command[0]):
        return ""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.partition("\n")[0].strip()


def _filesystem(place: str) -> str:
    """The kind of file system that `place` is on, from the longest mount point above it."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return "unknown"
    above = [(len(fields[1]), fields[2]) for fields in mounts if Path(place).is_relative_to(fields[1])]
    return max(above, default=(0, "unknown"))[1]
