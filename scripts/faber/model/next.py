"""What an agent does next: a pure function of plan and state, and the only place that decides it.

`step start` accepts only the step returned here, so an agent that forgot, skipped or invented something is
corrected by the next command it runs.
"""

from typing import Literal, TypedDict

from faber.model.documents import Evidence, Plan, State, is_nebula_run
from faber.model.gates import Gate, closed_gate
from faber.model.holder import Working, takeover_hint
from faber.model.pending_feedback import answers_for, revised
from faber.model.progress import next_place, step_plan, unplanned
from faber.model.state_parts import ErrorEntry, StepAnswer
from faber.text.safe_text import one_line

MAX_TARGET = 300


class Action(TypedDict):
    """What `faber next` returns. `complete_with` is the exact command that ends the action, `start_with` the one
    that starts a step that has not started; both are null if there is none. `target` is the task of a run created from
    words, shortened. `feedback` holds the answers of
    people that the step has to follow."""

    action: Literal["step", "gate", "wait", "done", "failed"]
    target: str | None
    phase: str | None
    step: str | None
    mode: Literal["start", "continue", "retry"] | None
    attempt: int | None
    instruction: str | None
    skill: str | None
    evidence: list[Evidence]
    start_with: str | None
    complete_with: str | None
    feedback: list[StepAnswer]
    why: str


def next_action(state: State, plan: Plan, *, loaded: bool = True) -> Action:
    """The one thing to do now. `loaded` is false in a session that has not loaded the run's context: loading it
    comes first. Has no side effect."""
    run_id, status = state["run_id"], state["status"]
    if status == "completed":
        return _end("done", "The run is completed.")
    if status == "cancelled":
        return _end("done", "The run was cancelled; there is nothing to do.")
    if status == "awaiting_feedback":
        return _wait(state)
    if state["autonomy"] == "dry-run":
        return _end("done", "A dry run only plans; `faber run show` prints the plan. There is nothing to do.")
    if not loaded:
        return {
            **_end("step", "This session has not loaded the run's context."),
            "mode": "start",
            "instruction": "Load the run's context and read all of it before anything else.",
            "complete_with": f"faber context {run_id} --record",
        }
    if is_nebula_run(state):
        return _end("done", "`faber nebula` assigns a nebula's phases to its own agents.")
    gate = closed_gate(state, plan)
    place = next_place(state, plan)
    if status == "failed" and not may_retry(state, plan):
        return _failed(state)
    if gate is not None:
        return _gate(state, gate)
    if place is None and (vague := unplanned(state, plan)):
        return {
            **_end("wait", f"Nobody knows the steps of phase {', '.join(vague)}."),
            "phase": vague[0],
            "instruction": "Stop here. A person decides whether the phase is needed: "
            f"`faber phase skip {run_id} {vague[0]}`, or `faber run cancel {run_id}`.",
        }
    if place is None:
        return {
            **_end("done", "Every step of the plan is complete; the run itself is not yet."),
            "complete_with": f"faber run complete {run_id}",
        }
    return _step(state, plan, *place)


def may_retry(state: State, plan: Plan) -> bool:
    """True if the failed run's next step failed and may be retried without asking a person."""
    place = next_place(state, plan)
    if place is None:
        return False
    known = state["phases"][place[0]]["steps"].get(place[1])
    return (
        known is not None
        and known["status"] == "failed"
        and state["error"] is None
        and known["failures"] <= step_plan(plan, *place).get("retries", 0)
    )


def _step(state: State, plan: Plan, phase: str, step: str) -> Action:
    run_id, known, planned = state["run_id"], state["phases"][phase]["steps"][step], step_plan(plan, phase, step)
    running = known["status"] == "in_progress" and state["status"] == "in_progress"
    again = not running and known["attempts"] > 0
    why = f"{phase}:{step} is the first unfinished step."
    feedback = answers_for(state, phase, step)
    sent_back = revised(feedback)
    if sent_back:
        why = f"A person asked for changes to {phase}:{step} (see `feedback`)."
    elif running:
        why = f"{phase}:{step} is in progress."
    elif known["status"] == "failed" and known["error"]:
        why = f"{phase}:{step} failed: {str(known['error'].get('message', ''))[:500]}"
    elif again:
        why = f"{phase}:{step} has to be repeated: a later phase failed, or a person asked for it."
    return {
        "action": "step",
        "target": one_line(state["target"], MAX_TARGET) if state["target"] else None,
        "phase": phase,
        "step": step,
        "mode": "continue" if running else ("retry" if again else "start"),
        "attempt": known["attempts"] + (0 if running else 1),
        "instruction": planned.get("instruction") or planned["name"],
        "skill": planned.get("skill"),
        "evidence": [] if known["waived_by"] else planned.get("evidence", []),
        "start_with": None if running else f"faber step start {run_id} {phase}:{step}",
        "complete_with": f"faber step complete {run_id} {phase}:{step}",
        "feedback": feedback,
        "why": why,
    }


def _gate(state: State, gate: Gate) -> Action:
    asked = state["gates"].get(gate.id)
    refused = asked is not None and asked.get("answer") == "reject"
    return {
        **_end("gate", f"A person must approve: {gate.prompt}" + (" (It was rejected before.)" if refused else "")),
        "phase": gate.phase,
        "step": gate.step,
        "instruction": "Open the request, report the question and the run id, and stop. Only a person can answer.",
        "complete_with": f"faber feedback request {state['run_id']} --type approval"
        f" --at {gate.phase}:{gate.step} --gate {gate.id}",
    }


def _wait(state: State) -> Action:
    request = state["feedback_request"]
    asked = f"{request['request_id']}: {request['prompt']}" if request else "an open question"
    return {
        **_end("wait", f"Waiting for a person to answer {asked}"),
        "phase": request["resume_point"]["phase"] if request else None,
        "step": request["resume_point"]["step"] if request else None,
        "instruction": "Stop here. Report the question and the run id. A person answers: with the code that faber "
        "shows them here at a terminal, in a terminal of their own, or on the issue.",
    }


def held_elsewhere(state: State, found: Working, silent: int) -> Action:
    """To wait: another session works on the run, and gave its last sign `silent` seconds ago."""
    whose = f"session {found.session_id}" if found.session_id else "the session that a person lets take over"
    return {
        **_end(
            "wait", f"Only one session works on a run: {whose} does since {found.since} (last sign {silent} s ago)."
        ),
        "instruction": f"Stop here and tell the person. {takeover_hint(state['run_id'])}",
    }


def _failed(state: State) -> Action:
    last: ErrorEntry = state["errors"][-1] if state["errors"] else {"event_id": 0}
    place = [part for part in (last.get("phase"), last.get("step")) if part]
    where = f" at {':'.join(place)}" if place else ""
    return {
        **_end("failed", f"The run failed{where}: {last.get('message') or 'no reason was recorded'}"),
        "phase": last.get("phase"),
        "step": last.get("step"),
        "instruction": "Stop here and report what failed. A person decides whether the run is resumed or cancelled.",
    }


def adopt_first(why: str, instruction: str) -> Action:
    """To wait: the run was made by another tool, and a person has to adopt it."""
    return {**_end("wait", why), "instruction": instruction}


def _end(action: Literal["step", "gate", "wait", "done", "failed"], why: str) -> Action:
    return {
        "action": action,
        "target": None,
        "phase": None,
        "step": None,
        "mode": None,
        "attempt": None,
        "instruction": None,
        "skill": None,
        "evidence": [],
        "start_with": None,
        "complete_with": None,
        "feedback": [],
        "why": why,
    }
