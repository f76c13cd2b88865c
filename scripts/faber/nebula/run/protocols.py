"""The collaborators of a worker group: who does the work on a phase, and who shows it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from faber.errors import Notice
from faber.git.programs import Git
from faber.model.documents import State
from faber.nebula.phase.outcomes import TaskResult
from faber.nebula.phase.phase_start import Start
from faber.nebula.plan.names import Names
from faber.nebula.plan.specs import PhaseSpec
from faber.nebula.run.workshop import Workshop
from faber.nebula.worktrees.integration import Merged
from faber.nebula.worktrees.merged_work import MergedPhase


class Work(Protocol):
    """The work on one phase, such as `PhaseWork`."""

    result: TaskResult | None

    def work(self) -> TaskResult:
        """Run the phase until approval."""

    def revise(self, comment: str) -> TaskResult:
        """Run more cycles for a person's comment."""

    def pause(self) -> None:
        """The phase waits for a person."""

    def merge(self) -> Merged:
        """Merge into the integration branch."""

    def close(self) -> None:
        """Release what is held."""


MakeWork = Callable[[PhaseSpec, Start], Work]
"""Makes the work on a phase, here or on a cluster."""


class Display(Protocol):
    """Shows a run to a person."""

    def show(self, phase: str, what: str) -> None:
        """Show what happens to a phase."""

    def notice(self, notice: Notice) -> None:
        """Show a notice."""

    def heard(self, phase: str, role: str, event: Mapping[str, object]) -> None:
        """An event of an agent's stream."""

    def line(self, text: str) -> None:
        """Print one line, inert and without credentials."""

    def follow(self, look: Callable[[], State | None]) -> None:
        """Read the current state of the run from `look` from now on."""


class RemoteExecution(Protocol):
    """Has phases worked on by other machines, such as a cluster's `Fleet`."""

    @property
    def options(self) -> str:
        """The options of `faber nebula apply` that select it again, with a space before each."""

    def check(self, git: Git, isolation: str) -> None:
        """Raise a `FaberError` if the run cannot be shared with other machines."""

    def recover(self, git: Git, names: Names, merged: Sequence[MergedPhase]) -> None:
        """Fetch merged work that is gone here and still with the other machines."""

    def make_work(self, shop: Workshop, workers: int) -> MakeWork:
        """What makes the work of a run, for at most `workers` phases at once."""
