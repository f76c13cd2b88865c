"""What comes before everything else in a run that another tool made: a person adopts it."""

from typing import NamedTuple

from faber.errors import Refused
from faber.model.documents import CLOSED
from faber.store.load import Run


class PlanUnknown(Refused):
    """Nobody knows the steps of an open phase of the run: no command may count them as done."""

    code = "plan_unknown"
    recovery = "Name a workflow that has the run's phases: `faber run adopt RUN --workflow NAME`."


class AdoptionFirst(NamedTuple):
    """The command that a person runs, why, and what an agent does until then."""

    command: str
    why: str
    instruction: str


def adoption_first(run: Run) -> AdoptionFirst | None:
    """What has to be done before anything can be recorded; None for faber's own runs and for those that are over."""
    if not run.foreign or run.state["status"] in CLOSED:
        return None
    command = f"faber run adopt {run.run_id}" + (" --workflow NAME" if run.plan.get("partial") else "")
    return AdoptionFirst(
        command,
        "The run was made by another tool: until a person adopts it, faber only reads it.",
        f"Stop here and tell the person to run `{command}`. faber records nothing before that.",
    )


def check_repeatable(run: Run) -> None:
    """Raise `PlanUnknown` if the plan of a run of another tool cannot be that of a new one."""
    vague = [phase["id"] for phase in run.plan["phases"] if not phase["steps"]]
    if vague or run.plan.get("partial"):
        raise PlanUnknown(
            f"The run's plan is not known: nobody knows the steps of phase {', '.join(vague)}.",
            run_id=run.run_id,
            phases=vague,
            recovery="Begin a new run for the same work: `faber run begin`.",
        )
