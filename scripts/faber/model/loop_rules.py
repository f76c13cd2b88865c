"""What a return to an earlier phase changes in the state of a run: a retry loop of its plan, and what happened to its
pull request."""

from collections.abc import Callable
from typing import Any

from faber.events.drafts import Event
from faber.events.event_types import RETRY_LOOP_ENTER, RETRY_LOOP_EXIT, RUN_REOPENED
from faber.model.documents import State
from faber.model.feedback_rules import answer_from, attach
from faber.model.gates import admits, covered
from faber.model.progress import new_step
from faber.model.rules import go_ahead, reduces

KEPT_LOOPS = 10


@reduces(RETRY_LOOP_ENTER)
def _enter_loop(state: State, event: Event) -> None:
    """Everything from `return_to` to the failed phase is repeated; skipped steps and phases stay skipped."""
    _repeat(state, event, event["phase"])
    state["loops_used"][event["phase"]] = state["loops_used"].get(event["phase"], 0) + 1
    _note(state, event)
    if state["status"] == "failed":
        go_ahead(state)


@reduces(RUN_REOPENED)
def _reopen(state: State, event: Event) -> None:
    """Everything from `return_to` is repeated, also in a completed run. A second check of a commit that failed has the
    same repair; one that comes too late has none. The pull request is open, and needs no approval to be."""
    given = event["metadata"]
    known = repair_of(state, given["commit"]) if given.get("repair") else None
    if state["status"] == "cancelled" or (known and known.get("exited")):
        return
    if known is None:
        _repeat(state, event, None, keeps=lambda gate: admits(gate, event["phase"], event.get("step")))
        state["status"], state["completed_at"] = "in_progress", None
        go_ahead(state)
    _note(state, event)
    if "response" in given:
        steps = state["phases"][given["return_to"]]["steps"]
        first = next((name for name, step in steps.items() if step["status"] != "skipped"), None)
        place = {"phase": given["return_to"], "step": first}
        asked: Any = {
            "request_id": given["source"],
            "type": "review",
            "prompt": event["message"],
            "resume_point": place,
        }
        attach(state, answer_from(event, asked), asked_for=True)


def repair_of(state: State, commit: str) -> Any:
    """The newest return because of a failed check of that commit; None if there was none."""
    loops = reversed(state["retry_loops"])
    return next((loop for loop in loops if loop.get("repair") and loop.get("commit") == commit), None)


def _repeat(state: State, event: Event, last: str | None, *, keeps: Callable[[str], bool] = lambda gate: False) -> None:
    phases: list[str] = []
    for name, phase in state["phases"].items():
        if phases or name == event["metadata"]["return_to"]:
            phases.append(name)
        if phases and phase["status"] != "skipped":
            for step in phase["steps"].values():
                if step["status"] != "skipped":
                    kept = {"attempts": step["attempts"], "feedback": step["feedback"]}
                    step.update(new_step() | kept)  # type: ignore[typeddict-item]
            phase["status"] = "pending"
            phase["completed_at"] = phase["ended_event"] = phase["failed_step"] = phase["error"] = None
        if name == last:
            break
    # The approvals were given, or are asked, for work that is now repeated.
    past = [key for key, gate in state["gates"].items() if covered(key, phases) and not (gate["answer"] and keeps(key))]
    state["gates"] = {key: gate for key, gate in state["gates"].items() if key not in past}
    state["feedback_queue"] = [each for each in state["feedback_queue"] if each["context"].get("gate") not in past]
    state["current_phase"], state["current_step"] = event["metadata"]["return_to"], None


def _note(state: State, event: Event) -> None:
    given = event["metadata"]
    loop: Any = {"event_id": event["event_id"], "phase": event["phase"], "return_to": given["return_to"]}
    loop |= {"at": event["timestamp"], "reason": event.get("message")}
    loop |= {key: given[key] for key in ("source", "commit", "repair") if given.get(key) is not None}
    state["retry_loops"] = [*state["retry_loops"], loop][-KEPT_LOOPS:]


@reduces(RETRY_LOOP_EXIT)
def _exit(state: State, event: Event) -> None:
    for loop in state["retry_loops"]:
        if loop["phase"] == event["phase"]:
            loop["exited"] = event["event_id"]
