"""One session at a time works on a run: the check before whatever works on a step."""

from collections.abc import Callable

from faber.context.what_next import asking
from faber.errors import PersonRequired
from faber.events.workflow_events import run_held
from faber.model.acceptance import Decision, Repeated
from faber.model.documents import Plan, State
from faber.model.holder import Asking, check_holder, holds, working
from faber.model.next import next_action
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


def after_failure(decide: Decide, *, agent: bool) -> Decide:
    """`decide`, but for an agent it raises `PersonRequired` where the run has failed and its plan allows no retry: a
    person decides whether it continues."""

    def decide_allowed(state: State, plan: Plan) -> Decision:
        run_id = state["run_id"]
        if agent and next_action(state, plan)["action"] == "failed":
            raise PersonRequired(
                "The run has failed, and its plan allows no more retries: a person decides whether it continues.",
                recovery=f"Stop, and report what failed. A person runs `faber run resume {run_id}`, or answers what "
                f"`faber feedback request {run_id} --type error_resolution` asks.",
            )
        return decide(state, plan)

    return decide_allowed


def resuming(layout: Layout, session: str | None, decide: Decide) -> Decide:
    """`decide`, after which the session that resumes the run holds it, where the one that did no longer counts."""

    def decide_resumed(state: State, plan: Plan) -> Decision:
        decision = decide(state, plan)
        replaces = state["holder"] is not None and state["holder"]["session_id"] is not None and takes(state, session)
        if not replaces or isinstance(decision, Repeated) or held_by_another(layout, session, state):
            return decision
        return [*decision, run_held()]

    return decide_resumed


def answered_in(session: str | None, decide: Decide) -> Decide:
    """`decide`, a person's answer that they typed in `session`: where another session holds the run, this one does
    from then on, as the person works here."""

    def decide_answered(state: State, plan: Plan) -> Decision:
        decision = decide(state, plan)
        holder = state["holder"]
        if session is None or isinstance(decision, Repeated) or holder is None or holder["session_id"] == session:
            return decision
        return [{**run_held(), "session_id": session}, *decision]

    return decide_answered


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


def _asking(layout: Layout, session: str, state: State) -> Asking:
    return asking(layout, session, state, load_config(layout))
