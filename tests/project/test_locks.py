"""The two lock files, and scripts/lock.py's eye for what is wrong with them."""

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ("requirements.lock", "requirements-dev.lock")

_spec = importlib.util.spec_from_file_location("faber_lock_script", ROOT / "scripts" / "lock.py")
assert _spec is not None
assert _spec.loader is not None
lock = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(lock)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A project that consists of the locks and what they were made from."""
    for name in (*LOCKS, "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "lock.py", tmp_path / "scripts")
    return tmp_path


def _edit(file: Path, pattern: str, replacement: str, *, rekey: bool = True) -> None:
    text, changes = re.subn(pattern, replacement, file.read_text("utf-8"), count=1)
    assert changes == 1
    if rekey:
        body = text.partition("\n")[2]
        text = lock.key_line(body) + body
    file.write_text(text, "utf-8")


def test_the_locks_are_sound() -> None:
    """Both locks carry their own key, pin every dependency with hashes, and agree with each other."""
    assert lock.problems(ROOT) == []


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_is_nothing_but_pins_and_hashes(name: str) -> None:
    """A lock names no registry and no path: beside the key it consists of pins, markers and hashes."""
    line = r"# key: [0-9a-f]{12}|[a-z0-9-]+==[0-9][\w.]*(?: ; [\w.<>=!' ]+)? \\|    --hash=sha256:[0-9a-f]{64}(?: \\)?"
    assert [text for text in (ROOT / name).read_text("utf-8").splitlines() if not re.fullmatch(line, text)] == []


def test_the_key_is_a_hash_of_the_rest() -> None:
    """The key is the first 12 hexadecimal digits of the SHA-256 of all lines but the first."""
    assert lock.key_line("") == "# key: e3b0c44298fc\n"


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda root: _edit(root / LOCKS[0], r"click==\S+", "click==0.1", rekey=False), "does not match its contents"),
        (lambda root: _edit(root / LOCKS[1], r"# key: \w", "# key: _", rekey=False), "does not match its contents"),
        (lambda root: _edit(root / LOCKS[0], r"click==\S+", "click==0.1"), "click differs"),
        (lambda root: _edit(root / LOCKS[0], r"(click==\S+) (\\\n.*)+?\n(?=\S)", r"\1\n"), "click==.* has no hash"),
        (lambda root: _edit(root / LOCKS[0], r"\nclick==", "\nclack=="), "click is not pinned"),
        (lambda root: _edit(root / LOCKS[1], r"\npytest-xdist==", "\nxdist=="), "pytest-xdist is not pinned"),
        (lambda root: _edit(root / LOCKS[0], r"\nclick==", "\n--index-url x\nclick=="), "not a pin: --index-url x"),
        (lambda root: (root / LOCKS[1]).unlink(), "requirements-dev.lock is missing"),
        (lambda root: _edit(root / "pyproject.toml", '"click', '"more>=1", "click', rekey=False), "more is not pinned"),
    ],
)
def test_check_finds(
    copy: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[Path], object],
    told: str,
) -> None:
    """`lock.py --check` answers 1 and says what is wrong with a lock that was changed by hand or forgotten."""
    monkeypatch.setattr(lock, "ROOT", copy)
    assert (lock.main(["--check"]), *capsys.readouterr()) == (0, "", "")
    spoil(copy)
    assert lock.main(["--check"]) == 1
    assert re.search(told, capsys.readouterr().err)


def test_the_check_is_a_program(copy: Path) -> None:
    """`lock.py --check` checks the locks beside it, and exits with 1 where they are wrong."""
    command = [sys.executable, "-I", str(copy / "scripts" / "lock.py"), "--check"]
    before = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (before.returncode, before.stdout, before.stderr) == (0, "", "")
    (copy / LOCKS[1]).unlink()
    after = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (after.returncode, after.stderr) == (1, f"lock.py: {LOCKS[1]} is missing\n")
