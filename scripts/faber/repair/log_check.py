"""One pass over the log of a run: each event is read once, checked, and folded."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, cast

from faber.errors import FaberError, Notice, Severity
from faber.events.drafts import Event
from faber.events.event_types import LOSS_ACCEPTED, RUN_ADOPTED, SESSION_END, SNAPSHOTS, check_required, known_types
from faber.events.shapes import ShapeMismatch, checked
from faber.model.documents import SCHEMA_VERSION, Metadata, Plan, State
from faber.model.reducer import initial_state
from faber.store import log
from faber.store.layout import EVENTS, PLAN
from faber.store.load import fold_events, plan_digest, schema_version
from faber.store.store_errors import NewerSchema
from faber.text.safe_text import has_secret, may_have_secret

Progress = Callable[[int, int], None]  # how many events of how many are read
Span = tuple[int, int]  # the first and the last number

RESTORE = (
    "Restore the file from a backup or another clone. If there is none, a person can continue without it: "
    "`faber repair RUN --accept-loss`."
)
# With these no fold of the log can be trusted.
FATAL = frozenset({"event_gap", "duplicate_event", "event_unreadable", "event_of_other_run", "plan_differs"})
_BATCH = 256 * 1024  # bytes that are searched for credentials at once
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_STEP = 1_000  # events between two reports of progress


class Frame(NamedTuple):
    """What never changes about a run."""

    metadata: Metadata
    plan: Plan


class Summary(NamedTuple):
    """A session summary as its event has it."""

    event_id: int
    content: object


class LogReport:
    """What a pass found.

    `state` is the fold of the whole log, None if it cannot be folded, and `counted` that of the events that state.json
    counts, None if that is another number. `lost` are the numbers that are missing, `bad` the files of events that
    cannot be trusted, `summaries` and `keys` what events say of session summaries and idempotency keys, `read` the
    files that were searched for credentials, `secrets` the paths of those that have one.
    """

    def __init__(self) -> None:
        self.findings: list[Notice] = []
        self.state: State | None = None
        self.counted: State | None = None
        self.problem: FaberError | None = None
        self.lost: list[Span] = []
        self.bad: list[str] = []
        self.summaries: dict[object, Summary] = {}
        self.keys: dict[str, int] = {}
        self.read: frozenset[str] = frozenset()
        self.secrets: list[str] = []

    @property
    def fatal(self) -> list[Notice]:
        """The losses with which no fold of the log can be trusted."""
        return [finding for finding in self.findings if finding.code in FATAL]


def check_log(
    directory: str,
    run_id: str,
    frame: Frame | None,
    claims: int,
    *,
    thorough: bool = True,
    progress: Progress | None = None,
) -> LogReport:
    """Read the log, from the newest adoption on. `frame` is None if its documents cannot be read: nothing is folded.

    `claims` is the number of the newest event that something else in the run's directory knows. `thorough` also checks
    the schema of each event and looks for credentials.
    """
    entries = log.listing(directory)
    adopted = _newest(entries, frozenset({RUN_ADOPTED}))
    own = entries[adopted or 0 :]
    check = _Pass(directory, run_id, own, thorough, progress)
    check.numbers(1 if adopted is None else own[0].event_id, claims)
    start = _newest(own, SNAPSHOTS) or 0
    events = check.events(start, frame.plan if frame else None)
    report = check.report
    try:
        if frame is not None:
            state = fold_events(initial_state(*frame), _until(events, claims), run_id)
            report.counted = state if state["last_event_id"] == claims else None
            report.state = fold_events(state, events, run_id)
    except FaberError as error:
        report.problem = error
    for _ in events:  # what was not folded is checked all the same
        pass
    if report.fatal:
        report.state = report.counted = None
    report.read = frozenset(entry.file for entry in own).difference(report.bad)
    return report


def _newest(entries: Sequence[log.LogEntry], types: frozenset[str]) -> int | None:
    return next((i for i in range(len(entries) - 1, -1, -1) if entries[i].type in types), None)


def _until(events: Iterator[Event], last: int) -> Iterator[Event]:
    if last > 0:
        for event in events:
            yield event
            if event["event_id"] >= last:
                return


def gaps(present: Sequence[Span], first: int, last: int) -> list[Span]:
    """The numbers from `first` to `last` that are in no span of `present`."""
    found = []
    expected = first
    for begin, end in sorted(present):
        if begin > expected:
            found.append((expected, begin - 1))
        expected = max(expected, end + 1)
    return [*found, (expected, last)] if last >= expected else found


def merged(spans: Sequence[Span]) -> list[Span]:
    """The same numbers in as few spans as possible, in order."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def spelled(spans: Sequence[Span]) -> str:
    """`Event 3`, `Events 16 to 25`, `Events 3, 7 to 9`; without any the plan, which is all else that can be lost."""
    if not spans:
        return "The first plan"
    parts = [str(begin) if begin == end else f"{begin} to {end}" for begin, end in spans]
    return f"Event{'' if len(parts) == 1 and parts[0].isdigit() else 's'} {', '.join(parts)}"


