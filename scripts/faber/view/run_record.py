"""What the whole log of a run tells beside its state: sessions, decisions, answers, commits, and what is unproven or
was skipped, with who did it. Pure; one pass over the events.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from faber.events.drafts import Event
from faber.events.event_types import (
    AGENT_TURN,
    APPROVAL_DENIED,
    APPROVAL_GRANTED,
    COMMIT_CREATE,
    CYCLE_COMMIT,
    DECISION_POINT,
    FEEDBACK_REQUEST,
    HEALING_SKIPPED,
    NEBULA_LAND,
    PHASE_MERGE,
    PHASE_SKIP,
    SESSION_END,
    STEP_BLOCKED,
    STEP_COMPLETE,
    STEP_SKIP,
)
from faber.feedback.feedback_history import TYPES, PastRequest, history
from faber.model.documents import SETTLED
from faber.view.run_view import PhaseView, RunView


class By(NamedTuple):
    """Who recorded an event: the `actor` (`agent`, `person` or `script`), the session and its client, and of an answer
    the person's `name` and the channel it came through (`terminal`, `issue_comment`)."""

    actor: str | None
    session_id: str | None = None
    client: str | None = None
    name: str | None = None
    channel: str | None = None

    def __str__(self) -> str:
        """`Ada, issue comment`, or `agent in session 1a2b`."""
        if self.name:
            return f"{self.name}, {(self.channel or '').replace('_', ' ')}".rstrip(", ")
        return f"{self.actor or 'somebody'}{f' in session {self.session_id}' if self.session_id else ''}"


class SessionSpan(NamedTuple):
    """A session of a client: the times of its first and newest event, how many it recorded, and whether it said that it
    is over. A nebula's agents have sessions too: `role` and `phase` are of those."""

    session_id: str
    client: str | None
    first_at: str
    last_at: str
    events: int
    ended: bool
    role: str | None = None
    phase: str | None = None


class Decided(NamedTuple):
    """A decision or an approval."""

    event_id: int
    at: str
    what: str
    phase: str | None
    step: str | None
    by: By


class CommitMade(NamedTuple):
    """A commit: `kind` is `commit` (a session's), `cycle` (a coder's), `merge` (of a phase) or `land` (of the run)."""

    event_id: int
    at: str
    sha: str
    kind: str
    phase: str | None
    step: str | None
    message: str | None


class Unproven(NamedTuple):
    """A step or phase whose result nothing proved; event 0 if the log does not say. `why` is `missing` (completion was
    refused for this evidence, and it is not complete), `waived` (a person did without it), `warning` (completed with a
    warning), or `not_healed`."""

    event_id: int
    at: str
    phase: str
    step: str | None
    why: str
    what: str


class SkippedPart(NamedTuple):
    """A step or phase that was skipped, why, and who decided it; event 0 if the log does not say."""

    event_id: int
    at: str
    phase: str
    step: str | None
    reason: str | None
    by: By


class RunRecord(NamedTuple):
    """What the log of a run tells beside its state; each list in the order of the log. `requests` are the questions to
    people with their answers."""

    sessions: tuple[SessionSpan, ...]
    decisions: tuple[Decided, ...]
    requests: tuple[PastRequest, ...]
    commits: tuple[CommitMade, ...]
    unproven: tuple[Unproven, ...]
    skipped: tuple[SkippedPart, ...]
    events: int


def record_of(events: Iterable[Event], view: RunView) -> RunRecord:
    """The record of a run from all its events in order; `view` is the run after them."""
    sessions: dict[str, SessionSpan] = {}
    decisions: list[Decided] = []
    asked: list[Event] = []
    commits: list[CommitMade] = []
    newest: dict[tuple[str, str | None, str], Event] = {}
    places: dict[object, tuple[str, str | None]] = {}
    count = 0
    for event in events:
        count += 1
        kind, given = event["type"], event.get("metadata", {})
        phase, step = event.get("phase"), event.get("step")
        _note_session(sessions, event)
        if kind in TYPES:
            asked.append(event)
            if kind == FEEDBACK_REQUEST:
                places[given.get("request_id")] = (phase or "", step)
            elif given.get("action") == "skip":
                newest[(*places.get(given.get("request_id"), ("", None)), _SKIP)] = event
        elif kind in _DECISIONS:
            what = event.get("message") or kind.replace("_", " ")
            decisions.append(Decided(event["event_id"], event["timestamp"], what, phase, step, by(event)))
        elif kind in _COMMITS:
            commits += _commit(event)
        elif kind in _ENDS:
            newest[(phase or "", step, _ENDS[kind])] = event
    return RunRecord(
        tuple(sessions.values()),
        tuple(decisions),
        tuple(history(asked)),
        tuple(commits),
        tuple(_unproven(view.phases, newest)),
        tuple(_skipped(view.phases, newest)),
        count,
    )


