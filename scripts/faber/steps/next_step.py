"""Starts what comes next: the only place where an answer of `next_action` becomes events."""

from functools import partial
from typing import NamedTuple

from faber.context.past_failure import past_failure
from faber.context.what_next import what_next
from faber.foreign.open_run import open_run
from faber.model.acceptance import Decision
from faber.model.commands import complete_run, start_step
from faber.model.consequences import consequences
from faber.model.documents import Plan, State, is_nebula_run
from faber.model.gates import closed_gate
from faber.model.holder import was_taken
from faber.model.next import Action
from faber.steps.holding import Decide, check_held, held, takes
from faber.steps.step_evidence import base_commit
from faber.store.appending import Writer
from faber.store.commit import Committed, commit
from faber.store.load import Run
from faber.store.store_errors import Stale


class Started(NamedTuple):
    """The action to do now, and the run afterwards. `committed` is what started it: None if there was nothing to
    record, because it was in progress already or waits for somebody else."""

    action: Action
    run: Run
    committed: Committed | None


def next_of(run: Run, session_id: str | None) -> Action:
    """The one thing that this session, or a person, is to do now. Changes nothing. Raises `TakenOver` where another
    session works on a run that was taken from this one."""
    action = what_next(run, session_id)
    if action["phase"] is not None and action["step"] is not None and action["action"] == "step":
        action["failure"] = past_failure(run, action["phase"], action["step"])
    elif action["action"] == "wait" and session_id is not None and was_taken(run.state, session_id):
        check_held(run.layout, session_id, run.state)
    return action


def start_next(run: Run, by: Writer) -> Started:
    """Start the next step, open the request of the next gate, or complete the run if every step is complete.

    A step that starts now has the mode `start` or `retry`, one in progress `continue`. Nothing is recorded about
    another tool's run. Raises `ProtectedBranch`, and what `commit` raises.
    """
    while True:
        action = next_of(run, by.session_id)
        unfinished = _left_unfinished(run)
        if run.foreign or not (unfinished or _starts(run.state, action, by.session_id)):
            return Started(action, run, None)
        decide: Decide = _nothing if unfinished else partial(_start, action=action, base=_base(run, action))
        if action["action"] == "step" and not unfinished:
            decide = held(run.layout, by.session_id, decide, begins=True)
        expected = run.state["last_event_id"]
        try:
            committed = commit(run.layout, run.run_id, decide, by, expected=expected, known=run)
        except Stale:  # somebody recorded something meanwhile, perhaps this: decide again
            run = open_run(run.layout, run.run_id)
            continue
        if unfinished:
            run = committed.run
            continue
        if action["action"] != "step":
            action = next_of(committed.run, by.session_id)
        return Started({**action, "start_with": None}, committed.run, committed)


def _left_unfinished(run: Run) -> bool:
    """True if a killed writer left out events that follow, or the state; what comes next depends on them."""
    return not is_nebula_run(run.state) and bool(run.folded or consequences(run.state, run.plan))


def _nothing(state: State, plan: Plan) -> Decision:
    """`commit` itself adds what a killed writer left out."""
    return []


def _starts(state: State, action: Action, session: str | None) -> bool:
    """True if something must be recorded before the action can be done."""
    if action["mode"] == "continue" and takes(state, session):
        return True
    ends_the_run = action["action"] == "done" and action["complete_with"] is not None
    return action["action"] == "gate" or action["start_with"] is not None or ends_the_run


def _base(run: Run, action: Action) -> str | None:
    """The branch's commit before a step that writes commits. Asked before the lock: no program runs under it."""
    phase, step = action["phase"], action["step"]
    if action["action"] != "step" or phase is None or step is None:
        return None
    return base_commit(run, phase, step)


def _start(state: State, plan: Plan, *, action: Action, base: str | None) -> Decision:
    """What starts `action`, which is what comes next in this state."""
    phase, step = action["phase"], action["step"]
    if action["action"] == "step" and phase is not None and step is not None:
        return start_step(state, plan, phase, step, base_commit=base)
    gate = closed_gate(state, plan)
    if gate is None:
        return complete_run(state, plan)
    from faber.feedback.requests import NewRequest, new_request_id, open_request  # few calls reach a gate

    return open_request(state, plan, NewRequest(new_request_id(), "approval", gate_id=gate.id))
