"""When what happened in a run: its sessions, phases, steps and cycles, the waits for people and for the service, and
what failed, as spans of time. Pure."""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, NamedTuple

from faber.events import event_types
from faber.events.drafts import Event
from faber.model.pauses import QUIET, REFUSALS

SpanKind = Literal["session", "phase", "step", "cycle", "person", "limit"]
IDLE = 3_600.0  # seconds without an event after which a session counts as another one

_RUN_STARTS = frozenset({event_types.WORKFLOW_START, event_types.WORKFLOW_RESUMED})
_RUN_ENDS = frozenset({event_types.WORKFLOW_COMPLETE, event_types.WORKFLOW_CANCELLED, event_types.WORKFLOW_ERROR})
_PHASE_ENDS = {
    event_types.PHASE_COMPLETE: "done",
    event_types.PHASE_SKIP: "skipped",
    event_types.PHASE_ERROR: "failed",
    event_types.PHASE_RESET: "reset",
}
_STEP_ENDS = {
    event_types.STEP_COMPLETE: "done",
    event_types.STEP_SKIP: "skipped",
    event_types.STEP_ERROR: "failed",
}
_ERRORS = {event_types.WORKFLOW_ERROR, event_types.PHASE_ERROR, event_types.STEP_ERROR}


class TimeSpan(NamedTuple):
    """Something that lasted. Times are in seconds since the epoch. `phase` is the phase it belongs to, if any; `end`
    is that of the run where it is not over. `outcome` is `done`, `failed`, `skipped`, `reset`, `interrupted` or
    `open`."""

    kind: SpanKind
    label: str
    phase: str | None
    start: float
    end: float
    outcome: str
    event_id: int


class FailureMark(NamedTuple):
    """A failure: of the run, a phase or a step (`grave`), or of a filter."""

    label: str
    phase: str | None
    at: float
    grave: bool
    event_id: int


class Timeline(NamedTuple):
    """The spans of a run in the order in which they began, and its failures; all between `start` and `end`."""

    start: float
    end: float
    spans: tuple[TimeSpan, ...]
    marks: tuple[FailureMark, ...]

    def of(self, *kinds: SpanKind) -> list[TimeSpan]:
        """The spans of these kinds."""
        return [span for span in self.spans if span.kind in kinds]

    def seconds(self, *kinds: SpanKind) -> float:
        """How long at least one span of these kinds lasted."""
        total, until = 0.0, self.start
        for span in sorted(self.of(*kinds), key=lambda each: each.start):
            total += max(0.0, span.end - max(span.start, until))
            until = max(until, span.end)
        return total


def timeline_of(events: Iterable[Event], until: str | None = None) -> Timeline:
    """The timeline of the run with these events (all of them, in order). `until` is the time to which what is not over
    lasts: the newest event's if there is none."""
    fold = _Fold()
    for event in events:
        fold.take(event)
    return fold.result(seconds_of(until or ""))


def seconds_of(time: str) -> float | None:
    """A time of the log in seconds since the epoch; None for one that is not a time."""
    try:
        return datetime.fromisoformat(time).timestamp()
    except (ValueError, OverflowError):
        return None


class _Open(NamedTuple):
    kind: SpanKind
    label: str
    phase: str | None
    start: float
    event_id: int


