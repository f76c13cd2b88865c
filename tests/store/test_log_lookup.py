"""Whether an event follows the last one known."""

import os
from pathlib import Path

import pytest

from faber.store import log


@pytest.mark.parametrize("number", [1, log.SHORT, log.SHORT + 1])
def test_the_next_event_is_found(tmp_path: Path, number: int) -> None:
    """In a short log and in a long one: under its own name, not under a longer number, nor by a link to nothing."""
    events = tmp_path / "events"
    assert log.following(str(tmp_path), number - 1) is None
    events.mkdir()
    (events / f"{number:06d}-step_error.json").symlink_to("nothing")
    (events / f"{number:06d}0-step_start.json").touch()
    (events / f".{number:06d}-step_start.json.1.0badcafe.tmp").touch()
    assert log.following(str(tmp_path), number - 1) is None
    file = f"{number:06d}-step_start.json"
    (events / file).touch()
    assert log.following(str(tmp_path), number - 1) == log.LogEntry(number, "step_start", file)


def test_a_short_log_is_looked_up_by_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No name is looked up where the few that there are begin otherwise, and none is listed in a long log."""
    (tmp_path / "events").mkdir()
    with monkeypatch.context() as patched:
        patched.setattr("os.access", None)
        assert log.following(str(tmp_path), log.SHORT - 1) is None
    monkeypatch.setattr("os.listdir", None)
    assert log.following(str(tmp_path), log.SHORT) is None
    assert log.probe(str(tmp_path), 1) is None


def test_what_follows_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state that is far behind a long log does not list it again for each event."""
    (tmp_path / "events").mkdir()
    for number in (1, 2, 3):
        (tmp_path / "events" / f"{number:06d}-step_start.json").write_text(
            f'{{"event_id": {number}, "type": "step_start", "timestamp": ""}}'
        )
    listed: list[str] = []
    monkeypatch.setattr("os.listdir", lambda path, look=os.listdir: listed.append(path) or look(path))
    assert [event["event_id"] for event in log.after(str(tmp_path), 0)] == [1, 2, 3]
    assert len(listed) == 1
