"""The messages between the leader of a run and the workers of a cluster: a job, what is pushed, a report.

They carry nothing of the leader's environment: no variables, no credentials. A worker has its own login for the agents
and its own access to the repository.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from faber.agents.pipeline import Record
from faber.events.event_types import worker_types
from faber.nebula.phase.cycle_state import CycleState
from faber.nebula.phase.outcomes import TaskResult
from faber.nebula.phase.phase_start import Start
from faber.nebula.plan.specs import Nebula, PhaseSpec
from faber.nebula.run.workshop import MakeAgents

VERSION = 1
CHECKPOINT_REFS = "refs/faber/checkpoints"
START_REFS = "refs/faber/starts"
MAX_EVENTS = 5_000
# A worker's event of any other type is dropped.
EVENT_TYPES = worker_types()

Task = Literal["work", "revise", "resolve"]
Hear = Callable[[Mapping[str, object]], None]
"""Receives a message of a worker; `inbox.PhaseInbox.receive` says which there are."""
MakeWorkersAgents = Callable[[Nebula, str, Record], MakeAgents]
"""Makes the agents on a worker from the nebula, the label of their processes, and what records their recoveries.

It is pickled by its name: a function at the top of a module.
"""


@dataclass(frozen=True)
class Job:
    """One phase for a worker.

    `faber` is the version that leader and worker must share. `attempt` grows with each job of a phase, also across
    leaders; `token` identifies this job. `url` is the repository to fetch from and push to. `start` says how the phase
    starts; it names a commit and no checkpoint. `known` is the phase's entry in the run's state.

    With `resume` the worker continues from what was pushed for an earlier job, or else from `checkpoint` (TOML) if it
    is given; without `resume`, only from what was pushed for this job. `budget` is what this job may spend in US
    dollars, None for no limit.

    `approved` is the commit that the task is about: "revise" it for `comment`, or "resolve" its merge with `base`,
    where `failed` is the filter that failed on that merge and its output.

    The job fails after `executions` attempts. Every `poll` seconds a worker looks whether it is to stop. `wait` are the
    seconds for which limits and outages are waited out.
    """

    faber: str
    run_id: str
    nebula: Nebula
    spec: PhaseSpec
    url: str
    attempt: int
    token: str
    start: Start
    agents: MakeWorkersAgents
    resume: bool = False
    checkpoint: str | None = None
    known: Mapping[str, Any] = field(default_factory=dict)
    force: bool = False
    budget: float | None = None
    task: Task = "work"
    comment: str = ""
    approved: str = ""
    base: str = ""
    failed: tuple[str, str] | None = None
    executions: int = 5
    poll: float = 1.0
    wait: float = 0.0

    def left(self) -> "LeftJob":
        """What a later leader needs to know of it."""
        return LeftJob(self.token, self.faber, self.spec.digest, self.budget)


class LeftJob(NamedTuple):
    """A job of an earlier leader that the cluster still has: waiting, worked on, or done. As in `Job`; `digest` is that
    of the phase's file."""

    token: str
    faber: str
    digest: str
    budget: float | None


class ReportedEvent(NamedTuple):
    """An event of a phase as a worker reports it. `id` stays the same however often it is reported."""

    id: str
    type: str
    status: str | None
    message: str | None
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class Pushed:
    """What is pushed with a phase's branch, by the execution named `execution`, number `executions` of its job."""

    attempt: int
    token: str
    execution: str
    executions: int
    checkpoint: str | None
    events: Sequence[ReportedEvent] = ()

    def to_json(self) -> str:
        """The text that is pushed, with at most the newest `MAX_EVENTS` events."""
        events = [event._asdict() for event in self.events[-MAX_EVENTS:]]
        return json.dumps({"version": VERSION, **vars(self), "events": events})


def pushed_of(text: str) -> Pushed | None:
    """What a worker pushed; None for anything that this version of faber did not write."""
    try:
        raw = json.loads(text)
        if raw["version"] != VERSION:
            return None
        events = tuple(event for each in raw["events"] if (event := reported_event(each)) is not None)
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


def reported_event(raw: Any) -> ReportedEvent | None:
    """An event from a worker; None if it is malformed or of a type that a worker may not report."""
    if not isinstance(raw, Mapping) or raw.get("type") not in EVENT_TYPES:
        return None
    name, metadata = raw.get("id"), raw.get("metadata")
    if not isinstance(name, str) or not 0 < len(name) <= 100 or not isinstance(metadata, Mapping):
        return None
    status, message = raw.get("status"), raw.get("message")
    return ReportedEvent(
        name,
        raw["type"],
        None if status is None else str(status),
        None if message is None else str(message),
        {str(key): value for key, value in metadata.items()},
    )


@dataclass(frozen=True)
class Report:
    """How a job ended on a worker.

    Either `result` is approved; or `ended` names the subclass of `LoopEnded` that was raised, with its `reason`,
    `result`, `state`, and for a budget `spent` and `limit`; or `error` is another error's code, message and recovery.
    If `superseded`, a newer execution took over the phase, and only the cost of this one counts.

    `worker` did it. If the service refused its turns, `rest` are the seconds after which it may be asked again;
    `hopeless` if a person has to do something first.
    """

    execution: str
    events: Sequence[ReportedEvent] = ()
    result: TaskResult | None = None
    ended: str = ""
    reason: str = ""
    state: CycleState | None = None
    spent: float = 0.0
    limit: float = 0.0
    error: tuple[str, str, str] | None = None
    superseded: bool = False
    worker: str = ""
    rest: float = 0.0
    hopeless: bool = False
