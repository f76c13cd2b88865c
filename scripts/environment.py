"""Build the Python environment that faber runs in, once per set of locked dependencies.

Usage:
    environment.py run [ARG...]   install what requirements.lock lists if it is missing, then exec `faber ARG...`
    environment.py dev            the same for requirements-dev.lock; print the path of its interpreter

bin/faber and tests/run start it with any Python >= 3.11, so it uses the standard library only.

An environment is a directory whose name says what is in it, `venv-<lock key>-py<version>` (or `dev-…`) under
$XDG_DATA_HOME/faber; $FABER_VENV names another place for `run`. It is built next to its final place and renamed as
the last step, so a reader finds a complete environment or none, of two concurrent builds the first wins, and
the next build removes what a killed build left behind. Packages come from wherever pip (or uv) is configured to look.

Exit status: 1 with one line on stderr if it cannot be built (nothing is left behind), 130 or 128 + n if interrupted,
otherwise faber's own. stdout belongs to faber.
"""

import compileall
import fcntl
import glob
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, NoReturn

ROOT = Path(__file__).resolve().parent.parent

# pip settings that would install packages outside the environment, or change what is installed.
_MISLEADING = {"PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_PYTHON", "PIP_CONSTRAINT", "PIP_REQUIREMENT"}
_INSTALL = ("--quiet", "--no-deps", "--require-hashes", "--requirement")
_KEY = re.compile(r"# key: ([0-9a-f]{12})\n")


class CannotBuild(Exception):
    """The environment cannot be built; the message says what to do about it."""


class Place(NamedTuple):
    """Where an environment belongs. Only an environment that is `ours`, by its name, is ever replaced."""

    directory: Path
    ours: bool

    @property
    def python(self) -> Path:
        """The environment's interpreter, the only program in it that is ever started."""
        return self.directory / "bin" / "python"

    def usable(self) -> bool:
        """Whether the interpreter works: a link to a Python that has been removed is not executable."""
        return os.access(self.python, os.X_OK)


def place_of(lock: Path, kind: str, explicit: str | None) -> Place:
    """The place of `lock`'s environment: an existing one, or where to build it."""
    if explicit:
        return Place(Path(os.path.realpath(explicit)), ours=False)
    data = os.environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(data):
        data = os.path.expanduser("~/.local/share")  # reads the user database if HOME is not set
    if not os.path.isabs(data):
        raise CannotBuild("there is no home directory: set HOME, or FABER_VENV to a directory of your own.")
    stem = os.path.join(data, "faber", f"{kind}-{_key(lock)}-py")
    for found in sorted(glob.glob(f"{glob.escape(stem)}3.*/bin/python")):  # in the same order as bin/faber
        if os.access(found, os.X_OK):
            return Place(Path(found).parent.parent, ours=True)
    return Place(Path(f"{stem}{sys.version_info.major}.{sys.version_info.minor}{sys.abiflags}"), ours=True)


def _key(lock: Path) -> str:
    try:
        with open(lock, encoding="utf-8") as lines:
            found = _KEY.fullmatch(lines.readline())
    except OSError:
        found = None
    if not found:
        raise CannotBuild(f"{lock} has no key in its first line: reinstall faber.")
    return found[1]


def build(lock: Path, place: Place, *, compiled: bool = True) -> None:
    """Install what `lock` lists into `place`; raises CannotBuild, and leaves nothing behind if it fails.

    Without `compiled`, Python compiles each module when it first imports it, if it can write there.
    """
    if os.environ.get("CODEX_SANDBOX_NETWORK_DISABLED") or os.environ.get("CODEX_SANDBOX"):
        raise CannotBuild(
            "Codex's sandbox cannot build its Python environment: "
            f"a person runs `{shlex.quote(str(ROOT / 'bin' / 'faber'))} setup` in a terminal once."
        )
    if not place.ours and place.directory.is_dir() and any(place.directory.iterdir()):
        raise CannotBuild(f"FABER_VENV={place.directory} has no usable Python: remove it, or name another directory.")
    print("faber: preparing its Python environment; this happens once and takes a few seconds.", file=sys.stderr)
    try:
        place.directory.parent.mkdir(parents=True, exist_ok=True)
        with _workshop(place.directory.parent) as (directory, held):
            _install(lock, directory, held, compiled)
            _drop_scripts(directory)
            _publish(directory, place)
    except OSError as problem:
        raise CannotBuild(f"cannot write its environment ({problem}): set FABER_VENV to a writable place.") from None


@contextmanager
def _workshop(parent: Path) -> Iterator[tuple[Path, int]]:
    """A new directory in `parent`, removed at the end unless renamed, and the descriptor that marks it as in use.

    The mark is a lock that is released when its holders, the builder and the installer it started, end: a process
    id could have been reused, or belong to another container that shares this directory.
    """
    with _guard(parent):
        for left in parent.glob(".faber-build-*"):
            if (mark := _mark(left)) is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(mark)
        directory = parent / f".faber-build-{secrets.token_hex(4)}"
        directory.mkdir()
        mark = os.open(directory, os.O_RDONLY)
        fcntl.flock(mark, fcntl.LOCK_EX)
    try:
        yield directory, mark
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(mark)


