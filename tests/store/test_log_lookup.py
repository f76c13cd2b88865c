"""Finding an event of the log by its number."""

from pathlib import Path

import pytest

from faber.store import log


@pytest.mark.parametrize("number", [1, log.SHORT, log.SHORT + 1])
def test_an_event_is_found_by_its_number(tmp_path: Path, number: int) -> None:
    """In a short log and in a long one: under its own name, not under a longer number, nor by a link to nothing."""
    events = tmp_path / "events"
    assert log.probe(str(tmp_path), number) is None
    events.mkdir()
    (events / f"{number:06d}-step_error.json").symlink_to("nothing")
    (events / f"{number:06d}0-step_start.json").touch()
    (events / f".{number:06d}-step_start.json.1.0badcafe.tmp").touch()
    assert log.probe(str(tmp_path), number) is None
    file = f"{number:06d}-step_start.json"
    (events / file).touch()
    assert log.probe(str(tmp_path), number) == log.LogEntry(number, "step_start", file)
    assert log.probe(str(tmp_path), number, ["step_error"]) is None
