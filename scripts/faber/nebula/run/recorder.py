"""The log of a nebula's run as its worker group writes it: events in the store, and `nebula.state.toml`.

The events are authoritative. state.json and the file are projections, written at most twice a second while the group
works and when it ends, and rebuilt from the events by a resume, so that an event costs the same with ten phases and
with five thousand.
"""

import threading
import time
from collections.abc import Callable, Mapping

from faber.errors import FaberError, Notice, Severity, UsageError
from faber.events.drafts import Draft
from faber.feedback.requests import NewRequest, new_request_id, open_request
from faber.model.acceptance import Decision
from faber.model.documents import Plan, State, nebula_of, nebula_phases
from faber.model.nebula_documents import NebulaPhase, NebulaSpent
from faber.model.state_parts import StepAnswer
from faber.nebula.healing.healing_history import HealingHistory, read_history
from faber.nebula.plan.state_file import NebulaFile, StateWriter, load_state, project
from faber.notify.news import announce
from faber.store.appending import Writer
from faber.store.commit import commit, settle
from faber.store.layout import Layout
from faber.store.load import Run, load
from faber.store.pace import Pace
from faber.text.safe_text import inert, redact, shorten

MESSAGE = 2_000
PROJECTED_EVERY = 0.5  # seconds; and projecting takes at most one SHAREth of the time
SHARE = 20


class Journal:
    """Writes one run's events; thread-safe. `directory` is the nebula's; `notice` gets what could not be written."""

    def __init__(
        self,
        layout: Layout,
        run_id: str,
        directory: str,
        *,
        notice: Callable[[Notice], None] = lambda notice: None,
        actor: str | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.layout = layout
        self.run_id = run_id
        self.directory = directory
        self._run: Run = load(layout, run_id)
        self.state: State = self._run.state
        # The error that an event could not be written with: it ends the run, and no phase fails because of it.
        self.failure: FaberError | None = None
        self._notice = notice
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._healing: HealingHistory | None = None
        self._writer = StateWriter()
        self._before: NebulaFile | None = load_state(directory)[0]
        self._projected = float("-inf")
        self._pause = PROJECTED_EVERY
        self._by = Writer(actor=actor, pace=Pace(monotonic), tell=announce)

    @property
    def last_event_id(self) -> int:
        """The newest event that this process knows."""
        return self.state["last_event_id"]

    @property
    def phases(self) -> Mapping[str, NebulaPhase]:
        """The phases in the run's state."""
        return nebula_phases(self.state)

    @property
    def spent(self) -> NebulaSpent:
        """What the run has spent."""
        nebula = nebula_of(self.state)
        return nebula["spent"] if nebula else {"cost": 0.0, "healing_cost": 0.0, "turns": 0}

    @property
    def healing(self) -> HealingHistory:
        """The history of healing in this run: read from the log once, and kept up to date with what is recorded."""
        with self._lock:
            if self._healing is None:
                self._healing = read_history(self.layout, self.run_id)
            return self._healing

    def record(self, draft: Draft, *, once: str | None = None) -> int:
        """Append an event, its texts made safe and bounded; returns its id.

        Raises the errors of `commit`: a run does not continue without its log. Repetitions with the same `once` are
        recorded once.
        """
        bounded = draft.copy()
        if "message" in draft:
            bounded["message"] = shorten(inert(draft["message"]), MESSAGE)
        if "error" in draft:
            bounded["error"] = {"message": shorten(inert(draft["error"]["message"]), MESSAGE)}
        return self._commit(lambda state, plan: [bounded], once)

    # --- people ------------------------------------------------------------------------------------

    def ask(self, kind: str, prompt: str, *, phase: str | None, context: Mapping[str, str]) -> str:
        """Open a feedback request about `phase` (None: about the whole run); returns its id."""
        request_id = new_request_id()
        said = shorten(redact(inert(prompt)), MESSAGE)

        def decide(state: State, plan: Plan) -> Decision:
            asked = NewRequest(request_id, kind, said, context={**context, "nebula_phase": phase})
            return open_request(state, plan, asked)

        self._commit(decide)
        return request_id

    def open_requests(self) -> dict[str | None, str]:
        """The ids of this nebula's open requests by phase (None: the whole run)."""
        return open_requests(self.state)

    def refresh(self) -> State:
        """Reload the state, with what others recorded meanwhile, such as people's answers."""
        with self._lock:
            self._run = load(self.layout, self.run_id)
            self.state = self._run.state
            return self.state

    def answer_to(self, request_id: str) -> StepAnswer | None:
        """A person's answer to a request, if this process knows one."""
        return next((heard for heard in reversed(self.state["answers"]) if heard["request_id"] == request_id), None)

    # --- the projection ----------------------------------------------------------------------------

    def project(self) -> None:
        """Write `nebula.state.toml` now, and state.json if it is behind.

        A failure is a warning and does not end the work: both can be rebuilt from the events.
        """
        with self._lock:
            self._project()
            try:
                if self._by.pace is not None and self._by.pace.behind:
                    self._run = settle(self.layout, self.run_id, self._by.pace)
            except FaberError as error:
                text = f"state.json could not be brought up to date: {error.message}"
                self._notice(Notice("state_behind", Severity.WARNING, text, error.recovery, self.run_id))

    def _commit(self, decide: Callable[[State, Plan], Decision], key: str | None = None) -> int:
        # The store's own lock is for processes and polls; threads queue here.
        with self._lock:
            try:
                done = commit(self.layout, self.run_id, decide, self._by, key=key, known=self._run)
            except UsageError:
                raise  # only this event is invalid
            except FaberError as error:
                self.failure = self.failure or error
                raise
            self._run, self.state = done.run, done.state
            if self._healing is not None and not done.repeated:
                self._healing.take(done.events)
            if self._monotonic() - self._projected >= self._pause:
                self._project()
            return done.events[-1]["event_id"]

    def _project(self) -> None:
        started = self._monotonic()
        try:
            self._writer.save(self.directory, project(self.state, self._before))
        except FaberError as error:
            text = f"nebula.state.toml could not be written: {error.message}"
            self._notice(Notice("nebula_state_unwritten", Severity.WARNING, text, error.recovery, self.directory))
        self._projected = self._monotonic()
        self._pause = max(PROJECTED_EVERY, SHARE * (self._projected - started))


def open_requests(state: State) -> dict[str | None, str]:
    """The ids of the open requests about a nebula's run, by phase (None: the whole run)."""
    queue = state["feedback_queue"]
    return {
        asked["context"]["nebula_phase"]: asked["request_id"] for asked in queue if "nebula_phase" in asked["context"]
    }
