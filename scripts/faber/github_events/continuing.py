"""Who continues a run after an event: an agent, or faber itself where the pull request comes next."""

from copy import deepcopy

from faber.context.resume import left_to_agents
from faber.model.gates import closed_gate
from faber.model.progress import step_plan
from faber.pull_request.readiness import step_due
from faber.store.load import Run


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
