"""Texts for a session other than the brief: news, what a compaction must keep, several runs, a damaged run."""

from faber.context.resume import resume_point
from faber.events.drafts import Event
from faber.events.event_types import (
    DECISION_POINT,
    PHASE_COMPLETE,
    PHASE_SKIP,
    STEP_COMPLETE,
    STEP_RETRY,
    STEP_SKIP,
    WORKFLOW_CANCELLED,
)
from faber.hooks.lines import Line, fit, line
from faber.hooks.session_brief import (
    SHORT,
    Elsewhere,
    context_command,
    decided,
    doctor_command,
    next_command,
    point_text,
    question,
    refused,
    task,
    what_to_do,
    whereabouts,
)
from faber.model.documents import Plan, State
from faber.model.next import Action, next_action

KEEP = 3_000
SEVERAL = 4_000

# Types whose messages agents or people at the command line write; an answer's may quote an issue comment.
_SPOKEN = frozenset(
    {
        DECISION_POINT,
        PHASE_COMPLETE,
        PHASE_SKIP,
        STEP_COMPLETE,
        STEP_SKIP,
        STEP_RETRY,
        WORKFLOW_CANCELLED,
    }
)


def news(
    state: State,
    plan: Plan,
    faber: str,
    events: list[Event],
    since: int,
    elsewhere: Elsewhere | None = None,
    *,
    action: Action | None = None,
) -> str:
    """What happened since event `since`, the last that the session knows; one line if `events` is empty."""
    run_id, resume = state["run_id"], resume_point(state, plan)
    first, *rest = what_to_do(action or next_action(state, plan), faber, run_id)
    if not events:
        waits = " and waits for a person's answer" if state["feedback_request"] else ""
        position = f"faber: run {run_id} is at {point_text(resume)}{waits}; nothing new."
        return fit([Line(0, f"{position} {first.text}"), *rest, *refused(state), *whereabouts(elsewhere)], SHORT)
    return fit(
        [
            Line(0, f"faber: others recorded events in run {run_id} since event {since}:"),
            *(Line(4 + len(events) - number, f"- {event_line(event)}") for number, event in enumerate(events)),
            Line(1, f"Status now: {state['status']}. Resume point: {point_text(resume)}."),
            *whereabouts(elsewhere),
            *question(state["feedback_request"], 300),
            *refused(state),
            first,
            *rest,
            Line(2, f"Full context: {context_command(faber, run_id)}"),
        ],
        SHORT,
    )


def event_line(event: Event) -> str:
    """An event in one inert line, with what was said in it only where agents or the project's people said it."""
    place = ":".join(str(event.get(key)) for key in ("phase", "step") if event.get(key))
    problem = event.get("error")
    said = problem.get("message") if isinstance(problem, dict) else None
    if said is None and event["type"] in _SPOKEN:
        said = event.get("message")
    words = " ".join(part for part in (str(event.get("event_id")), str(event["type"]), place) if part)
    return line(f"{words}{f': {said}' if said else ''}", 200)


def keep(state: State, plan: Plan, faber: str, *, action: Action | None = None) -> str:
    """Instructions for the summary of the conversation: what it must keep, word for word."""
    run_id = state["run_id"]
    work = f" (work item {line(state['work_id'], 80)})" if state["work_id"] else ""
    return fit(
        [
            Line(0, "Keep these lines verbatim in the summary; they are needed to resume the work:"),
            Line(0, f"- faber run: {run_id}{work}"),
            *(Line(entry.rank, f"- {entry.text}") for entry in task(state, 300)),
            Line(0, f"- Resume point: {point_text(resume_point(state, plan))}"),
            *(Line(e.rank, f"- {e.text}") for e in what_to_do(action or next_action(state, plan), faber, run_id)),
            Line(1, f"- Context: {context_command(faber, run_id)}"),
            *(Line(entry.rank, f"- {entry.text}") for entry in question(state["feedback_request"], 400)),
            *(Line(entry.rank, f"- {entry.text}") for entry in decided(state, 5, 10, 300)),
        ],
        KEEP,
    )


def several(runs: list[tuple[State, Plan]], unreadable: list[tuple[str, str]], more: int, faber: str) -> str:
    """The runs between which a person has to choose: id, work item, status and resume point of each."""
    total = len(runs) + len(unreadable) + more
    lines = [
        Line(
            0,
            f"faber: {total} unfinished runs match this session. Ask the person which one to continue; do not choose.",
        ),
        *(Line(1, _entry(state, plan)) for state, plan in runs),
        *(Line(2, f"- {line(run_id, 400)}: cannot be read ({code})") for run_id, code in unreadable),
    ]
    if more:
        lines.append(Line(1, f"- and {more} more"))
    lines.append(Line(0, f"When they have chosen, run: {next_command(faber, 'RUN')} (RUN is the id)"))
    lines.append(Line(1, f"Load its context first: {context_command(faber, 'RUN')}"))
    return fit(lines, SEVERAL)


def _entry(state: State, plan: Plan) -> str:
    work = f"work item {line(state['work_id'], 80)}, " if state["work_id"] else ""
    if not work and state["target"]:
        work = f"task {line(state['target'], 100)}, "
    branch = state["artifacts"].get("branch_name")
    on = f", branch {line(branch, 100)}" if isinstance(branch, str) else ""
    return f"- {state['run_id']}: {work}{state['status']} at {point_text(resume_point(state, plan))}{on}"


def damaged(run_id: str, code: str, faber: str) -> str:
    """The only run of this session cannot be read."""
    said = (
        f"faber: run {run_id} belongs to this session but cannot be read ({code}). "
        "Tell the person; do not start another in its place."
    )
    return fit([Line(0, said), Line(0, f"To diagnose it: {doctor_command(faber, run_id)}")], SHORT)
