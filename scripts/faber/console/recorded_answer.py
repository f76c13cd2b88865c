"""Recording commands: commit a decision, then print what was recorded and where the run is, or what comes next."""

from collections.abc import Callable
from typing import Any

from faber.console.invocation import Invocation
from faber.console.output import print_json
from faber.context.resume import run_position
from faber.errors import FaberError
from faber.foreign.resolve import LATEST, latest, resolve
from faber.github.notifications import tell, with_report
from faber.model.acceptance import Decision
from faber.model.documents import CLOSED, Plan, State
from faber.store.commit import Committed, commit
from faber.store.load import Run


def record(
    invocation: Invocation,
    run: str | Run,
    decide: Callable[[State, Plan], Decision],
    *,
    key: str | None = None,
    post: bool = False,
    following: bool = False,
    work: bool = False,
) -> None:
    """Commit `decide` to `run`, a run or the name of one, and print what was recorded and where the run is.

    Afterwards posts on the issue what the configuration says, requests also where `post` is true. With `following`,
    what comes next is started too, and printed instead of where the run is. With `work`, only the session that works
    on the run may do this.
    """
    layout = invocation.layout
    invocation.run = run if isinstance(run, str) else run.run_id
    known = latest(layout) if run == LATEST else None if isinstance(run, str) else run
    run_id = known.run_id if known else resolve(layout, invocation.run)
    if work:
        from faber.steps.holding import held

        decide = held(layout, invocation.session_id, decide)
    committed = commit(layout, run_id, decide, invocation.writer, key=key, known=known)
    if following:
        print_json(handed_out(invocation, committed.run, committed))
    else:
        answer = recorded_answer(committed, invocation.session_id)
        print_json(with_report(answer, tell(invocation.layout, committed, post=post)))


def recorded_answer(committed: Committed, session: str | None) -> dict[str, object]:
    """`{"recorded": [event…], "repeated": bool, …}` with the keys of `RunPosition`."""
    recorded = _shown(committed)
    return {"recorded": recorded, "repeated": committed.repeated, **run_position(committed.run, session)}


def _shown(committed: Committed) -> list[dict[str, object]]:
    return [
        {key: value for key, value in event.items() if key in ("event_id", "type", "phase", "step", "key")}
        for event in committed.events
    ]


def handed_out(
    invocation: Invocation, run: Run, first: Committed | None = None, *, only: bool = False
) -> dict[str, object]:
    """Start what comes next in `run`; returns it with what was recorded (`first` before it), without empty keys.

    The command that completes a step starts the one after it, but not with `only`.
    """
    from faber.steps.next_step import start_next

    try:
        action, run, started = start_next(run, invocation.writer)
    except FaberError as error:
        if first is not None:
            kept = [event["event_id"] for event in first.events]
            error.fields["recorded"] = kept + error.fields.get("recorded", [])
            error.fields |= with_report({}, tell(invocation.layout, first))
        raise
    made = [committed for committed in (first, started) if committed is not None]
    events = [event for committed in made for event in committed.events]
    both = Committed(events, run, all(committed.repeated for committed in made))
    answer: dict[str, object] = {"run_id": run.run_id, **action}
    if not action["person"] or run.state["status"] in CLOSED:  # it is what `complete_with` says, or nothing is left
        answer["command"] = answer["person"] = None
    if only and action["complete_with"]:
        answer["complete_with"] = action["complete_with"].removesuffix(" --next")
    answer |= {"recorded": _shown(both), "repeated": first is not None and first.repeated}
    small: dict[str, object] = _without_empty(with_report(answer, tell(invocation.layout, both)))
    return small


def _without_empty(value: Any) -> Any:
    """A JSON value without the keys that say nothing, at any depth: null, false, and what is empty."""
    if isinstance(value, list):
        return [_without_empty(each) for each in value]
    if isinstance(value, dict):
        kept = {key: _without_empty(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each is not False and each not in (None, "", [], {})}
    return value
