"""What all phases of one run share."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from faber.errors import Notice
from faber.events.drafts import Draft
from faber.model.documents import State, nebula_phases
from faber.model.nebula_documents import NebulaPhase
from faber.nebula.phase.agents import Agents
from faber.nebula.phase.budget import Ledger
from faber.nebula.phase.door import Door
from faber.nebula.phase.slots import Slots
from faber.nebula.plan.specs import Nebula, PhaseSpec
from faber.nebula.worktrees.pool import PhaseTrees, Worktrees

MakeAgents = Callable[[PhaseSpec, str, threading.Event], Agents]
"""Makes coder and reviewer of a phase, whose worktree is the second argument; the event stops them."""


class Recorder(Protocol):
    """Where events of the run go: the leader's `Journal`, or a cluster worker's own recorder."""

    state: State

    @property
    def last_event_id(self) -> int:
        """The newest known event."""

    def record(self, draft: Draft) -> int:
        """Record an event; returns its id."""


@dataclass(frozen=True)
class Workshop:
    """What all phases of one run share.

    `trees` opens the phases' trees: `worktrees` itself, or the main tree. `checkpoints` is the directory of the
    checkpoint files, `label` marks the processes of the run. With `force`, a phase resumes from its checkpoint even if
    others have committed to its branch. `door` closes for all phases while the service refuses turns. `slots` number
    the phases at work.
    """

    nebula: Nebula
    journal: Recorder
    worktrees: Worktrees
    trees: PhaseTrees
    ledger: Ledger
    agents: MakeAgents
    cancel: threading.Event
    checkpoints: str
    label: str
    notice: Callable[[Notice], None]
    force: bool = False
    door: Door = field(default_factory=Door)
    slots: Slots = field(default_factory=Slots)

    def known(self, phase: str) -> NebulaPhase:
        """What the run's state says about a phase."""
        return nebula_phases(self.journal.state).get(phase, {"status": "pending"})
