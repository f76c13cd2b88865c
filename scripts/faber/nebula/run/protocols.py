"""The collaborators of a worker group: who does the work on a phase, who shows it, and who heals what failed."""

from collections.abc import Callable, Mapping
from typing import Protocol

from faber.errors import Notice
from faber.git.programs import Git
from faber.model.nebula_documents import NebulaPhase
from faber.nebula.healing.architect import Planned
from faber.nebula.healing.healer import Inserted
from faber.nebula.phase.outcomes import TaskResult
from faber.nebula.phase.start import Start
from faber.nebula.plan.graph import Dag
from faber.nebula.plan.specs import PhaseSpec
from faber.nebula.run.workshop import Workshop
from faber.nebula.worktrees.integration import Merged


class Work(Protocol):
    """The work on one phase, such as `PhaseWork`."""

    result: TaskResult | None

    def work(self) -> TaskResult:
        """Run the phase until approval."""

    def revise(self, comment: str) -> TaskResult:
        """Run more cycles for a person's comment."""

    def merge(self) -> Merged:
        """Merge into the integration branch."""

    def close(self) -> None:
        """Release what is held."""


class Runner(Protocol):
    """Makes the work on a phase: here, or on a cluster."""

    def run(self, spec: PhaseSpec, start: Start) -> Work:
        """The work on a phase, from `start.checkpoint` if there is one."""


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

    def follow(self, phases: Callable[[], Mapping[str, NebulaPhase]]) -> None:
        """From now on, `phases` returns the current phases of the run."""


class RemoteExecution(Protocol):
    """Has phases worked on by other machines, such as a cluster's `Fleet`."""

    @property
    def options(self) -> str:
        """The options of `faber nebula apply` that select it again, with a space before each."""

    def check(self, git: Git, isolation: str) -> None:
        """Raise a `FaberError` if the run cannot be shared with other machines."""

    def runner(self, shop: Workshop, workers: int) -> Runner:
        """The runner of a run, for at most `workers` phases at once."""


class Healer(Protocol):
    """Inserts a remediation for a failed phase, such as `GroupHealer`.

    Only the functions that `begin` and `resume` return run in a worker: they ask an architect, which takes minutes.
    """

    def begin(self, phase: str, error: Exception) -> Callable[[], Planned] | None:
        """What plans a remediation of a phase that failed now with `error`; None if it stays failed."""

    def resume(self, phase: str) -> Callable[[], Planned] | None:
        """The same for a phase that failed before this process started."""

    def is_healed(self, phase: str) -> bool:
        """True if a remediation replaces the phase."""

    def insert(self, phase: str, planned: Planned, dag: Dag) -> Inserted:
        """Insert the remediation into the graph."""

    def gave_up(self, phase: str, error: BaseException) -> None:
        """There is no remediation."""

    def ended(self, phase: str, *, success: bool) -> None:
        """A phase ended; it may be a remediation."""

    def start_of(self, phase: str) -> Start | None:
        """How a remediation starts; None for any other phase."""

    def settle(self) -> None:
        """Record what an earlier process did not get to record."""

    def question(self, phase: str) -> tuple[str, dict[str, str]] | None:
        """What to ask a person before a remediation starts; None for any other phase."""

    def refused(self, phase: str, reason: str) -> None:
        """A person rejected a remediation."""
