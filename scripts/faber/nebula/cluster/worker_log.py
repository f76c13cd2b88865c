"""What a worker records of its phase: kept for its report and its pushes, and sent to the leader at once."""

import threading
from collections.abc import Mapping
from typing import Any, Protocol

from faber.errors import Notice
from faber.events.drafts import Draft
from faber.events.event_types import AGENT_TURN, CYCLE_COMMIT, PHASE_START
from faber.events.record_events import response_recovered
from faber.model.documents import State
from faber.model.nebula_documents import NebulaPhase
from faber.nebula.cluster.messages import Job, Pushed, ReportedEvent
from faber.responses.recovery_log import Recovery
from faber.text.safe_text import inert, shorten

MESSAGE = 2_000


class Link(Protocol):
    """A worker's connection to the leader of its run."""

    def send(self, message: Mapping[str, object]) -> None:
        """Send an event, a notice or a checkpoint. The message may be lost: events are in the report as well."""

    def stop_wanted(self) -> bool:
        """True if the leader wants the job stopped, or has been silent for too long."""


class WorkerLog:
    """The `Recorder` of one execution of a job. `executions` counts those of the job so far, this one included."""

    last_event_id = 0

    def __init__(self, job: Job, execution: str, link: Link) -> None:
        self.execution = execution
        self.executions = 1
        self.reported: list[ReportedEvent] = []
        self._phase = job.spec.id
        self._link = link
        self._lock = threading.Lock()
        known: Any = {"status": "pending", **job.known}
        self._known: NebulaPhase = known
        nebula: Any = {"phases": {self._phase: known}}
        state: Any = {"nebula": nebula}
        self.state: State = state

    def take_over(self, pushed: Pushed) -> None:
        """Continue the log of the execution that pushed this."""
        for event in pushed.events:
            self.reported.append(event)
            self._apply(event)

    def record(self, draft: Draft) -> int:
        """Keep an event and send it; the leader numbers it, so that the id here is always 0."""
        given = dict(draft.get("metadata", {}))
        if "error" in draft:
            given["error"] = draft["error"]["message"]
        text = shorten(inert(draft.get("message", "")), MESSAGE) or None
        with self._lock:
            event = ReportedEvent(
                f"{self.execution}.{len(self.reported)}", draft["type"], draft.get("status"), text, given
            )
            self.reported.append(event)
            self._apply(event)
        self._link.send({"event": event._asdict(), "executions": self.executions})
        return 0

    def recovered(self, recovery: Recovery) -> list[Notice]:
        """Record the recovery of a cut response; the leader writes it into the run's log. No notices."""
        given = {name: value for name, value in recovery._asdict().items() if name != "timestamp"}
        self.record(response_recovered(recovery.final_status, given))
        return []

    def notice(self, notice: Notice) -> None:
        """Send a notice for a person."""
        self._link.send({"notice": [notice.code, notice.severity.value, notice.message, notice.recovery]})

    def checkpoint(self, text: str) -> None:
        """Send the checkpoint that was just pushed."""
        self._link.send({"checkpoint": text, "executions": self.executions})

    def _apply(self, event: ReportedEvent) -> None:
        """Update the part of the run's state that the work on the phase reads."""
        given, known = event.metadata, self._known
        if event.type == PHASE_START:
            known["status"] = "in_progress"
            for key in ("branch", "base", "digest"):
                if given.get(key):
                    known[key] = str(given[key])
        elif event.type == CYCLE_COMMIT:
            known["commit"] = str(given.get("commit", ""))
        elif event.type == AGENT_TURN:
            known["cost"] = known.get("cost", 0.0) + float(given.get("cost_usd") or 0.0)
