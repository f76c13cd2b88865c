"""What goes between the process that leads a run and the workers of a cluster: a job, what is pushed, a report.

Nothing of the leader's environment is in it: no variables, no credentials. A worker has its own login for the agents
and its own access to the repository.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from faber.nebula.phase.cycle import Guard
from faber.nebula.phase.cycle_state import CycleState
from faber.nebula.phase.outcomes import TaskResult
from faber.nebula.plan.specs import Nebula, PhaseSpec
from faber.nebula.run.phase_worker import MakeAgents

VERSION = 1
CHECKPOINT_REFS = "refs/faber/checkpoints"
START_REFS = "refs/faber/starts"
MAX_EVENTS = 5_000
# What a worker may have recorded: anything else in what it tells is passed over.
EVENT_TYPES = frozenset(
    {
        "phase_start",
        "checkpoint_verdict",
        "cycle_start",
        "cycle_commit",
        "cycle_complete",
        "agent_turn",
        "filter_run",
        "review",
        "response_recovery",
    }
)

Task = Literal["work", "revise", "resolve"]
MakeWorkersAgents = Callable[[Nebula, str], MakeAgents]
"""What makes the agents on a worker: given the nebula and the label of their processes. A function of a module."""


@dataclass(frozen=True)
class Job:
    """One phase for a worker.

    `faber` is the version that both must have. `attempt` grows with each job of a phase, also from one leader to the
    next; `token` is this job's own. `url` is the repository to fetch from and to push to, `start` the commit that the
    phase begins at. With `resume` what was pushed for an earlier job is gone on with, or else `checkpoint` (TOML) if it
    is given; without it, only what was pushed for this very job. `known` is what the run's state says of the phase.
    `budget` is what this job may spend in US dollars, None for no limit. `approved` is the commit that `comment` (for
    "revise"), or the merge with `base` (for "resolve", with the `failed` filter and its output), is about. After
    `executions` the job is given up. `session` is where the leader says that it lives; a worker that looks there every
    `poll` seconds and has heard nothing for `patience` seconds stops.
    """

    faber: str
    run_id: str
    nebula: Nebula
    spec: PhaseSpec
    url: str
    attempt: int
    token: str
    start: str
    agents: MakeWorkersAgents
    session: str
    resume: bool = False
    checkpoint: str | None = None
    known: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    project_context: str = ""
    guards: tuple[Guard, ...] = ()
    remedies: bool = False
    integrate: bool = False
    force: bool = False
    budget: float | None = None
    task: Task = "work"
    comment: str = ""
    approved: str = ""
    base: str = ""
    failed: tuple[str, str] | None = None
    executions: int = 5
    poll: float = 1.0
    patience: float = 120.0


class Told(NamedTuple):
    """An event of a phase as a worker tells it. `id` is the same however often it is told."""

    id: str
    type: str
    status: str | None
    message: str | None
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class Pushed:
    """What is pushed with a phase's branch: which execution wrote it, how many there were, checkpoint and events."""

    attempt: int
    token: str
    execution: str
    executions: int
    checkpoint: str | None
    events: Sequence[Told] = ()

    def to_json(self) -> str:
        """The text that is pushed; of more than five thousand events the newest."""
        return json.dumps(
            {
                "version": VERSION,
                "attempt": self.attempt,
                "token": self.token,
                "execution": self.execution,
                "executions": self.executions,
                "checkpoint": self.checkpoint,
                "events": [event._asdict() for event in self.events[-MAX_EVENTS:]],
            }
        )


def pushed_of(text: str) -> Pushed | None:
    """What a worker pushed; None for what no faber of this version did."""
    try:
        raw = json.loads(text)
        if raw["version"] != VERSION:
            return None
        events = tuple(told for each in raw["events"] if (told := told_of(each)) is not None)
        checkpoint = raw["checkpoint"]
        return Pushed(
            int(raw["attempt"]),
            str(raw["token"]),
            str(raw["execution"]),
            int(raw["executions"]),
            None if checkpoint is None else str(checkpoint),
            events,
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def told_of(raw: Any) -> Told | None:
    """An event that came from outside; None for what is none, and for types that are not a worker's to record."""
    if not isinstance(raw, Mapping) or raw.get("type") not in EVENT_TYPES:
        return None
    told, metadata = raw.get("id"), raw.get("metadata")
    if not isinstance(told, str) or not 0 < len(told) <= 100 or not isinstance(metadata, Mapping):
        return None
    status, message = raw.get("status"), raw.get("message")
    return Told(
        told,
        raw["type"],
        None if status is None else str(status),
        None if message is None else str(message),
        {str(key): value for key, value in metadata.items()},
    )


@dataclass(frozen=True)
class Report:
    """How a job ended on a worker: with an approved `result`; or `ended` names the `LoopEnded` that it ended with, with
    its `reason`, `state`, and for a budget `spent` and `limit`; or `error` is another error's code, message, way out.

    `superseded`: a newer execution of the phase took over, nothing of this one counts but what it cost.
    """

    execution: str
    events: Sequence[Told] = ()
    result: TaskResult | None = None
    ended: str = ""
    reason: str = ""
    state: CycleState | None = None
    spent: float = 0.0
    limit: float = 0.0
    error: tuple[str, str, str] | None = None
    superseded: bool = False
