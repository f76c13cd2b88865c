"""Recording: from a decision to the log, and the answer that every recording command gives."""

from collections.abc import Callable
from typing import Any

from faber.cli.app import Invocation
from faber.cli.arguments import standing
from faber.cli.output import print_json
from faber.github.notifications import tell
from faber.model.acceptance import Decision
from faber.model.documents import Plan, State
from faber.store.resolve import resolve
from faber.store.runs import Committed, commit


def record(
    invocation: Invocation,
    run: str,
    decide: Callable[[State, Plan], Decision],
    *,
    key: str | None = None,
    post: bool = False,
) -> None:
    """Commit `decide` to the run that `run` names and print what was recorded and what comes next.

    What people are to be told on the issue is posted afterwards, where the configuration or `post` says so.
    """
    invocation.run = run
    run_id = resolve(invocation.layout, run)
    committed = commit(
        invocation.layout,
        run_id,
        decide,
        key=key,
        session_id=invocation.session_id,
        actor=invocation.actor,
    )
    print_json(answer(committed) | tell(invocation.layout, committed, post=post))


def answer(committed: Committed) -> dict[str, Any]:
    """`{"recorded": [event…], "repeated", …where the run stands}`."""
    recorded = [
        {key: event[key] for key in ("event_id", "type", "phase", "step", "key") if key in event}
        for event in committed.events
    ]
    return {"recorded": recorded, "repeated": committed.repeated, **standing(committed.state, committed.plan)}
