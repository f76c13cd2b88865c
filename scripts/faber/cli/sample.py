"""A sample project for the demos: a repository in a directory of its own, and faber's own commands in it."""

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from faber.cli.output import write
from faber.errors import FaberError


def make_place(directory: str | None) -> str:
    """A new directory, `directory` or a temporary one; raises `FaberError` where it is there already."""
    if directory is None:
        return os.path.realpath(tempfile.mkdtemp(prefix="faber-demo-"))
    try:
        os.makedirs(directory)
    except FileExistsError:
        raise FaberError(f"{directory} is already there.", recovery="Name a directory that does not exist.") from None
    return os.path.realpath(directory)


def launcher() -> str:
    """Where `bin/faber` is."""
    return os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", "..", "bin", "faber"))


def announce(text: str) -> None:
    """Tell the reader what happens now."""
    write(f"• {text}\n")
    sys.stdout.flush()


def put(project: str, name: str, text: str) -> None:
    """Write a file of the project."""
    path = os.path.join(project, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def commit_all(project: str, message: str) -> None:
    """Commit all that changed."""
    git(project, "add", "--all")
    git(project, "commit", "-q", "-m", message)


def git(project: str, *arguments: str) -> None:
    """Run git in the project, with nothing of this machine's settings but its programs."""
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


def _environment(project: str) -> dict[str, str]:
    dropped = ("CLAUDE_CODE_SESSION_ID", "CLAUDECODE", "FABER_CHILD", "FABER_ROOT")
    return {k: v for k, v in os.environ.items() if k not in dropped} | {"FABER_ROOT": project}


def _command(arguments: list[str]) -> list[str]:
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return [sys.executable, "-I", "-X", "utf8", package, *arguments]


def run_faber(project: str, arguments: list[str], given: dict[str, Any] | None = None) -> str:
    """What one of faber's commands prints in the project."""
    done = subprocess.run(
        _command(arguments),
        cwd=project,
        env=_environment(project),
        input=None if given is None else json.dumps(given).encode(),
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise FaberError(f"The sample failed at `faber {' '.join(arguments)}`: {done.stderr.decode(errors='replace')}")
    return done.stdout.decode()
