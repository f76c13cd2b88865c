"""What is told beside the capsule: what is new, what to keep over a compaction, several runs, none that can be read."""

from faber.context.resume import resume_point
from faber.events.event_types import (
    CHECKPOINT,
    CONTEXT_LOADED,
    DECISION_POINT,
    HOOK_EXECUTE,
    PHASE_COMPLETE,
    PHASE_SKIP,
    SESSION_END,
    SESSION_START,
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
    whereabouts,
)
from faber.model.documents import Event, Plan, State

KEEP = 3_000
SEVERAL = 4_000

# The bookkeeping of sessions: nothing that another session has to know.
QUIET = frozenset({CHECKPOINT, SESSION_START, SESSION_END, CONTEXT_LOADED, HOOK_EXECUTE})
# Messages that agents write, or people at the command line; an answer's can hold what came with a comment.
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
    state: State, plan: Plan, faber: str, events: list[Event], since: int, elsewhere: Elsewhere | None = None
) -> str:
    """What happened after event `since`, which the session was told of; one line where `events` is empty."""
    run_id, resume = state["run_id"], resume_point(state, plan)
    if not events:
        waits = " and waits for a person's answer" if state["feedback_request"] else ""
        stands = f"faber: run {run_id} stands at {point_text(resume)}{waits}; nothing is new."
        return fit([Line(0, f"{stands} Next command: {next_command(faber, run_id)}"), *whereabouts(elsewhere)], SHORT)
    return fit(
        [
            Line(0, f"faber: run {run_id} went on without this session since event {since}:"),
            *(Line(4 + len(events) - number, _event(event)) for number, event in enumerate(events)),
            Line(1, f"Status now: {state['status']}. Resume point: {point_text(resume)}."),
            *whereabouts(elsewhere),
            *question(state["feedback_request"], 300),
            Line(0, f"Next command: {next_command(faber, run_id)}"),
            Line(2, f"The whole context: {context_command(faber, run_id)}"),
        ],
        SHORT,
    )


def _event(event: Event) -> str:
    place = ":".join(str(event.get(key)) for key in ("phase", "step") if event.get(key))
    problem = event.get("error")
    said = problem.get("message") if isinstance(problem, dict) else None
    if said is None and event["type"] in _SPOKEN:
        said = event.get("message")
    words = " ".join(part for part in (str(event.get("event_id")), str(event["type"]), place) if part)
    return line(f"- {words}{f': {said}' if said else ''}", 200)


def keep(state: State, plan: Plan, faber: str) -> str:
    """Instructions to whoever summarises the conversation: what must survive, word for word."""
    run_id = state["run_id"]
    work = f" (work item {line(state['work_id'], 80)})" if state["work_id"] else ""
    return fit(
        [
            Line(0, "Keep these lines verbatim in the summary; the work is found again by them:"),
            Line(0, f"- faber run: {run_id}{work}"),
            Line(0, f"- Resume point: {point_text(resume_point(state, plan))}"),
            Line(0, f"- Next command: {next_command(faber, run_id)}"),
            Line(1, f"- Context: {context_command(faber, run_id)}"),
            *(Line(entry.rank, f"- {entry.text}") for entry in question(state["feedback_request"], 400)),
            *(Line(entry.rank, f"- {entry.text}") for entry in decided(state, 5, 10, 300)),
        ],
        KEEP,
    )


def several(runs: list[tuple[State, Plan]], unreadable: list[tuple[str, str]], more: int, faber: str) -> str:
    """Runs between which a person has to choose: ids, work items, where each stands."""
    total = len(runs) + len(unreadable) + more
    lines = [
        Line(0, f"faber: {total} unfinished runs belong here. Ask the person which one to go on with; do not choose."),
        *(Line(1, _stand(state, plan)) for state, plan in runs),
        *(Line(2, f"- {line(run_id, 400)}: cannot be read ({code})") for run_id, code in unreadable),
    ]
    if more:
        lines.append(Line(1, f"- and {more} more"))
    lines.append(Line(0, f"Once they have chosen: {next_command(faber, 'RUN')} (RUN is the id)"))
    lines.append(Line(1, f"with the context from: {context_command(faber, 'RUN')}"))
    return fit(lines, SEVERAL)


def _stand(state: State, plan: Plan) -> str:
    work = f"work item {line(state['work_id'], 80)}, " if state["work_id"] else ""
    branch = state["artifacts"].get("branch_name")
    on = f", branch {line(branch, 100)}" if isinstance(branch, str) else ""
    return f"- {state['run_id']}: {work}{state['status']} at {point_text(resume_point(state, plan))}{on}"


def damaged(run_id: str, code: str, faber: str) -> str:
    """The one run that belongs here cannot be read."""
    said = f"faber: run {run_id} belongs here and cannot be read ({code}). Tell the person, and begin no other for it."
    return fit([Line(0, said), Line(0, f"What is wrong with it: {doctor_command(faber, run_id)}")], SHORT)
