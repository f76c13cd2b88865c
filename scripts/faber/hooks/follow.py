"""The monitor of a session: prints a line when somebody else answered in the session's run, or when a phase or the run
ended, so that nobody asks in a loop."""

import os
import time
from typing import NamedTuple

from faber.context import session_record
from faber.context.what_next import what_next
from faber.errors import FaberError
from faber.events import event_types
from faber.events.drafts import Event
from faber.hooks.hook_call import Call, say
from faber.hooks.notes import event_line
from faber.hooks.run_lookup import of_session
from faber.hooks.session_brief import what_to_do
from faber.hooks.session_memory import client_process, machine
from faber.store import index, log
from faber.store.layout import EVENTS, Layout
from faber.store.load import Run, load

EVERY = 2.0  # seconds between two looks
SETTLED = 1.0  # seconds after which a writer is through with what belongs to an event
TOLD = frozenset(
    {
        event_types.FEEDBACK_RECEIVED,
        event_types.PHASE_COMPLETE,
        event_types.PHASE_ERROR,
        event_types.WORKFLOW_COMPLETE,
        event_types.WORKFLOW_ERROR,
        event_types.WORKFLOW_CANCELLED,
        event_types.RUN_REOPENED,
    }
)


def follow(call: Call) -> None:
    """Follow the run of this client's session until the client, or what started this process, is gone."""
    parent, client = os.getppid(), client_process()
    follower = SessionMonitor(call.layout, client, call.session)
    while os.getppid() == parent and client and session_record.alive(client):
        for text in follower.look(call.faber):
            say(text + "\n")
        time.sleep(EVERY)


class _Seen(NamedTuple):
    """When the files changed that say which run is followed, and whether it has news."""

    records: float
    bindings: tuple[float, ...]


class SessionMonitor:
    """What this client's sessions work on, and how far its log was read. A look without news costs a few `stat`s."""

    def __init__(self, layout: Layout, client: int, session: str | None) -> None:
        self.layout, self.client = layout, client
        self.sessions = [session] if session else []
        self.directory, self.run_id, self.event_id = "", "", 0
        self.settled = SETTLED
        self._seen: _Seen | None = None
        self._log = 0.0

    def look(self, faber: str) -> list[str]:
        """The lines to print now."""
        self._choose()
        changed = session_record.changed(os.path.join(self.directory, EVENTS)) if self.directory else 0.0
        if changed == self._log or abs(time.time() - changed) < self.settled:
            return []
        self._log = changed
        try:
            events = log.after(self.directory, self.event_id)
            found = self._of_others(events)
            self.event_id = events[-1]["event_id"] if events else self.event_id
            return self._lines(found, faber) if found else []
        except (FaberError, OSError):
            return []

    def _choose(self) -> None:
        """Follow the run that one of the sessions worked on last, from its newest event on."""
        records = os.path.join(self.layout.index, index.RECORDS)
        if self._seen is None or session_record.changed(records) != self._seen.records:
            known = session_record.of_client(self.layout, self.client, machine())
            self.sessions = [*dict.fromkeys([*self.sessions, *known])]
        bindings = [os.path.join(self.layout.index, index.SESSIONS, index.file_name(each)) for each in self.sessions]
        seen = _Seen(session_record.changed(records), tuple(map(session_record.changed, bindings)))
        if seen == self._seen:
            return
        self._seen = seen
        run = self._run()
        if run and run.run_id != self.run_id:
            self.directory, self.run_id, self.event_id = run.directory, run.run_id, run.state["last_event_id"]
            self._log = session_record.changed(os.path.join(run.directory, EVENTS))

    def _run(self) -> Run | None:
        for session in reversed(self.sessions):
            if bound := of_session(self.layout, session):
                return bound.one
        for session in reversed(self.sessions):
            record = session_record.read(self.layout, session)
            try:
                if record and record.run_id:
                    return load(self.layout, record.run_id)
            except (FaberError, OSError):
                continue
        return None

    def _of_others(self, events: list[Event]) -> list[Event]:
        """Those that a session should hear of: neither its own, nor what follows from them, nor what it was told, nor
        an answer that was typed in a client: the hook that took it has told that session."""
        told = max((r.event_id for s in self.sessions if (r := session_record.read(self.layout, s))), default=0)
        found, own = [], (False, "")
        for event in events:
            if "session_id" in event:
                own = (event["session_id"] in self.sessions, event.get("client", ""))
            elif event.get("client", "") != own[1]:
                own = (False, event.get("client", ""))
            typed = event["type"] == event_types.FEEDBACK_RECEIVED and "client" in event
            if event["type"] in TOLD and not own[0] and not typed and event["event_id"] > told:
                found.append(event)
        return found

    def _lines(self, events: list[Event], faber: str) -> list[str]:
        """One line for each event and what to do now; none for an answer after which another is still awaited."""
        run = load(self.layout, self.run_id)
        if run.state["feedback_request"]:
            events = [event for event in events if event["type"] != event_types.FEEDBACK_RECEIVED]
        action = what_next(run, self.sessions[-1] if self.sessions else None)
        first = what_to_do(action, faber, run.run_id)[0].text
        return [f"faber: run {run.run_id}: {event_line(event)}. {first}" for event in events]