def accepted_losses(directory: str, entries: Sequence[log.LogEntry]) -> list[Event]:
    """The readable events by which a person accepted losses."""
    found = []
    for entry in entries:
        if entry.type == LOSS_ACCEPTED:
            try:
                found.append(log.read_own_event(directory, entry.file, entry.event_id, entry.type))
            except FaberError:
                continue
    return found


def _spans(event: Event) -> list[Span]:
    given = event["metadata"].get("lost")
    pairs = [pair for pair in given if isinstance(pair, list) and len(pair) == 2] if isinstance(given, list) else []
    return [(a, b) for a, b in pairs if isinstance(a, int) and isinstance(b, int) and 0 < a <= b < event["event_id"]]


def critical(code: str, message: str, source: str, recovery: str = RESTORE) -> Notice:
    """A finding about damage that nothing here can undo."""
    return Notice(code, Severity.CRITICAL, message, recovery, source)


class _Pass:
    def __init__(
        self, directory: str, run_id: str, own: list[log.LogEntry], thorough: bool, progress: Progress | None
    ) -> None:
        self.directory, self.run_id, self.own = directory, run_id, own
        self.thorough, self.progress = thorough, progress
        self.report = LogReport()
        self.broken = False
        self.batch: list[tuple[str, bytes]] = []
        self.waiting = 0

    def numbers(self, first: int, claims: int) -> None:
        """Find numbers that are missing or there twice; what a person accepted as lost is not missing."""
        report = self.report
        accepted = accepted_losses(self.directory, self.own)
        for event in accepted:
            when, kept = event["timestamp"], event["metadata"].get("kept")
            report.findings.append(
                Notice(
                    LOSS_ACCEPTED,
                    Severity.INFO,
                    f"{spelled(_spans(event))}: lost, and accepted as lost by a person at {when}.",
                    f"What state.json knew of them is kept in {kept} and in event {event['event_id']}." if kept else "",
                    self.run_id,
                )
            )
        counted = Counter(entry.event_id for entry in self.own)
        for event_id, count in counted.items():
            if count > 1:
                self.fatal("duplicate_event", f"Event {event_id} exists {count} times.", self.run_id)
                report.bad += [entry.file for entry in self.own if entry.event_id == event_id]
        present = [(number, number) for number in counted] + [span for event in accepted for span in _spans(event)]
        newest = max(counted, default=0)
        report.lost = gaps(present, first, max(newest, claims))
        for span in report.lost:
            end = f" at its end: other files of the run know of event {claims}" if span[1] > newest else ""
            verb = "is" if span[0] == span[1] else "are"
            self.fatal("event_gap", f"{spelled([span])} {verb} missing from the log{end}.", self.run_id)

    def fatal(self, code: str, message: str, source: str) -> None:
        self.report.findings.append(critical(code, message, source))
        self.broken = True

    def events(self, start: int, plan: Plan | None) -> Iterator[Event]:
        """Read and check every event; yields those from number `start` of the list on while they can be folded."""
        base = os.path.join(self.directory, EVENTS, "")
        known = frozenset(known_types())
        for number, entry in enumerate(self.own):
            if self.progress and number % _STEP == 0:
                self.progress(number, len(self.own))
            try:
                event, data = log.parse_event(base + entry.file)
                log.check_own(event, entry)
            except FaberError as error:
                self.fatal("event_unreadable", error.message, base + entry.file)
                self.report.bad.append(entry.file)
                continue
            if event.get("run_id") != self.run_id:
                whose = f"{entry.file} belongs to run {event.get('run_id')!a:.150}."
                self.fatal("event_of_other_run", whose, base + entry.file)
                self.report.bad.append(entry.file)
                continue
            if entry.type not in known:
                self.note("unknown_event_type", Severity.WARNING, f"{entry.file} has an unknown event type.", entry)
            if schema_version(event) > SCHEMA_VERSION:
                self.note(NewerSchema.code, Severity.WARNING, f"{entry.file} was written by a newer faber.", entry)
            if self.thorough:
                self.look_inside(entry, event, data)
            if number == start and plan is not None:
                self.compare_plan(event, plan)
            self.remember(entry, event)
            if number >= start and not self.broken:
                yield event
        self.search()

    def note(self, code: str, severity: Severity, message: str, entry: log.LogEntry) -> None:
        path = os.path.join(self.directory, EVENTS, entry.file)
        self.report.findings.append(Notice(code, severity, message, "Update faber.", path))

    def remember(self, entry: log.LogEntry, event: Event) -> None:
        if "key" in event:
            self.report.keys[event["key"]] = entry.event_id
        if entry.type == SESSION_END and "summary_file" in (metadata := event.get("metadata", {})):
            name = metadata["summary_file"]
            content = metadata.get("summary")
            self.report.summaries[name if isinstance(name, str) else str(name)] = Summary(entry.event_id, content)

    def compare_plan(self, event: Event, plan: Plan) -> None:
        """The first event says which plan the run began with; those of earlier versions do not."""
        given = event.get("metadata", {}).get("plan") if event["type"] == RUN_ADOPTED else None
        began = event.get("plan_digest", plan_digest(given or plan))
        if began != plan_digest(plan):
            self.fatal("plan_differs", "plan.json is not the plan that the run began with.", PLAN)

    def look_inside(self, entry: log.LogEntry, event: Event, data: bytes) -> None:
        if not conforms(event):
            from faber.store.schema import problems

            path = os.path.join(self.directory, EVENTS, entry.file)
            for problem in problems("event", event)[:3]:
                message = f"{entry.file}: {problem.path or 'the event'}: {problem.message}"
                self.report.findings.append(Notice("schema_violation", Severity.ERROR, message, "", path))
        self.batch.append((entry.file, data))
        self.waiting += len(data)
        if self.waiting > _BATCH:
            self.search()

    def search(self) -> None:
        """Look for credentials in the events read since the last search, in all at once where there are none."""
        batch, self.batch, self.waiting = self.batch, [], 0
        if may_have_secret(b"".join(data for _, data in batch)):
            for file, data in batch:
                if may_have_secret(data) and has_secret(data.decode("utf-8", "replace")):
                    self.report.secrets.append(os.path.join(self.directory, EVENTS, file))


_KEYS = frozenset(Event.__annotations__) - {"checksum"}
_conforming: set[tuple[object, ...]] = set()  # keys and types of events that were checked


def conforms(event: Event) -> bool:
    """True only if the schema of events has nothing to say about this one; much faster than asking it."""
    shape = (*event, *map(type, event.values()))
    try:
        if shape not in _conforming:
            checked(event, Event)
            if not event.keys() <= _KEYS:
                return False
            if "artifacts" not in event and "error" not in event:  # their insides can differ
                _conforming.add(shape)
        check_required(event["type"], cast(dict[str, object], event))
    except (ShapeMismatch, FaberError):
        return False
    return (
        event["schema_version"] > 0
        and event["event_id"] > 0
        and _TIMESTAMP.fullmatch(event["timestamp"]) is not None
        and 0 < len(event.get("key", "-")) <= 200
        and ("plan_digest" not in event or _DIGEST.fullmatch(event["plan_digest"]) is not None)
        and all(len(artifact) > 1 for artifact in event.get("artifacts", ()))
    )
