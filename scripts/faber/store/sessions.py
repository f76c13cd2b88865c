"""Session summaries: what one session passes to the next (context reconstitution 0.4.5)."""

import os
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from faber.errors import FaberError, InvalidInput, Notice, Severity
from faber.events.drafts import Draft, Event
from faber.events.event_types import SESSION_END
from faber.events.record_events import session_summary
from faber.model.documents import SCHEMA_VERSION, Plan, State
from faber.model.reducer import event_file
from faber.store import log, strict_json
from faber.store.appending import Writer
from faber.store.commit import NOBODY, Committed, commit
from faber.store.files import MAX_EVENT, make_directories, read_json, write_atomic
from faber.store.layout import EVENTS, SUMMARIES, SUMMARY_NAME, Layout
from faber.store.load import Run

if TYPE_CHECKING:  # the hooks and `faber context` do not pay for it
    from faber.model.session_documents import CheckedSummary, StoredSummary, SummaryParts

LISTS = ("accomplished", "decisions", "files_changed", "remaining_phases")


class SessionHistory(NamedTuple):
    """The summaries of a run, oldest first, each as in its file, and notices about unreadable ones."""

    summaries: list[dict[str, Any]]
    notices: list[Notice]


def check_summary(given: Any) -> "CheckedSummary":
    """The complete form of a summary given by a person or an agent; raises `InvalidInput`.

    The five parts may be inside `summary` or at the top level; missing lists are empty.
    """
    from faber.store.schema import problems

    if isinstance(given, dict) and "summary" not in given:
        inner = {key: given[key] for key in (*LISTS, "context_notes") if key in given}
        given = {key: value for key, value in given.items() if key not in inner} | {"summary": inner}
    found = problems("session-summary", given)
    if found:
        listed = "; ".join(f"{problem.path or 'top level'}: {problem.message}" for problem in found[:5])
        raise InvalidInput(f"Not a session summary: {listed}.", problems=[p._asdict() for p in found])
    parts = given["summary"]
    summary: SummaryParts = {
        "accomplished": parts.get("accomplished", []),
        "decisions": parts.get("decisions", []),
        "files_changed": parts.get("files_changed", []),
        "remaining_phases": parts.get("remaining_phases", []),
        "context_notes": parts.get("context_notes"),
    }
    if not any(summary.values()):
        raise InvalidInput("The session summary is empty.", recovery="State at least what was accomplished or decided.")
    return {
        "session_id": given.get("session_id"),
        "phase_completed": given.get("phase_completed"),
        "summary": summary,
    }


def save_summary(
    layout: Layout,
    run_id: str,
    given: "CheckedSummary",
    by: Writer = NOBODY,
    *,
    head_commit: str | None,
    key: str | None = None,
    known: Run | None = None,
) -> Committed:
    """Record a checked summary: `session_end` carries it, the file is its projection. Raises what `commit` does."""

    def decide(state: State, plan: Plan) -> list[Draft]:
        from faber.model.acceptance import emit

        timestamp = by.clock()
        sequence = state["session_summaries"]["count"] + 1
        document: StoredSummary = {
            "schema_version": SCHEMA_VERSION,
            "session_id": given["session_id"] or by.session_id or f"session-{sequence}",
            "sequence": sequence,
            "timestamp": timestamp,
            "phase_completed": given["phase_completed"],
            "head_commit": head_commit,
            "after_event_id": state["last_event_id"],
            "summary": given["summary"],
        }
        stamp = "".join(character for character in timestamp if character.isalnum())
        draft = session_summary(f"session-{stamp}-{sequence:04d}.json", document)
        decided = emit(state, plan, draft)
        return decided if isinstance(decided, list) else []

    def project(directory: str, state: State, event: Event) -> None:
        if "summary_file" in event.get("metadata", {}):  # false if another command's key was repeated
            write_summary(directory, event["metadata"]["summary_file"], event["metadata"]["summary"])

    return commit(layout, run_id, decide, by, key=key, project=project, known=known)


def is_summary_name(name: object) -> TypeGuard[str]:
    """True for a plain file name, which stays in the run's directory of summaries."""
    return isinstance(name, str) and SUMMARY_NAME.fullmatch(name) is not None


