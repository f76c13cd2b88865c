"""Who continues a run after an event: an agent, or faber itself where the pull request comes next."""

from copy import deepcopy

from faber.context.resume import left_to_agents
from faber.model.documents import is_nebula_run
from faber.model.gates import closed_gate
from faber.model.progress import next_place, step_plan
from faber.notify.news import announce
from faber.pull_request.completing import go_on_without_agent
from faber.pull_request.readiness import step_due
from faber.store.appending import Writer
from faber.store.commit import Committed
from faber.store.load import Run

FABER = Writer(actor="faber", tell=announce)


def completed(done: Committed, wanted: bool) -> Committed:
    """What was recorded, with the run's completion where nothing else is left of it, and it is `wanted` to continue."""
    run = done.run
    if not wanted or run.state["status"] != "in_progress" or is_nebula_run(run.state):
        return done
    more = go_on_without_agent(run, FABER) if next_place(run.state, run.plan) is None else None
    return Committed([*done.events, *more.events], more.run, done.repeated) if more else done


def continued(run: Run, wanted: bool) -> dict[str, object]:
    """`resume`: an agent is to continue the run; `pull_request`: before that, `faber pull-request --as-configured` is,
    which needs a credential and no agent. Both are false where the run is not `wanted` to continue."""
    state, plan = run.state, run.plan
    due = step_due(state, plan) if wanted else None
    if due is None or step_plan(plan, *due).get("evidence") or closed_gate(state, plan) is not None:
        return {"resume": wanted, "pull_request": False}
    opened = deepcopy(state)
    opened["phases"][due[0]]["steps"][due[1]]["status"] = "completed"
    return {"resume": left_to_agents(opened, plan), "pull_request": True}
