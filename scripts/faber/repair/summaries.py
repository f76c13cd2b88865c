"""The files of session summaries, compared with the events that they are written from."""

import os
from collections.abc import Iterator, Mapping

from faber.errors import FaberError, Notice, Severity
from faber.repair.log_check import Summary
from faber.store import strict_json
from faber.store.files import MAX_EVENT, read_json
from faber.store.layout import SUMMARIES
from faber.store.sessions import is_summary_name, unsafe_summary


def damaged_summaries(directory: str, recorded: Mapping[object, Summary]) -> dict[str, str]:
    """The summaries whose files are not what their events say, each with what is wrong with it."""
    found = {}
    for name, summary in recorded.items():
        if is_summary_name(name) and (wrong := _wrong(os.path.join(directory, SUMMARIES, name), summary)):
            found[name] = wrong
    return found


def _wrong(path: str, summary: Summary) -> str | None:
    try:
        return None if read_json(path, MAX_EVENT) == summary.content else "is not what its event says"
    except FileNotFoundError:
        return "is not on disk"
    except (OSError, FaberError, strict_json.InvalidJSON) as error:
        return f"cannot be read: {error}".rstrip(".")


def summary_problems(
    directory: str, run_id: str, recorded: Mapping[object, Summary], *, adopted: bool
) -> Iterator[Notice]:
    """Findings about the run's session summaries. An adopted run also has those of another tool, without events."""
    damaged = damaged_summaries(directory, recorded)
    for name, wrong in damaged.items():
        missing = not os.path.lexists(os.path.join(directory, SUMMARIES, name))
        yield Notice(
            "summary_missing" if missing else "summary_damaged",
            Severity.WARNING if missing else Severity.ERROR,
            f"Session summary {name}, recorded in event {recorded[name].event_id}, {wrong}.",
            f"Run `faber repair {run_id}`.",
            name,
        )
    yield from unsafe_summaries(recorded)
    for name in sorted(_listed(directory) - set(recorded)):
        if not adopted or _is_own(os.path.join(directory, SUMMARIES, name)):
            yield Notice(
                "summary_without_event",
                Severity.WARNING,
                f"No event records the session summary {name}: nothing says who wrote it, or when.",
                "It is shown and marked as such; move it away if it does not belong to this run.",
                name,
            )


def unsafe_summaries(recorded: Mapping[object, Summary]) -> list[Notice]:
    """A finding for each summary whose event names no plain file."""
    return [unsafe_summary(name, one.event_id) for name, one in recorded.items() if not is_summary_name(name)]


def _listed(directory: str) -> set[str]:
    try:
        names = os.listdir(os.path.join(directory, SUMMARIES))
    except OSError:
        return set()
    return {name for name in names if name.endswith(".json") and not name.startswith(".")}


def _is_own(path: str) -> bool:
    try:
        found = read_json(path, MAX_EVENT)
    except (OSError, FaberError, strict_json.InvalidJSON):
        return False
    return isinstance(found, dict) and "after_event_id" in found
