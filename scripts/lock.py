"""Pin what faber depends on: requirements.lock to run it, requirements-dev.lock to work on it as well.

Usage:
    lock.py             write both, keeping every version that pyproject.toml still allows
    lock.py --upgrade   write both with the newest versions that pyproject.toml allows
    lock.py --check     report on stderr what is wrong with them and exit with 1; write nothing, use no network

Writing needs `uv` on PATH. The locks hold for every platform and Python that pyproject.toml allows, with the hashes of
all files of a release. The first line of each is `# key: ` and the first 12 hexadecimal digits of the SHA-256
of everything after it: bin/faber names environments after it, so it can tell without hashing (or any other program)
whether an existing one matches.

--check finds a key that does not match, a dependency of pyproject.toml without a pin, a pin without a hash, and
a version that differs between the two files.
"""

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUNTIME, DEV = "requirements.lock", "requirements-dev.lock"
_PREFIX = "# key: "


def key_line(body: str) -> str:
    """The first line of a lock whose other lines are `body`."""
    return f"{_PREFIX}{hashlib.sha256(body.encode()).hexdigest()[:12]}\n"


def problems(root: Path) -> list[str]:
    """The problems that `--check` finds in the locks in `root`, one sentence each."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    runtime = [_name(requirement) for requirement in project["dependencies"]]
    dev = [_name(requirement) for requirement in project["optional-dependencies"]["dev"]]
    found: list[str] = []
    pins: dict[str, dict[str, list[str]]] = {}
    for file, names in ((RUNTIME, runtime), (DEV, runtime + dev)):
        try:
            first, _, body = (root / file).read_text(encoding="utf-8").partition("\n")
        except FileNotFoundError:
            found.append(f"{file} is missing")
            continue
        if f"{first}\n" != key_line(body):
            found.append(f"{file}: the key in its first line does not match its contents")
        pins[file] = {}
        for entry in re.split(r"\n(?=\S)", re.sub(r"(?m)^ *#.*\n", "", body)):
            if pin := re.match(r"([\w.-]+)==([^\s;]+)", entry):
                pins[file].setdefault(_name(pin[1]), []).append(pin[2])
                if "--hash=sha256:" not in entry:
                    found.append(f"{file}: {pin[0]} has no hash")
            elif entry.strip():
                found.append(f"{file}: not a pin: {entry.splitlines()[0]}")
        found += [f"{file}: {name} is not pinned" for name in names if name not in pins[file]]
    if len(pins) == 2:
        found += [
            f"{name} differs: {versions} in {RUNTIME}, {pins[DEV].get(name)} in {DEV}"
            for name, versions in pins[RUNTIME].items()
            if pins[DEV].get(name) != versions
        ]
    return found


def _name(requirement: str) -> str:
    """The normalised name at the start of a requirement."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()


def write(root: Path, *, upgrade: bool) -> None:
    """Resolve and write both locks; raises CalledProcessError if uv fails, with nothing written."""
    with tempfile.TemporaryDirectory() as scratch:
        # The development lock first: the runtime lock must use the same versions.
        new: dict[str, str] = {}
        for file, options in ((DEV, ["--extra", "dev"]), (RUNTIME, [])):
            output = Path(scratch, file)
            if file == RUNTIME:
                output.write_text(new[DEV], encoding="utf-8")
            elif (root / file).exists() and not upgrade:
                output.write_text((root / file).read_text(encoding="utf-8"), encoding="utf-8")
            command = ["uv", "pip", "compile", "pyproject.toml", *options, "--output-file", str(output), "--quiet"]
            command += ["--universal", "--python-version", "3.11", "--generate-hashes"]
            command += ["--no-header", "--no-emit-index-url", "--no-annotate"]
            subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL)
            new[file] = output.read_text(encoding="utf-8")
        for file, body in new.items():
            (root / file).write_text(key_line(body) + body, encoding="utf-8", newline="\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line described above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true")
    action.add_argument("--upgrade", action="store_true")
    options = parser.parse_args(arguments)
    if not options.check:
        try:
            write(ROOT, upgrade=options.upgrade)
        except FileNotFoundError:
            print("lock.py: needs uv on PATH (`pip install uv`)", file=sys.stderr)
            return 1
        except subprocess.CalledProcessError as failure:
            return failure.returncode
    found = problems(ROOT)
    for problem in found:
        print(f"lock.py: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