class _Fold:
    def __init__(self) -> None:
        self.open: dict[tuple[str, ...], _Open] = {}
        self.spans: list[TimeSpan] = []
        self.marks: list[FailureMark] = []
        self.seen: dict[str, float] = {}  # the newest event of each session
        self.first: float | None = None
        self.now = 0.0
        self.nebula = False
        self.started = False

    def take(self, event: Event) -> None:
        """Fold one event; one without a time happens at that of the event before it. Time never runs backwards."""
        at = seconds_of(event.get("timestamp", ""))
        if at is None and self.first is None:
            return
        before, self.now = self.now, max(self.now, at or self.now)
        self.first = self.now if self.first is None else self.first
        kind = event["type"]
        self.nebula = self.nebula or kind == event_types.NEBULA_START
        if kind in _RUN_STARTS:
            self._restart(event, before)
        if not self.nebula:
            self._session(event)
        self._place(event)
        self._waits(event)
        failed_check = kind == event_types.RUN_REOPENED and "repair" in (event.get("metadata") or {})
        if kind in _ERRORS or failed_check or (kind == event_types.FILTER_RUN and event.get("status") == "failed"):
            self._mark(event, kind)
        if kind in _RUN_ENDS:
            for key in list(self.open):
                if key[0] != "session" or self.nebula:
                    self._end(key, "failed" if kind == event_types.WORKFLOW_ERROR else "done")

    def result(self, until: float | None) -> Timeline:
        """The timeline, with what is still open."""
        last = self.now if until is None else max(self.now, until)
        for key in [key for key in self.open if key[0] == "session" and not self.nebula]:
            began = self.open.pop(key)
            self.spans.append(_span(began, self.seen[key[1]], "open"))
        self.spans += [_span(began, last, "open") for began in self.open.values()]
        self.spans.sort(key=lambda span: (span.start, span.event_id))
        return Timeline(self.first or 0.0, max(last, self.first or 0.0), tuple(self.spans), tuple(self.marks))

    def _begin(self, key: tuple[str, ...], kind: SpanKind, label: str, event: Event) -> None:
        self.open.setdefault(key, _Open(kind, label, event.get("phase"), self.now, event["event_id"]))

    def _end(self, key: tuple[str, ...], outcome: str, at: float | None = None) -> None:
        began = self.open.pop(key, None)
        if began is not None:
            self.spans.append(_span(began, self.now if at is None else at, outcome))

    def _restart(self, event: Event, before: float) -> None:
        """A process begins work on the run: what an earlier one of a nebula left open ended with its last event."""
        if self.nebula:
            for key in [key for key in self.open if key[0] in ("session", "phase", "cycle")]:
                self._end(key, "interrupted", before)
        self.started = True
        if self.nebula:
            self._begin(("session", ""), "session", "Process", event)

    def _session(self, event: Event) -> None:
        session = event.get("session_id")
        if not session:
            return
        key = ("session", session)
        if key in self.open and self.now - self.seen[session] > IDLE:
            self._end(key, "open", self.seen[session])
        self.seen[session] = self.now
        self._begin(key, "session", event.get("client") or "Session", event)
        if event["type"] == event_types.SESSION_END and "summary_file" not in (event.get("metadata") or {}):
            self._end(key, "done")

    def _place(self, event: Event) -> None:
        kind, phase, step = event["type"], event.get("phase"), event.get("step")
        if kind == event_types.NEBULA_START and self.started:  # recorded after the start of the run
            self._begin(("session", ""), "session", "Process", event)
        if phase is None:
            return
        if kind == event_types.RUN_REOPENED:
            for key in [key for key in self.open if key[0] in ("step", "phase")]:
                self._end(key, "reset")
        elif kind == event_types.PHASE_START:
            self._begin(("phase", phase), "phase", phase, event)
        elif kind in _PHASE_ENDS:
            for key in [key for key in self.open if key[0] in ("step", "cycle") and key[1] == phase]:
                self._end(key, _PHASE_ENDS[kind])
            self._end(("phase", phase), _PHASE_ENDS[kind])
        elif step is not None and kind in (event_types.STEP_START, event_types.STEP_RETRY):
            self._begin(("phase", phase), "phase", phase, event)
            self._end(("step", phase, step), "interrupted")
            self._begin(("step", phase, step), "step", step, event)
        elif step is not None and kind in _STEP_ENDS:
            self._end(("step", phase, step), _STEP_ENDS[kind])
            if kind == event_types.STEP_ERROR:
                self._end(("phase", phase), "failed")
        elif kind == event_types.CYCLE_START:
            number = str((event.get("metadata") or {}).get("cycle", ""))
            self._end(("cycle", phase), "interrupted")
            self._begin(("cycle", phase), "cycle", f"Cycle {number}", event)
        elif kind == event_types.CYCLE_COMPLETE:
            self._end(("cycle", phase), "done")

    def _waits(self, event: Event) -> None:
        kind, given = event["type"], event.get("metadata") or {}
        if kind == event_types.FEEDBACK_REQUEST:
            label = str(given.get("prompt") or event.get("message") or "A person is asked")
            self._begin(("person", str(given.get("request_id"))), "person", label, event)
        elif kind == event_types.FEEDBACK_RECEIVED:
            self._end(("person", str(given.get("request_id"))), "done")
        elif kind == event_types.TURNS_REFUSED:
            self._begin(("limit",), "limit", event.get("message", "The service refuses turns"), event)
        elif self.nebula:
            if kind == event_types.TURNS_RESUMED:
                self._end(("limit",), "done")
        elif kind == event_types.HOOK_EXECUTE and given.get("error") in REFUSALS:
            self._begin(("limit",), "limit", str(given.get("said") or event.get("message", "")), event)
        elif kind not in QUIET:
            self._end(("limit",), "done")

    def _mark(self, event: Event, kind: str) -> None:
        given = event.get("metadata") or {}
        said = str((event.get("error") or {}).get("message", "")) or event.get("message", "")
        if kind == event_types.FILTER_RUN:
            said = f"The filter {given.get('filter')} failed"
        self.marks.append(FailureMark(said, event.get("phase"), self.now, kind in _ERRORS, event["event_id"]))


def _span(began: _Open, end: float, outcome: str) -> TimeSpan:
    return TimeSpan(began.kind, began.label, began.phase, began.start, end, outcome, began.event_id)