def unsafe_summary(name: object, event_id: int | None) -> Notice:
    """The warning for an event that names its summary's file in a way that faber never does."""
    return Notice(
        "summary_name_invalid",
        Severity.WARNING,
        f"Event {event_id} names its session summary {str(name)[:80]!a}, which is not a plain file name.",
        "No file is written for it; the event is kept.",
    )


def write_summary(run_dir: str, name: str, content: object) -> None:
    """Write a summary's file; `is_summary_name` accepts its name."""
    make_directories(os.path.join(run_dir, SUMMARIES))
    write_atomic(os.path.join(run_dir, SUMMARIES, name), strict_json.dumps(content, pretty=True))


def history(run: Run) -> SessionHistory:
    """All summaries in order: by `sequence` if faber numbered them, else by file name.

    The newest one is taken from its event if its file is missing: its writer was killed before writing it.
    """
    directory = os.path.join(run.directory, SUMMARIES)
    notices: list[Notice] = []
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".json") and not name.startswith("."))
    except FileNotFoundError:
        names = []
    except OSError as error:
        names = []
        notices.append(_problem("session_read_error", f"Session summaries cannot be listed: {error}.", directory))
    found = []
    for name in names:
        try:
            found.append(_shaped(read_json(os.path.join(directory, name), MAX_EVENT)))
            if not run.foreign and not _has_event(run.directory, found[-1]):
                found[-1]["unrecorded"] = True
                notices.append(_unrecorded(name))
        except (strict_json.InvalidJSON, _Malformed) as error:
            notices.append(_problem("session_parse_error", f"Session summary {name} is malformed: {error}.", name))
        except (OSError, FaberError) as error:
            notices.append(_problem("session_read_error", f"Session summary {name} cannot be read: {error}.", name))
    latest = run.state["session_summaries"]["latest_file"]
    event_id = run.state["session_summaries"]["latest_event"]
    if latest and event_id and latest not in names and (entry := log.probe(run.directory, event_id)):
        try:
            found.append(_shaped(log.read_event(run.directory, entry.file)["metadata"]["summary"]))
        except (FaberError, _Malformed, KeyError, TypeError):
            notices.append(_problem("session_read_error", f"Session summary {latest} is missing.", latest))
    order = [(summary.get("sequence", 0), number) for number, summary in enumerate(found)]
    return SessionHistory([found[number] for _, number in sorted(order)], notices)


def _problem(code: str, message: str, source: str) -> Notice:
    return Notice(code, Severity.WARNING, message, "It is skipped and kept; continuity may be degraded.", source)


def _has_event(run_dir: str, summary: dict[str, Any]) -> bool:
    """False if faber wrote this summary and its event, the one after the last that it knew, is not in the log."""
    after = summary.get("after_event_id")
    if not isinstance(after, int):
        return True  # another tool's
    return os.path.lexists(os.path.join(run_dir, EVENTS, event_file(after + 1, SESSION_END)))


def _unrecorded(name: str) -> Notice:
    return Notice(
        "session_unrecorded",
        Severity.WARNING,
        f"Session summary {name} has no event: nothing says who wrote it, or when.",
        "It is shown as `unrecorded`.",
        name,
    )


class _Malformed(ValueError):
    pass


def _shaped(value: Any) -> dict[str, Any]:
    """A summary as the context needs it; fields that other tools leave out are filled in."""
    if not isinstance(value, dict):
        raise _Malformed("not an object")
    inner = value.get("summary", {})
    if not isinstance(inner, dict):
        raise _Malformed("summary is not an object")
    shaped = dict(value)
    shaped["summary"] = {
        **inner,
        **{name: _texts(inner.get(name)) for name in LISTS},
        "context_notes": _text(inner.get("context_notes")),
    }
    for name in ("session_id", "phase_completed", "timestamp"):
        shaped[name] = _text(value.get(name))
    if not isinstance(value.get("sequence", 0), int):
        del shaped["sequence"]
    return shaped


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [_text(item) or "" for item in value] if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return strict_json.dumps(value).decode().strip()
