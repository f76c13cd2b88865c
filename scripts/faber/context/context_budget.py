"""Fitting a context into a budget: whole items are cut, in a fixed order of value, and every cut is listed."""

import json
from collections.abc import Callable, Mapping
from typing import TypeVar

from faber.context.context_document import ConsolidatedContext, Omission

DEFAULT_MAX_CHARS = 24_000
SMALLEST_MAX_CHARS = 4_000

T = TypeVar("T")
# Cuts about so many characters from a context of a run; the omission, None where nothing was cut.
Cut = Callable[[ConsolidatedContext, int, str], Omission | None]


def size(value: object) -> int:
    """Characters of `value` as it is printed."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def fit(context: ConsolidatedContext, max_chars: int | None) -> ConsolidatedContext:
    """`context` cut to `max_chars` characters of compact JSON (None: no limit), with `omitted` filled.

    The resume point, the feedback request, the last session's decisions and unresolved errors are never cut. Where
    they alone exceed the budget, everything else is cut. `context` itself is not changed.
    """
    if max_chars is None or size(context) <= max_chars:
        return context
    fitted: ConsolidatedContext = json.loads(json.dumps(context))
    run_id = context["run_id"]
    for cut in _CUTS:
        over = size(fitted) - max_chars
        if over <= 0:
            break
        omission = cut(fitted, over + _OMISSION_ROOM + len(run_id), run_id)
        if omission:
            _note(fitted["omitted"], omission)
    return fitted


# The size of an entry of `omitted`, less the run id in its command.
_OMISSION_ROOM = 220


def _note(omitted: list[Omission], omission: Omission) -> None:
    """Add an omission; a second cut of the same thing updates its entry."""
    earlier = next((entry for entry in omitted if entry["what"] == omission["what"]), None)
    if earlier:
        earlier["kept"] = omission["kept"]
    else:
        omitted.append(omission)


def _omission(what: str, kept: int, total: int, unit: str, command: str) -> Omission:
    return {"what": what, "kept": kept, "of": total, "unit": unit, "command": command}


def _parent(context: Mapping[str, object], path: str) -> tuple[dict[str, object] | None, str]:
    *parents, last = path.split(".")
    at: object = context
    for part in parents:
        at = at.get(part) if isinstance(at, dict) else None
    return (at if isinstance(at, dict) else None), last


def _drop(items: list[T], over: int, keep: int, oldest_first: bool) -> list[T]:
    """`items` without as many as it takes to save `over` characters; at least `keep` stay."""
    saved = gone = 0
    while saved < over and len(items) - gone > keep:
        saved += size(items[gone if oldest_first else -1 - gone]) + 1
        gone += 1
    return items[gone:] if oldest_first else items[: len(items) - gone]


def _cut_list(path: str, command: str, *, keep: int = 0, oldest_first: bool = True) -> Cut:
    def cut(context: ConsolidatedContext, over: int, run_id: str) -> Omission | None:
        holder, key = _parent(context, path)
        items = holder.get(key) if holder else None
        if holder is None or not isinstance(items, list) or len(items) <= keep:
            return None
        left = _drop(items, over, keep, oldest_first)
        holder[key] = left
        return _omission(path, len(left), len(items), "items", command.format(run_id)) if left != items else None

    return cut


def _cut_text(path: str, command: str) -> Cut:
    """Cut whole paragraphs from the end; a text of one paragraph is cut as a whole."""

    def cut(context: ConsolidatedContext, over: int, run_id: str) -> Omission | None:
        holder, key = _parent(context, path)
        text = holder.get(key) if holder else None
        if holder is None or not isinstance(text, str) or not text:
            return None
        paragraphs = text.split("\n\n")
        left = _drop(paragraphs, over, 0, False)
        holder[key] = "\n\n".join(left) if left else None
        return _omission(path, len(left), len(paragraphs), "paragraphs", command.format(run_id))

    return cut


def _cut_entries(path: str, command: str, *, keep: tuple[str, ...] = ()) -> Cut:
    """Cut whole entries of an object, the largest first."""

    def cut(context: ConsolidatedContext, over: int, run_id: str) -> Omission | None:
        holder, key = _parent(context, path)
        entries = holder.get(key) if holder else None
        if holder is None or not isinstance(entries, dict):
            return None
        saved, left = 0, dict(entries)
        for name in sorted(entries.keys() - set(keep), key=lambda n: (-size({n: entries[n]}), n)):
            if saved >= over:
                break
            saved += size({name: left.pop(name)}) - 1
        holder[key] = left
        return _omission(path, len(left), len(entries), "entries", command.format(run_id)) if left != entries else None

    return cut


def _cut_quiet_events(context: ConsolidatedContext, over: int, run_id: str) -> Omission | None:
    """Cut events that only say that something started before those that say how it ended."""
    events = context["events"] or []
    saved, left = 0, list(events)
    for event in events[:-3]:
        if saved >= over:
            break
        if not event.get("notable"):
            saved += size(event) + 1
            left.remove(event)
    if len(left) == len(events):
        return None
    context["events"] = left
    return _omission("events", len(left), len(events), "items", f"faber event list {run_id} --last 20")


def _cut_infos(context: ConsolidatedContext, over: int, run_id: str) -> Omission | None:
    warnings = context["warnings"]
    left = [warning for warning in warnings if warning["severity"] != "INFO"]
    kept = _drop(left, over - (size(warnings) - size(left)), 5, False)
    context["warnings"] = kept
    full = f"faber context {run_id} --full"
    return _omission("warnings", len(kept), len(warnings), "items", full) if kept != warnings else None


_FULL = "faber context {} --full"
_EVENTS = "faber event list {} --last 20"
_SESSIONS = "faber session list {}"
_ANSWERS = "faber feedback history {}"
# The least valuable first.
_CUTS: tuple[Cut, ...] = (
    _cut_quiet_events,
    _cut_list("answers", _ANSWERS, keep=3),
    _cut_list("session_history.all_summaries", _SESSIONS, keep=1),
    _cut_text("spec.content", _FULL),
    _cut_entries("spec.front_matter", _FULL),
    _cut_list("issue.comments", _FULL, keep=3),
    _cut_list("branch.files_changed", _FULL, keep=5, oldest_first=False),
    _cut_list("branch.dirty_files", _FULL, keep=5, oldest_first=False),
    _cut_infos,
    _cut_list("session_summary.files_changed", _SESSIONS, oldest_first=False),
    _cut_list("session_history.latest.summary.files_changed", _SESSIONS, oldest_first=False),
    _cut_list("session_history.latest.summary.decisions", _SESSIONS, keep=10),
    _cut_text("spec.technical_approach", _FULL),
    _cut_list("spec.files_to_modify", _FULL, oldest_first=False),
    _cut_list("spec.phases", _FULL, oldest_first=False),
    _cut_text("spec.functional_requirements", _FULL),
    _cut_list("events", _EVENTS, keep=3),
    _cut_list("failures", "faber run show {}", keep=3, oldest_first=False),
    _cut_text("issue.description", _FULL),
    _cut_list("issue.comments", _FULL),
    _cut_list("issue.labels", _FULL, oldest_first=False),
    _cut_list("session_history.all_summaries", _SESSIONS),
    _cut_list("session_history.latest.summary.accomplished", _SESSIONS),
    _cut_text("session_history.latest.summary.context_notes", _SESSIONS),
    _cut_list("session_history.latest.summary.remaining_phases", _SESSIONS, oldest_first=False),
    _cut_list("decisions_made", "faber event list {} --type decision_point", keep=3),
    _cut_list("branch.commits", _FULL, keep=1, oldest_first=False),
    _cut_list("branch.commits_since_session", _FULL, keep=1, oldest_first=False),
    _cut_text("spec.goals", _FULL),
    _cut_text("spec.summary", _FULL),
    _cut_list("session_summary.accomplished", _SESSIONS),
    _cut_list("session_summary.remaining_phases", _SESSIONS, oldest_first=False),
    _cut_list("spec.acceptance_criteria", _FULL, oldest_first=False),
    _cut_text("session_summary.context_notes", _SESSIONS),
    _cut_list("next_steps.remaining", "faber run show {}", keep=3, oldest_first=False),
    _cut_entries("artifacts", "faber run show {}", keep=("branch_name", "spec_path")),
    _cut_list("nebula.phases", "faber status {} --format json", keep=20, oldest_first=False),
    _cut_list("answers", _ANSWERS),
    _cut_list("events", _EVENTS),
    _cut_list("feedback", _ANSWERS, keep=1),
    _cut_list("decisions_made", "faber event list {} --type decision_point"),
)