def _mark(directory: Path) -> int | None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


@contextmanager
def _guard(parent: Path) -> Iterator[None]:
    """Exclude other builders while directory entries are checked and changed."""
    with open(parent / ".faber-build.lock", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _install(lock: Path, directory: Path, held: int, compiled: bool) -> None:
    base = _versioned_executable()
    python = directory / "bin" / "python"
    create = [base, "-I", "-m", "venv"]
    pip_options = ["--disable-pip-version-check", "--no-input"]
    pip_install = ["install", "--no-user", f"--{'' if compiled else 'no-'}compile", *pip_options, *_INSTALL, str(lock)]

    # The base's pip can install into another environment, which saves the two seconds of installing pip there.
    if find_spec("pip") and not _run([*create, "--without-pip", str(directory)], held).returncode:
        pip = [sys.executable, "-I", "-m", "pip", "--python", str(python)]
        installed = _run([*pip, *pip_install], held)
        # Only a pip that works in the environment knows why nothing can be installed.
        if not installed.returncode or not _run([*pip, *pip_options, "--version"], held).returncode:
            return _check(installed)
    if find_spec("ensurepip") and not _run([*create, "--clear", str(directory)], held).returncode:
        return _check(_run([str(python), "-I", "-m", "pip", *pip_install], held))
    uv = shutil.which("uv")
    if uv and not _run([uv, "venv", "--quiet", "--clear", "--python", base, str(directory)], held).returncode:
        bytecode = f"--{'' if compiled else 'no-'}compile-bytecode"
        uv_install = [uv, "pip", "install", "--python", str(python), bytecode, *_INSTALL, str(lock)]
        return _check(_run(uv_install, held))
    raise CannotBuild(
        f"{sys.executable} cannot make environments: install python3-venv (Debian, Ubuntu) or uv, "
        "or set FABER_PYTHON to another Python."
    )


def _versioned_executable() -> str:
    """The interpreter under its versioned name, if it has one.

    An environment that links to `python3` silently loses its packages when `python3` becomes the next version.
    """
    base: str = getattr(sys, "_base_executable", sys.executable)  # works in an activated environment, too
    versioned = os.path.join(os.path.dirname(base), f"python{sys.version_info.major}.{sys.version_info.minor}")
    return versioned if os.path.exists(versioned) and os.path.samefile(base, versioned) else base


def _run(command: Sequence[str], held: int) -> "subprocess.CompletedProcess[str]":
    """Run one installer step. It gets its own process group, so no child outlives an interruption."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in _MISLEADING and not name.startswith("PYTHON") and name != "__PYVENV_LAUNCHER__"
    }
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        env=environment,
        cwd="/",  # an installer reads settings from the current directory, which could be any
        pass_fds=(held,),
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate()
        except BaseException:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it was already ended by the same signal
            if process.stdout and not process.stdout.closed:
                process.stdout.read()  # returns once the whole group has closed the pipe
            raise
    return subprocess.CompletedProcess(command, process.returncode, output)


def _check(result: "subprocess.CompletedProcess[str]") -> None:
    if result.returncode:
        lines = [line.strip() for line in result.stdout.splitlines() if line.strip()]
        reason = next(
            (line for line in reversed(lines) if line.startswith("ERROR:")), lines[-1] if lines else "no reason"
        )
        raise CannotBuild(
            f"cannot install its dependencies ({reason.removeprefix('ERROR: ')[:300]}): "
            "check the network and pip's settings, then run it again."
        )


def _drop_scripts(directory: Path) -> None:
    """Remove scripts that contain their installation directory, which will be renamed."""
    for file in (directory / "bin").iterdir():
        if not file.is_symlink() and file.read_bytes().find(os.fsencode(directory)) >= 0:
            file.unlink()


def _publish(directory: Path, place: Place) -> None:
    """Rename the finished environment to its place, unless another build was first."""
    with _guard(directory.parent):
        if place.usable():
            return
        if place.ours and place.directory.exists():
            broken = directory.with_name(f"{directory.name}-broken")
            os.rename(place.directory, broken)
            shutil.rmtree(broken, ignore_errors=True)
        os.rename(directory, place.directory)  # fails for a non-empty directory, which is not ours to replace


def _stop(number: int, _frame: object) -> NoReturn:
    sys.exit(128 + number)


def main(arguments: Sequence[str]) -> int:
    """Run the command line described above."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    match arguments:
        case ["run", *rest]:
            lock, kind, explicit = ROOT / "requirements.lock", "venv", os.environ.get("FABER_VENV")
        case ["dev"]:
            lock, kind, explicit, rest = ROOT / "requirements-dev.lock", "dev", None, []
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    try:
        place = place_of(lock, kind, explicit)
        if not place.usable():
            # Tests import a third of what the development environment holds.
            build(lock, place, compiled=kind != "dev")
            # Here and not in faber: the plugin's directory may be read-only for whoever runs it later.
            compileall.compile_dir(ROOT / "scripts" / "faber", quiet=2)
    except CannotBuild as problem:
        print(f"faber: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    python = str(place.python)
    if kind == "venv":
        os.execv(python, [python, "-I", "-X", "utf8", str(ROOT / "scripts" / "faber" / "__main__.py"), *rest])
    print(python)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
