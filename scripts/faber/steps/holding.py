"""One session at a time works on a run: the check before whatever works on a step."""

import time
from collections.abc import Callable

from faber.events.workflow_events import run_held
from faber.model.acceptance import Decision, Repeated
from faber.model.documents import Plan, State
from faber.model.holder import Asking, Signs, check_holder, holds, was_taken, working
from faber.model.next import Action, held_elsewhere
from faber.store import index
from faber.store.config import load_config
from faber.store.layout import Layout

Decide = Callable[[State, Plan], Decision]


def held(layout: Layout, session: str | None, decide: Decide, *, begins: bool = False) -> Decide:
    """`decide` for the session that works on the run, or that may start to: for another one it raises
    `HeldElsewhere` or `TakenOver`. Outside a session it is `decide` itself: a person knows who works on what.

    With `begins`, a session that finds the step in progress records that it continues it.
    """

    def decide_held(state: State, plan: Plan) -> Decision:
        check_held(layout, session, state)
        decision = decide(state, plan)
        if begins and isinstance(decision, Repeated) and takes(state, session):
            return [run_held()]
        return decision

    return decide_held


def resuming(layout: Layout, session: str | None, decide: Decide) -> Decide:
    """`decide`, after which the session that resumes the run holds it, where the one that did no longer counts."""

    def decide_resumed(state: State, plan: Plan) -> Decision:
        decision = decide(state, plan)
        replaces = state["holder"] is not None and state["holder"]["session_id"] is not None and takes(state, session)
        if not replaces or isinstance(decision, Repeated) or held_by_another(layout, session, state):
            return decision
        return [*decision, run_held()]

    return decide_resumed


def held_by_another(layout: Layout, session: str | None, state: State) -> bool:
    """True if this is a session, and another one works on the run or a person took the run from this one."""
    return (
        session is not None
        and not holds(state, session)
        and working(state, _asking(layout, session, state)) is not None
    )


def takes(state: State, session: str | None) -> bool:
    """True if this is a session, and not the one that holds the run."""
    return session is not None and not holds(state, session)


def check_held(layout: Layout, session: str | None, state: State) -> None:
    """Raise `HeldElsewhere` or `TakenOver` if another session works on the run."""
    if session is not None and not holds(state, session):
        check_holder(state, _asking(layout, session, state))


def unless_held(layout: Layout, session: str | None, state: State, action: Action) -> Action:
    """`action`, but to wait where it is a step and another session works on the run. Raises `TakenOver` where the run
    was taken from this session."""
    if action["action"] != "step" or session is None or holds(state, session):
        return action
    asking = _asking(layout, session, state)
    found = working(state, asking)
    if found is None:
        return action
    if was_taken(state, session):
        check_holder(state, asking)
    return held_elsewhere(state, found, max(0, int(asking.now - found.seen)))


def _asking(layout: Layout, session: str, state: State) -> Asking:
    def signs(other: str) -> Signs:
        from faber.context import session_record

        found = session_record.signs(layout, other, session)
        # A session of another machine, whose work was brought here by a pull: the run was handed over.
        away = not found.started and index.is_bound(layout, index.PULLED, other, state["run_id"])
        return found._replace(gone=True) if away else found

    patience: int = load_config(layout).at("sessions.silent_minutes")
    return Asking(session, time.time(), patience * 60, signs)
