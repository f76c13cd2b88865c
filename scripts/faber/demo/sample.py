"""The sample projects of the demos: files from `examples/demo` in a new repository, and faber's commands run in it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

from faber.agents.known_clients import persons
from faber.errors import FaberError
from faber.processes.stdout import write
from faber.store.bundle import PROGRAM, plugin_root

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SAMPLES = os.path.join(plugin_root(), "examples", "demo")
LAUNCHER = PROGRAM if os.path.isfile(PROGRAM) else "faber"


def make_place(directory: str | None) -> str:
    """Create `directory`, or a temporary one; raises `FaberError` if it exists."""
    if directory is None:
        return os.path.realpath(tempfile.mkdtemp(prefix="faber-demo-"))
    try:
        os.makedirs(directory)
    except FileExistsError:
        raise FaberError(f"{directory} already exists.", recovery="Name a directory that does not exist.") from None
    return os.path.realpath(directory)


def sample(*name: str) -> str:
    """The text of a sample file."""
    with open(os.path.join(SAMPLES, *name), encoding="utf-8") as file:
        return file.read()


def copy_sample(project: str, *name: str) -> list[str]:
    """Copy the files of a sample directory into the project; returns their paths in it. Modes are not copied."""
    source = os.path.join(SAMPLES, *name)
    paths = []
    for directory, below, names in os.walk(source):
        if "__pycache__" in below:
            below.remove("__pycache__")  # pip compiles what it installs, samples too
        for file in sorted(names):
            paths.append(os.path.relpath(os.path.join(directory, file), source))
            target = os.path.join(project, paths[-1])
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(os.path.join(directory, file), target)
    return paths


def announce(text: str) -> None:
    """Tell the reader what happens now."""
    write(f"• {text}\n")
    sys.stdout.flush()


def commit_all(project: str, message: str) -> None:
    """Commit every change."""
    git(project, "add", "--all")
    git(project, "commit", "-q", "-m", message)


def git(project: str, *arguments: str) -> None:
    """Run git in the project, without the identity, hooks and environment of this machine."""
    who = ("-c", "user.name=faber demo", "-c", "user.email=demo@example.invalid", "-c", "commit.gpgsign=false")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    try:
        subprocess.run(
            ["git", *who, "-c", "core.hooksPath=/dev/null", *arguments],
            cwd=project,
            env=environment,
            check=True,
            capture_output=True,
        )
    except FileNotFoundError:
        raise FaberError("The demo needs git.", recovery="Install git.") from None
    except subprocess.CalledProcessError as error:
        raise FaberError(f"git failed: {error.stderr.decode(errors='replace').strip()}") from None


def run_faber(project: str, arguments: list[str], stdin: object = None) -> str:
    """The output of a faber command in the project; `stdin` is passed as JSON, if given."""
    done = subprocess.run(
        [sys.executable, "-I", "-X", "utf8", _PACKAGE, *arguments],
        cwd=project,
        env=persons(os.environ) | {"FABER_ROOT": project},
        input=None if stdin is None else json.dumps(stdin).encode(),
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise FaberError(f"The sample failed at `faber {' '.join(arguments)}`: {done.stderr.decode(errors='replace')}")
    return done.stdout.decode()
