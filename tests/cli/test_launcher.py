"""bin/faber: where it finds itself, which environment it takes, and how it builds the one that is missing."""

import fcntl
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.bundles import BASE_PYTHON, MINOR, ROOT, Bundle, Ran, environment

SHELLS = [shell for shell in ("sh", "dash", "bash", "ksh", "busybox") if shutil.which(shell)]


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    """A bundle without an environment."""
    return Bundle(tmp_path.resolve())


def _told(result: Ran) -> dict[str, Any]:
    assert (result.returncode, result.stderr) == (0, "")
    told = json.loads(result.stdout)
    assert isinstance(told, dict)
    return told


def _refused(result: Ran) -> str:
    """The one line that a failed start printed."""
    assert (result.returncode, result.stdout) == (1, "")
    assert re.fullmatch(r"faber: .+\n", result.stderr)
    return result.stderr


# --- finding itself --------------------------------------------------------------------------------


def _link(path: Path, target: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return str(path)


@pytest.mark.parametrize(
    "way", ["absolute", "relative", "here", "link", "chain", "linked bin", "linked parent", "PATH"]
)
def test_finds_its_root(bundle: Bundle, tmp_path: Path, way: str) -> None:
    """Started by any path, from any directory, through any chain of links, it runs the package beside it."""
    bundle.pretend()
    here, cwd, path = tmp_path.resolve() / "elsewhere", tmp_path.resolve(), None
    here.mkdir()
    if way == "absolute":
        command = str(bundle.launcher)
    elif way == "relative":
        command, cwd = "bin/faber", bundle.root
    elif way == "here":
        command, cwd = "./faber", bundle.root / "bin"
    elif way == "link":
        command = _link(here / "faber-1", str(bundle.launcher))
    elif way == "chain":
        # The middle link lies in a directory that is a link itself: `..` means its parent on disk, not in the path.
        _link(here / "deep" / "down" / "faber-2", f"../../../{bundle.root.name}/bin/faber")
        _link(here / "short", "deep/down")
        command = _link(here / "faber-1", "short/faber-2")
    elif way == "linked bin":
        command = _link(here / "bin", str(bundle.root / "bin")) + "/faber"
    elif way == "linked parent":
        command = _link(here / "plugin", str(bundle.root)) + "/bin/faber"
    else:
        command, path = "faber", f"{bundle.root}/bin{os.pathsep}/usr/bin{os.pathsep}/bin"
    if path is None:
        result = bundle.run("x", command=[command], cwd=cwd)
    else:
        result = bundle.run("x", command=["/bin/sh", "-c", 'faber "$@"', "sh"], PATH=path)
    told = _told(result)
    assert os.path.realpath(told["root"]) == str(bundle.root)
    assert told["argv"] == ["x"]


@pytest.mark.parametrize("shell", SHELLS)
def test_any_shell_runs_it(bundle: Bundle, shell: str) -> None:
    """Every POSIX shell of this machine runs it, given the file's bare name too."""
    bundle.pretend()
    command = ["busybox", "sh"] if shell == "busybox" else [shell]
    told = _told(bundle.run("x", command=[*command, "faber"], cwd=bundle.root / "bin"))
    assert os.path.realpath(told["root"]) == str(bundle.root)


def test_arguments_and_directory_are_untouched(bundle: Bundle, tmp_path: Path) -> None:
    """Arguments arrive byte for byte, and faber stands where its caller stood, isolated and in UTF-8 mode."""
    bundle.pretend()
    arguments = ["run", "", "two words", "*", "line\nbreak", "$HOME", "-n", "ü"]
    told = _told(bundle.run(*arguments, cwd=tmp_path, PYTHONPATH="/nowhere", LC_ALL="C"))
    assert told["argv"] == arguments
    assert told["cwd"] == str(tmp_path.resolve())
    assert told["flags"] == [1, 1]


# --- the environment that is there -----------------------------------------------------------------


def test_the_warm_start_forks_nothing(bundle: Bundle, strace: str, tmp_path: Path) -> None:
    """With its environment in place it is one process that becomes Python: two execs, no fork."""
    bundle.pretend()
    trace = tmp_path / "trace"
    result = bundle.run(command=[strace, "-f", "-e", "trace=process", "-o", str(trace), str(bundle.launcher)])
    assert _told(result)["argv"] == []
    calls = re.findall(r"^\d+ +(\w+)\(", trace.read_text(), re.MULTILINE)
    assert [call for call in calls if not call.startswith("exit")] == ["execve", "execve"]


def test_one_rule_chooses_among_several(bundle: Bundle) -> None:
    """Of several environments it takes the first by name, whatever PATH holds, and passes over a removed Python's."""
    bundle.pretend("3.11", target="/nowhere/python3.11")
    chosen = bundle.pretend("3.12")
    bundle.pretend("3.14")
    for path in ("/usr/bin:/bin", "/nowhere"):
        assert _told(bundle.run(PATH=path))["python"] == str(chosen)


def test_building_and_starting_agree(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    """The builder looks for an environment by the same rule as the launcher."""
    bundle.pretend("3.11", target="/nowhere/python3.11")
    chosen = bundle.pretend("3.12")
    bundle.pretend("3.14")
    monkeypatch.setenv("XDG_DATA_HOME", str(bundle.data.parent))
    assert environment.place_of(bundle.root / "requirements.lock", "venv", None).python == chosen


def test_other_locks_are_not_taken(bundle: Bundle) -> None:
    """An environment of other dependencies does not count: changing the lock changes the environment."""
    bundle.pretend()
    bundle.need_little()
    assert "needs Python" in _refused(bundle.run(PATH="/nowhere", FABER_PYTHON=None))


def test_home_is_the_default(bundle: Bundle, tmp_path: Path) -> None:
    """Without an absolute XDG_DATA_HOME the environment is under ~/.local/share."""
    chosen = bundle.pretend(data=tmp_path / "home" / ".local" / "share" / "faber")
    for data in (None, "", "relative"):
        assert _told(bundle.run(XDG_DATA_HOME=data, HOME=str(tmp_path / "home")))["python"] == str(chosen)


def test_faber_venv_comes_first(bundle: Bundle, tmp_path: Path) -> None:
    """FABER_VENV names the environment, before any that was built, and also without HOME."""
    bundle.pretend()
    mine = tmp_path / "mine" / "bin" / "python"
    mine.parent.mkdir(parents=True)
    mine.symlink_to(BASE_PYTHON)
    venv = str(mine.parent.parent)
    assert _told(bundle.run(FABER_VENV=venv, HOME=None, XDG_DATA_HOME=None))["python"] == str(mine)


def test_without_home_the_user_database_is_asked(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With neither HOME nor XDG_DATA_HOME the environment is in the home directory that the system knows."""
    chosen = bundle.pretend(data=tmp_path / ".local" / "share" / "faber")
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    entry = pwd.struct_passwd(("n", "x", 1, 1, "", str(tmp_path), "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: entry)
    assert environment.place_of(bundle.root / "requirements.lock", "venv", None).python == chosen


def test_without_any_home_it_says_so(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a home directory is told to name one and sees no traceback."""
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)

    def unknown(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(environment.CannotBuild, match="set HOME"):
        environment.place_of(bundle.root / "requirements.lock", "venv", None)


def test_without_home_the_shell_goes_on(bundle: Bundle) -> None:
    """An unset HOME causes no shell error: one line says what is missing."""
    result = bundle.run(HOME=None, XDG_DATA_HOME=None, PATH="/nowhere", FABER_PYTHON=None)
    assert "needs Python" in _refused(result)


# --- finding Python --------------------------------------------------------------------------------


def _program(path: Path, status: int, prints: str = "") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{prints}'\necho noise >&2\nexit {status}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("programs", "found"),
    [
        ({"a/python3": 0}, "a/python3"),
        ({"a/python3": 0, "b/python3.12": 0, "b/python3.11": 0}, "b/python3.12"),
        ({"a/python3.13": 127, "b/python3.13": 0}, "b/python3.13"),  # a shim that exists but fails
        ({"a/python3.13": 127, "a/python": 0}, "a/python"),
        ({"a/python3.13": 1, "b/python3": 1}, None),
        ({"a/python3": 2, "b/python": 2}, "a/python3"),  # no pip: its own lack is what can be told
        ({"a/python3.14": 2, "b/python3": 0}, "b/python3"),
        ({"a/python3": 1, "b/uv": 0}, "/uv/python"),
        ({"a/python3": 1, "b/uv": 1}, None),
        ({"a/python3/here": 0}, None),
        ({}, None),
    ],
)
def test_looks_for_python(tmp_path: Path, programs: dict[str, int], found: str | None) -> None:
    """The newest Python on PATH that really runs and can install packages, then any that runs, then uv's."""
    for name, status in programs.items():
        _program(tmp_path / name, status, "/uv/python" if name.endswith("uv") else "")
    script = f'. "{ROOT}/scripts/find-python.sh"; find_python && printf %s "$python"'
    path = f"{tmp_path}/a:/nowhere:{tmp_path}/b"
    result = subprocess.run(
        ["/bin/sh", "-u", "-c", script], env={"PATH": path}, capture_output=True, text=True, check=False
    )
    if found is None:
        assert "needs Python 3.11" in _refused(result)
    else:
        expected = found if found.startswith("/") else f"{tmp_path}/{found}"
        assert (result.returncode, result.stdout, result.stderr) == (0, expected, "")


def test_faber_python_is_not_second_guessed(bundle: Bundle, tmp_path: Path) -> None:
    """A FABER_PYTHON that is of no use is an error that names it, although PATH has a Python."""
    for useless in (_program(tmp_path / "old", 1), "/nowhere/python"):
        assert useless in _refused(bundle.run(FABER_PYTHON=useless))


def test_no_python_is_one_line(bundle: Bundle) -> None:
    """Without any Python it says in one line what to install and exits with 1, leaving nothing."""
    assert "install it (uv can)" in _refused(bundle.run(PATH="/nowhere", FABER_PYTHON=None))
    assert bundle.contents() == []


# --- building --------------------------------------------------------------------------------------


def _interrupted(bundle: Bundle, number: int) -> int:
    """Start a first call, send it signal `number` in the middle of its build; its status."""
    with bundle.start() as process:
        deadline = time.monotonic() + 30
        while not list(bundle.data.glob(".faber-build-*/bin/python")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert out == ""
    assert re.fullmatch(r"faber: preparing .+\n", err)
    return process.returncode


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_interrupted_build_leaves_nothing(bundle: Bundle, number: int, status: int) -> None:
    """An interrupted build removes its unfinished environment."""
    bundle.need_little()
    assert _interrupted(bundle, number) == status
    assert bundle.contents() == []


def test_two_first_calls_at_once_after_a_killed_build(bundle: Bundle) -> None:
    """After a build was killed, two first calls at the same time both run: there is one environment afterwards,
    compiled, and what the dead build left is cleared away."""
    bundle.need_little()
    assert _interrupted(bundle, signal.SIGKILL) == -signal.SIGKILL
    [left] = bundle.data.glob(".faber-build-*")
    descriptor = os.open(left, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)  # returns when the installer that was orphaned has ended, too
    os.close(descriptor)
    started = [bundle.start(), bundle.start()]
    for process in started:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert json.loads(out)["argv"] == ["x"]
    assert bundle.contents() == [f"venv-{bundle.key()}-py{MINOR}"]
    assert _compiled(bundle.data / f"venv-{bundle.key()}-py{MINOR}")
    assert not list(bundle.data.glob("*/.faber-build-*"))  # a move into the winner's directory would end there


def test_only_dead_builds_are_cleared_away(tmp_path: Path) -> None:
    """The build directory of a living builder is kept; that of a dead one is removed."""
    dead, alive, foreign = (tmp_path / name for name in (".faber-build-dead", ".faber-build-alive", ".other"))
    for directory in (dead, alive, foreign):
        (directory / "lib").mkdir(parents=True)
    descriptor = os.open(alive, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with environment._workshop(tmp_path) as (own, _):
        assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {alive.name, foreign.name, own.name}
    os.close(descriptor)
    assert not own.exists()


def test_what_cannot_be_installed_is_one_line(bundle: Bundle, tmp_path: Path) -> None:
    """When packages cannot be obtained it gives the installer's reason in one line, exits with 1 and leaves nothing."""
    bundle.need_little()
    result = bundle.run(PIP_FIND_LINKS=str(tmp_path), PIP_CONFIG_FILE=os.devnull)
    first, second = result.stderr.splitlines()
    assert (result.returncode, result.stdout) == (1, "")
    assert "preparing" in first
    assert re.match(r"faber: cannot install .*little.*: check the network", second)
    assert bundle.contents() == []


def test_a_place_that_cannot_be_written_is_one_line(bundle: Bundle, tmp_path: Path) -> None:
    """If the data directory cannot be created, one line says so and what to do."""
    (tmp_path / "file").write_text("")
    result = bundle.run(XDG_DATA_HOME=str(tmp_path / "file"))
    assert (result.returncode, result.stdout) == (1, "")
    assert re.search(r"^faber: cannot write .*: set FABER_VENV .*\n\Z", result.stderr, re.MULTILINE)


def test_a_python_without_installers_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where neither pip nor ensurepip nor uv is there, the message names the package that brings one."""
    monkeypatch.setattr(environment, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", "/nowhere")
    place = environment.Place(tmp_path / "venv", ours=True)
    with pytest.raises(environment.CannotBuild, match="python3-venv"):
        environment.build(ROOT / "requirements.lock", place)
    assert os.listdir(tmp_path) == [".faber-build.lock"]
    assert capsys.readouterr().out == ""


def _compiled(directory: Path) -> list[Path]:
    return list(directory.glob("lib/python*/site-packages/__pycache__/little.*.pyc"))


@pytest.mark.full
def test_either_installer_will_do(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, needed: Callable[[str | None, str], str]
) -> None:
    """A Python that has only ensurepip, and one that has only pip, can build the environment, compiled or not."""
    needed("ensurepip" if environment.find_spec("ensurepip") else None, "this Python has no ensurepip")
    bundle.need_little()
    monkeypatch.setenv("PATH", "/nowhere")
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.setenv(name, bundle.environment[name])
    for present in ("ensurepip", "pip"):
        monkeypatch.setattr(environment, "find_spec", lambda name, present=present: name == present or None)
        place = environment.Place(tmp_path / f"by {present}", ours=True)
        environment.build(bundle.root / "requirements.lock", place, compiled=present == "pip")
        assert len(_compiled(place.directory)) == (present == "pip")
        assert subprocess.run([place.python, "-I", "-c", "import little"], check=False).returncode == 0
        monkeypatch.setattr(sys, "executable", str(place.python))  # the first brings the pip that the second uses


def _tree(directory: Path, python: str, name: str) -> Path:
    (directory / "bin").mkdir(parents=True)
    (directory / "bin" / "python").symlink_to(python)
    (directory / name).write_text("")
    return directory


def test_the_second_to_finish_yields(tmp_path: Path) -> None:
    """A build that finds its place taken by a working environment changes nothing there."""
    place = environment.Place(_tree(tmp_path / "venv", BASE_PYTHON, "first"), ours=True)
    environment._publish(_tree(tmp_path / "new", BASE_PYTHON, "second"), place)
    assert sorted(os.listdir(place.directory)) == ["bin", "first"]


def test_a_removed_pythons_environment_is_replaced(tmp_path: Path) -> None:
    """An environment whose Python has been removed gives way to a new one of the same name."""
    place = environment.Place(_tree(tmp_path / "venv", "/nowhere/python", "first"), ours=True)
    environment._publish(_tree(tmp_path / "new", BASE_PYTHON, "second"), place)
    assert sorted(os.listdir(place.directory)) == ["bin", "second"]
    assert os.listdir(tmp_path).count("new") == 0


def test_what_is_not_ours_is_never_replaced(bundle: Bundle, tmp_path: Path) -> None:
    """A FABER_VENV that holds something else is refused, and what it holds is kept."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letters").write_text("dear")
    assert "remove it, or name another" in _refused(bundle.run(FABER_VENV=str(tmp_path / "mine")))
    assert os.listdir(tmp_path / "mine") == ["letters"]
    with pytest.raises(OSError, match="not empty"):
        environment._publish(
            _tree(tmp_path / "new", BASE_PYTHON, "second"), environment.Place(tmp_path / "mine", ours=False)
        )


def test_the_name_that_a_python_keeps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment links to the interpreter's versioned name, so that an upgraded `python3` cannot slip under it."""
    plain, versioned = tmp_path / "python3", tmp_path / f"python{MINOR}"
    plain.symlink_to(BASE_PYTHON)
    monkeypatch.setattr(sys, "_base_executable", str(plain))
    assert environment._versioned_executable() == str(plain)
    versioned.symlink_to("/bin/sh")
    assert environment._versioned_executable() == str(plain)
    versioned.unlink()
    versioned.symlink_to(BASE_PYTHON)
    assert environment._versioned_executable() == str(versioned)


def test_an_orphaned_installer_keeps_its_directory(tmp_path: Path) -> None:
    """An installer holds the mark on the directory it works in, so nobody clears it away while its builder is dead."""
    with environment._workshop(tmp_path) as (_, mark):
        assert environment._run([sys.executable, "-c", f"import os; os.fstat({mark})"], mark).returncode == 0
