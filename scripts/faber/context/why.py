"""`faber why`: what the next session would be given, and why: sizes, cuts, and the events behind the resume point.

Everything is read off the two documents that `assemble` and `context_budget` made, the whole context and the cut one.
"""

from collections.abc import Callable
from typing import Any, NotRequired, TypedDict

from faber.context.context_budget import PARTS, ROWS, size
from faber.context.context_document import ConsolidatedContext, ContextEvent
from faber.context.recent_work import shown
from faber.context.resume import resume_point
from faber.errors import FaberError
from faber.model.documents import ResumePoint
from faber.store import log
from faber.store.load import Run
from faber.text.safe_text import cut, inert

RUN = "run"  # the part of every key that no other has
_PART_OF = {row.path.partition(".")[0]: row.part for row in ROWS}
_FROM: dict[str, Callable[[ConsolidatedContext], str]] = {
    "spec": lambda whole: str(whole["artifacts"].get("spec_path")),
    "issue": lambda whole: f"work item {whole['work_id']}, the saved copy",
    "branch": lambda whole: f"git, branch {whole['artifacts'].get('branch_name')}",
    "sessions": lambda whole: "session-summaries/",
    "events": lambda whole: "events/, the newest",
    "warnings": lambda whole: "what could not be read, or not wholly",
}


class GivenPart(TypedDict):
    """One part of the context: where it comes from, its characters before and after cutting, and how many of its items
    are left, where some were left out or shortened; `command` shows it whole."""

    part: str
    source: str
    chars: int
    given: int
    kept: NotRequired[int]
    of: NotRequired[int]
    shortened: NotRequired[int]
    command: str


class GivenContext(TypedDict):
    """The context in characters: the budget (null: none), what there is, what would be given, and its parts."""

    max_chars: int | None
    chars: int
    given: int
    sources: list[GivenPart]


class GivenBrief(TypedDict):
    """The brief at the start of a session: its limit, its characters, and how many lines did not fit."""

    max_chars: int
    given: int
    dropped_lines: int


class Explanation(TypedDict):
    """What the next session would be given, and why."""

    run_id: str
    status: str
    resume_point: ResumePoint | None
    why: str
    decided_by: list[ContextEvent]
    next_command: str
    next_why: str
    context: GivenContext
    brief: GivenBrief
    warnings: list[str]


def explain(
    run: Run, whole: ConsolidatedContext, fitted: ConsolidatedContext, max_chars: int | None, brief: GivenBrief
) -> Explanation:
    """The explanation of a context: `whole` as it was assembled, and `fitted` to `max_chars`."""
    resume = resume_point(run.state, run.plan)
    return {
        "run_id": run.run_id,
        "status": run.state["status"],
        "resume_point": resume.point,
        "why": resume.why,
        "decided_by": [shown(event) for event in _events(run, resume.events)],
        "next_command": whole["next_steps"]["command"],
        "next_why": whole["next_steps"]["why"],
        "context": {
            "max_chars": max_chars,
            "chars": size(whole),
            "given": size(fitted),
            "sources": _parts(whole, fitted),
        },
        "brief": brief,
        "warnings": [warning["message"] for warning in whole["warnings"] if warning["severity"] != "INFO"],
    }


def _events(run: Run, ids: tuple[int, ...]) -> list[Any]:
    found = []
    for number in ids if not run.foreign else ():
        try:
            if entry := log.find(run.directory, number):
                found.append(log.read_event(run.directory, entry.file))
        except FaberError:
            continue  # `faber doctor` names it
    return found


def _parts(whole: ConsolidatedContext, fitted: ConsolidatedContext) -> list[GivenPart]:
    before, after = _sizes(whole), _sizes(fitted)
    omitted = {entry["what"]: entry for entry in fitted["omitted"]}
    parts: list[GivenPart] = []
    for part, command in PARTS.items():
        if not before.get(part):
            continue
        found: GivenPart = {
            "part": part,
            "source": _FROM[part](whole) if part in _FROM else "state.json",
            "chars": before[part],
            "given": after.get(part, 0),
            "command": command.format(whole["run_id"]),
        }
        if entry := omitted.get(part):
            found |= {"kept": entry["kept"], "of": entry["of"]}
            if "shortened" in entry:
                found["shortened"] = entry["shortened"]
        parts.append(found)
    return parts


def _sizes(context: ConsolidatedContext) -> dict[str, int]:
    """The characters of each part that has any content."""
    sizes: dict[str, int] = {}
    for key, value in context.items():
        if value and key != "omitted":
            part = _PART_OF.get(key, RUN)
            sizes[part] = sizes.get(part, 0) + size(value)
    return sizes


def explanation_text(found: Explanation, width: int = 80) -> str:
    """The explanation on one screen, in lines of at most `width` characters but for commands."""
    point = found["resume_point"]
    place = ":".join(part for part in (point["phase"], point["step"]) if part) if point else ""
    given, brief = found["context"], found["brief"]
    lines = [
        f"{found['run_id']} ({found['status']})",
        f"Resumes at: {place or 'the run itself'} ({point['mode']})" if point else "Resumes at: nothing",
        f"  {found['why']}",
        f"Next: {found['next_command']}",
        f"  {found['next_why']}",
    ]
    if found["decided_by"]:
        lines.append("Decided by:")
        lines += [f"  {_event(event)}" for event in found["decided_by"]]
    limit = f" of {given['max_chars']}" if given["max_chars"] else ""
    lines += ["", f"Context: {given['given']}{limit} characters ({given['chars']} before cutting)"]
    lines.append(f"  {'part':<10}{'chars':>8}{'given':>8}  {'left out':<16}source")
    lines += [
        f"  {each['part']:<10}{each['chars']:>8}{each['given']:>8}  {_left_out(each):<16}{each['source']}"
        for each in given["sources"]
    ]
    dropped = f"; {brief['dropped_lines']} lines did not fit" if brief["dropped_lines"] else ""
    lines.append(f"Brief at a session's start: {brief['given']} of {brief['max_chars']} characters{dropped}")
    lines += [f"Warning: {warning}" for warning in found["warnings"][:3]]
    if any(each["given"] < each["chars"] for each in given["sources"]):
        lines.append(f"A part whole: faber context {found['run_id']} --part PART")
    kept = ("Next: ", "A part whole: ")
    return "".join(f"{line if line.startswith(kept) else cut(inert(line), width)}\n" for line in lines)


def _event(event: ContextEvent) -> str:
    place = ":".join(str(event[key]) for key in ("phase", "step") if key in event)
    said = " ".join(str(event.get("message", "")).split())
    return " ".join(filter(None, [str(event["event_id"]), event["type"], place, event["timestamp"], said]))


def _left_out(part: GivenPart) -> str:
    said = [f"{part['of'] - part['kept']} of {part['of']}"] if part.get("of", 0) > part.get("kept", 0) else []
    said += [f"{part['shortened']} cut"] if part.get("shortened") else []
    return ", ".join(said)
