"""Recording commands: commit a decision, then print what was recorded and where the run is."""

from collections.abc import Callable

from faber.cli.invocation import Invocation
from faber.cli.output import print_json
from faber.context.resume import run_position
from faber.foreign.resolve import LATEST, latest, resolve
from faber.github.notifications import tell, with_report
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

    Afterwards posts on the issue what the configuration says, requests also where `post` is true.
    """
    layout = invocation.layout
    invocation.run = run if isinstance(run, str) else run.run_id
    known = latest(layout) if run == LATEST else None if isinstance(run, str) else run
    run_id = known.run_id if known else resolve(layout, invocation.run)
    committed = commit(layout, run_id, decide, invocation.writer, key=key, known=known)
    print_json(with_report(recorded_answer(committed), tell(invocation.layout, committed, post=post)))


def recorded_answer(committed: Committed) -> dict[str, object]:
    """`{"recorded": [event…], "repeated": bool, …}` with the keys of `RunPosition`."""
    recorded = [
        {key: value for key, value in event.items() if key in ("event_id", "type", "phase", "step", "key")}
        for event in committed.events
    ]
    return {"recorded": recorded, "repeated": committed.repeated, **run_position(committed.state, committed.plan)}
