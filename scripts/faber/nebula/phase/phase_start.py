"""How the work on a phase starts: from a checkpoint, from its beginning, or from the work of a failed phase."""

from dataclasses import dataclass

from faber.nebula.phase.checkpoint import Checkpoint
from faber.nebula.phase.invariants import Guard


@dataclass(frozen=True)
class Start:
    """Resume from `checkpoint` if there is one; else start over, with `why` the earlier attempt was abandoned.

    `unsaved` is true if no checkpoint was written before the interruption; commits that were made are still used.
    `start` is the commit at which the branch begins (None: the integration branch). `project_context` and `guards`
    belong to a remediation phase; `remedies` is true for one, and lets its turns use the healing reserve. With
    `integrate` the integration branch is merged in first, and the coder resolves the conflicts.
    """

    checkpoint: Checkpoint | None = None
    why: str = ""
    unsaved: bool = False
    start: str | None = None
    project_context: str = ""
    guards: tuple[Guard, ...] = ()
    remedies: bool = False
    integrate: bool = False
