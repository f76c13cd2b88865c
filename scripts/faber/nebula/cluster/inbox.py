"""What the leader accepts from the workers of one phase: events, checkpoints, notices.

Everything a worker sends is treated as data from outside. Events must be of the types that a worker may report, and
are recorded under the worker's own phase, each once.
"""

from collections.abc import Mapping
from dataclasses import replace

from faber.errors import FaberError, InvalidInput, Notice, Severity
from faber.events.drafts import draft
from faber.events.event_types import AGENT_TURN, RESPONSE_RECOVERED
from faber.nebula.cluster.messages import EVENT_TYPES, ReportedEvent, reported_event
from faber.nebula.phase.checkpoint import from_toml, save
from faber.nebula.run.recorder import Journal
from faber.nebula.run.workshop import Workshop
from faber.responses.recovery_log import RecoveryLog, recovery_of

_RESERVED = frozenset({"type", "phase", "status", "message", "error", "once"})


class PhaseInbox:
    """Receives what the workers of `phase` send. `cost_usd` is what their turns cost since this leader began."""

    def __init__(self, shop: Workshop, journal: Journal, phase: str) -> None:
        self.cost_usd = 0.0
        self._shop = shop
        self._journal = journal
        self._phase = phase
        self._recoveries = RecoveryLog(journal.layout, run_id=journal.run_id)
        self._recorded: set[str] = set()
        self._executions = 0

    def next_job(self) -> None:
        """Another job of the phase begins; its executions are counted from one."""
        self._executions = 0

    def receive(self, message: Mapping[str, object]) -> None:
        """Take in one message. Of an execution that was given up, only the cost of its turns counts."""
        number = message.get("executions")
        current = not isinstance(number, int) or number >= self._executions
        if isinstance(number, int):
            self._executions = max(self._executions, number)
        event, text, notice = reported_event(message.get("event")), message.get("checkpoint"), message.get("notice")
        if event is not None and (current or event.type == AGENT_TURN):
            self.record(event)
        if isinstance(text, str) and current:
            self._mirror(text)
        if isinstance(notice, list | tuple) and len(notice) == 4 and notice[1] in Severity.__members__:
            code, severity, said, recovery = map(str, notice)
            self._shop.notice(Notice(code, Severity(severity), said, recovery, self._phase))

    def record(self, event: ReportedEvent) -> None:
        """Record an event once, however often it is reported, by whichever worker, to whichever leader of the run."""
        if event.id in self._recorded or event.type not in EVENT_TYPES:
            return
        self._recorded.add(event.id)
        last, given = self._journal.last_event_id, event.metadata
        try:
            made = self._append(event, f"{self._phase}.{event.id}")
        except InvalidInput as refused:
            text = f"An event of {self._phase} was not recorded: {refused.message}"
            self._shop.notice(Notice(refused.code, Severity.WARNING, text, "", self._phase))
            return
        cost = given.get("cost_usd")
        if made > last and event.type == AGENT_TURN and isinstance(cost, int | float):
            self.cost_usd += max(0.0, float(cost))

    def _append(self, event: ReportedEvent, key: str) -> int:
        """The event's id in the log, or the one that it got when it was recorded before."""
        given = event.metadata
        if event.type == RESPONSE_RECOVERED:
            for notice in self._recoveries.record(recovery_of(given), key):
                self._shop.notice(notice)
            return self._journal.last_event_id
        error = given.get("error")
        made = draft(
            event.type,
            self._phase,
            status=event.status,
            message=event.message,
            error=None if error is None else str(error),
            metadata={name: value for name, value in given.items() if name not in _RESERVED},
        )
        return self._journal.record(made, once=key)

    def _mirror(self, text: str) -> None:
        """Write the checkpoint beside the nebula's files, as if the phase were worked on here."""
        try:
            checkpoint = from_toml(text)
            if checkpoint.phase_id == self._phase:
                save(self._shop.checkpoints, replace(checkpoint, event_id=self._journal.last_event_id))
        except FaberError as error:
            text = f"The checkpoint of {self._phase} could not be written: {error.message}"
            self._shop.notice(Notice("checkpoint_unwritten", Severity.WARNING, text, error.recovery, self._phase))
