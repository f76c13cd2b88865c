"""Recording: from a decision to the log, and the answer that every recording command gives."""

from collections.abc import Callable
from typing import Any

from faber.cli.app import Invocation
from faber.cli.arguments import standing
from faber.cli.output import print_json
from faber.foreign.resolve import LATEST, latest, resolve
from faber.github.notifications import tell
from faber.model.acceptance import Decision
from faber.model.documents import Plan, State
from faber.store.commit import Committed, commit
from faber.store.load import Run


def record(
    invocation: Invocation,
    run: str | Run,
    decide: Callable[[State, Plan], Decision],
    *,
    key: str | None = None,
    post: bool = False,
) -> None:
    """Commit `decide` to `run`, a run or the name of one, and print what was recorded and what comes next.

    What people are to be told on the issue is posted afterwards, where the configuration or `post` says so.
    """
    layout = invocation.layout
    invocation.run = run if isinstance(run, str) else run.run_id
    known = latest(layout) if run == LATEST else None if isinstance(run, str) else run
    run_id = known.run_id if known else resolve(layout, invocation.run)
    committed = commit(layout, run_id, decide, invocation.writer, key=key, known=known)
    print_json(answer(committed) | tell(invocation.layout, committed, post=post))


def answer(committed: Committed) -> dict[str, Any]:
    """`{"recorded": [event…], "repeated", …where the run stands}`."""
    recorded = [
        {key: event[key] for key in ("event_id", "type", "phase", "step", "key") if key in event}
        for event in committed.events
    ]
    return {"recorded": recorded, "repeated": committed.repeated, **standing(committed.state, committed.plan)}
