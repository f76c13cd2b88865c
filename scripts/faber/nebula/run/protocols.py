"""Whom a worker group works with: a phase's work, who makes and shows it, who heals what failed."""

from collections.abc import Callable
from typing import Any, Protocol

from faber.errors import Notice
from faber.git.programs import Git
from faber.nebula.phase.checkpoint import Checkpoint
from faber.nebula.phase.outcomes import TaskResult
from faber.nebula.plan.graph import Dag
from faber.nebula.plan.specs import PhaseSpec
from faber.nebula.run.display import PlainRunner
from faber.nebula.run.phase_worker import Start
from faber.nebula.worktrees.integration import Merged


class Work(Protocol):
    """The work on one phase; `phase_worker.PhaseWork` is one."""

    result: TaskResult | None

    def work(self) -> TaskResult:
        """Until approval."""

    def revise(self, comment: str) -> TaskResult:
        """More cycles, for a person's comment."""

    def merge(self) -> Merged:
        """To the integration branch."""

    def close(self) -> None:
        """Give back what is held."""


class Runner(Protocol):
    """Makes the work on a phase, and shows it: plainly, or live on a terminal."""

    def run(self, spec: PhaseSpec, start: Start) -> Work:
        """The work on a phase from its beginning."""

    def run_from_checkpoint(self, checkpoint: Checkpoint, spec: PhaseSpec, start: Start) -> Work:
        """The work on a phase from the stage after `checkpoint`."""

    def show(self, phase: str, what: str, notice: Notice | None = None) -> None:
        """Tell a person what happens to a phase."""


class RemoteExecution(Protocol):
    """Has phases worked on by other machines; `nebula.cluster.leader.Fleet` is one."""

    @property
    def options(self) -> str:
        """The options of `faber nebula apply` that select it again, with a space before each."""

    def check(self, git: Git, isolation: str) -> None:
        """Raise a `FaberError` if the run cannot be shared with other machines."""

    def runner(self, shown: PlainRunner, workers: int) -> Runner:
        """The runner of a run, for at most `workers` phases at once; it shows what happens as `shown` does."""


class Healer(Protocol):
    """Puts a remediation in the place of a failed phase; `nebula.healing.healer.GroupHealer` is one.

    Only what `begin` and `resume` return is called by a worker: it asks an architect, which takes a while.
    """

    def begin(self, phase: str) -> Callable[[], object] | None:
        """What plans a remediation of a phase that failed now; None where it stays failed."""

    def resume(self, phase: str) -> Callable[[], object] | None:
        """The same for a phase that failed before this process began."""

    def is_healed(self, phase: str) -> bool:
        """True if a remediation took the phase's place."""

    def insert(self, phase: str, planned: Any, dag: Dag) -> Any:
        """The remediation's spec, and the graph with it (`healer.Inserted`)."""

    def gave_up(self, phase: str, error: BaseException) -> None:
        """There is no remediation."""

    def ended(self, phase: str, *, success: bool) -> None:
        """A phase ended, a remediation perhaps."""

    def start_of(self, phase: str) -> Start | None:
        """How a remediation begins; None for any other phase."""

    def settle(self) -> None:
        """Record what an earlier process had no time to."""

    def question(self, phase: str) -> tuple[str, dict[str, str]] | None:
        """What to ask a person before a remediation begins; None for any other phase."""

    def refused(self, phase: str, reason: str) -> None:
        """A person does not want a remediation."""
