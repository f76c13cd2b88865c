"""Where a run is, whoever made it."""

from faber.context.resume import RunPosition, run_position
from faber.foreign.unadopted import adoption_first
from faber.store.load import Run


def standing(run: Run) -> RunPosition:
    """Where the run is and the command that continues it; that of another tool has to be adopted first."""
    position = run_position(run.state, run.plan)
    if first := adoption_first(run):
        position["next_command"] = first.command
    return position
