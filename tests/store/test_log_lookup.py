"""Whether an event follows the last one known."""

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
