"""Reading a file that anybody may have put there."""

import os
from pathlib import Path

import pytest

from faber.store.external_files import Unreadable, read_text


def test_text(tmp_path: Path) -> None:
    """A regular file of exactly the limit is read, without its byte order mark."""
    path = tmp_path / "f"
    path.write_bytes(b"\xef\xbb\xbf" + "ä".encode())
    assert read_text(path, 5) == "ä"
    with pytest.raises(Unreadable, match="larger"):
        read_text(path, 4)


def test_devices_are_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anything but a regular file is not even opened, since opening a device can act on it."""

    def opened(*_: object, **__: object) -> int:
        raise AssertionError("opened")

    monkeypatch.setattr(os, "open", opened)
    with pytest.raises(Unreadable, match="not a regular file"):
        read_text(Path("/dev/null"), 10)


@pytest.mark.parametrize("exchange", ["link", "pipe", "larger"])
def test_exchanged_after_the_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: str) -> None:
    """A file that is exchanged between the look and the opening is refused, without waiting."""
    path, look = tmp_path / "f", os.lstat
    path.write_text("x")

    def then_exchange(name: Path) -> os.stat_result:
        status = look(name)
        path.unlink()
        if exchange == "link":
            path.symlink_to("/etc/hostname")
        elif exchange == "pipe":
            os.mkfifo(path)
        else:
            path.write_text("x" * 100)
        return status

    before = os.listdir("/proc/self/fd")
    with monkeypatch.context() as patch:
        patch.setattr("faber.store.external_files.os.lstat", then_exchange)
        with pytest.raises((Unreadable, OSError)):
            read_text(path, 10)
    assert os.listdir("/proc/self/fd") == before


def test_nothing_stays_open(tmp_path: Path) -> None:
    """No descriptor is left behind, whatever came of it."""
    (tmp_path / "f").write_bytes(b"\xff")
    before = os.listdir("/proc/self/fd")
    for path in (tmp_path / "f", tmp_path, tmp_path / "none"):
        with pytest.raises((Unreadable, OSError)):
            read_text(path, 10)
    assert os.listdir("/proc/self/fd") == before