def by(event: Event) -> By:
    """Who recorded an event; of an answer who gave it."""
    found = event.get("metadata", {}).get("responder")
    who = found if isinstance(found, dict) else {}
    name, channel = (str(who[key]) if who.get(key) else None for key in ("name", "source"))
    return By(event.get("actor"), event.get("session_id"), event.get("client"), name, channel)


# --- inside ----------------------------------------------------------------------------------------

_SKIP, _REFUSED, _ENDED, _UNHEALED = "skip", "refused", "ended", "unhealed"
_ENDS = {STEP_SKIP: _SKIP, PHASE_SKIP: _SKIP, STEP_BLOCKED: _REFUSED, STEP_COMPLETE: _ENDED, HEALING_SKIPPED: _UNHEALED}
_DECISIONS = frozenset({DECISION_POINT, APPROVAL_GRANTED, APPROVAL_DENIED})
_COMMITS = {COMMIT_CREATE: ("commit", "sha"), CYCLE_COMMIT: ("cycle", "commit"), PHASE_MERGE: ("merge", "commit")}
_COMMITS |= {NEBULA_LAND: ("land", "commit")}


def _note_session(sessions: dict[str, SessionSpan], event: Event) -> None:
    given = event.get("metadata", {})
    agents = given.get("agent_session") if event["type"] == AGENT_TURN else None
    for session, role in ((event.get("session_id"), None), (agents, given.get("role"))):
        if not session:
            continue
        over = event["type"] == SESSION_END and "summary_file" not in given
        known = sessions.get(session)
        if known is None:
            phase = event.get("phase") if role else None
            at = event["timestamp"]
            sessions[session] = SessionSpan(session, event.get("client"), at, at, 1, over, role, phase)
        else:
            sessions[session] = known._replace(
                client=known.client or event.get("client"),
                last_at=max(known.last_at, event["timestamp"]),
                events=known.events + 1,
                ended=over,
            )


def _commit(event: Event) -> Iterable[CommitMade]:
    kind, key = _COMMITS[event["type"]]
    sha = event.get("metadata", {}).get(key)
    if isinstance(sha, str) and sha:
        place = event.get("phase"), event.get("step")
        yield CommitMade(event["event_id"], event["timestamp"], sha, kind, *place, event.get("message"))


def _unproven(phases: Iterable[PhaseView], newest: Mapping[tuple[str, str | None, str], Event]) -> Iterable[Unproven]:
    for phase in phases:
        if phase.not_healed and phase.status == "failed":
            yield _unproved(phase.id, None, "not_healed", phase.not_healed, newest.get((phase.id, None, _UNHEALED)))
        for step in phase.steps:
            refused, ended = newest.get((phase.id, step.id, _REFUSED)), newest.get((phase.id, step.id, _ENDED))
            if step.blocked and step.status not in SETTLED:
                missing = refused.get("metadata", {}).get("missing") or () if refused else ()
                what = "; ".join(_evidence(each) for each in missing)
                yield _unproved(phase.id, step.id, "missing", what, refused)
            elif step.status == "completed" and (step.waived or step.warning):
                yield _unproved(phase.id, step.id, "waived" if step.waived else "warning", step.message or "", ended)


def _unproved(phase: str, step: str | None, why: str, what: str, event: Event | None) -> Unproven:
    return Unproven(event["event_id"] if event else 0, event["timestamp"] if event else "", phase, step, why, what)


def _skipped(phases: Iterable[PhaseView], newest: Mapping[tuple[str, str | None, str], Event]) -> Iterable[SkippedPart]:
    for phase in phases:
        whole = newest.get((phase.id, None, _SKIP))
        if phase.status == "skipped" and (whole or not phase.steps):
            yield _skip(phase.id, None, phase.reason, whole)
            continue
        for step in phase.steps:
            if step.status == "skipped":
                yield _skip(phase.id, step.id, step.message, newest.get((phase.id, step.id, _SKIP)) or whole)


def _skip(phase: str, step: str | None, reason: str | None, event: Event | None) -> SkippedPart:
    if event is None:
        return SkippedPart(0, "", phase, step, reason, By(None))
    return SkippedPart(event["event_id"], event["timestamp"], phase, step, reason or event.get("message"), by(event))


def _evidence(found: object) -> str:
    if not isinstance(found, dict):
        return str(found)
    words = [found.get(key) for key in ("kind", "value", "detail")]
    return " ".join(str(each) for each in words if each)
