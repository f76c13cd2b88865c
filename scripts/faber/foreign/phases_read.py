"""The phases and steps of another tool's run, collected from its state and its events."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from faber.errors import Notice, Severity
from faber.events.drafts import Event
from faber.events.event_types import STEP_COMPLETE, STEP_SKIP
from faber.foreign.spelling import PHASE_NAMES, STEP_NAMES, name_of, place_of, status_of
from faber.model.documents import SETTLED
from faber.model.state_parts import PlaceStatus

CONVENTIONAL_ORDER = ("frame", "architect", "build", "evaluate", "release")
_STEP_LISTS = ("steps_completed", "completed_steps", "completed_step_ids")


class ForeignPhase(NamedTuple):
    """A phase: its status, the status of each step in order, and the other tool's own object (empty if it has none)."""

    status: PlaceStatus
    steps: dict[str, PlaceStatus]
    raw: Mapping[str, object]


def read_phases(
    raw: Mapping[str, object], events: Sequence[Event], run_id: str, translated: Callable[[str], None]
) -> tuple[dict[str, ForeignPhase], list[Notice]]:
    """The phases of the state `raw` in order, and a notice for each step that the state lags behind the events.

    `translated` is called with a description of each unusual form.
    """
    reader = _Phases(raw, events, run_id, translated)
    return reader.phases, reader.notices


class _Phases:
    def __init__(
        self, raw: Mapping[str, object], events: Sequence[Event], run_id: str, translated: Callable[[str], None]
    ) -> None:
        self.raw = raw
        self.events = events
        self.run_id = run_id
        self.notices: list[Notice] = []
        self._translated = translated
        self.phases = self._phases()
        self._add_flat_steps()
        self._add_mentioned()

    def _phases(self) -> dict[str, ForeignPhase]:
        raw = self.raw.get("phases")
        found: dict[str, ForeignPhase] = {}
        if isinstance(raw, list):
            self._translated("phases given as an array")
            items = [(name_of(item, PHASE_NAMES), item) for item in raw]
        elif isinstance(raw, dict):
            items = list(raw.items())
        else:
            items = []
        for name, item in items:
            if phase := place_of(name):
                found[phase] = self._phase(phase, item)
        if found and set(found) <= set(CONVENTIONAL_ORDER):
            found = {name: found[name] for name in CONVENTIONAL_ORDER if name in found}
        return found

    def _phase(self, name: str, item: object) -> ForeignPhase:
        if not isinstance(item, dict):
            return ForeignPhase(status_of(item), {}, {})
        steps: dict[str, PlaceStatus] = {}
        given = item.get("steps")
        if isinstance(given, dict):
            for key, value in given.items():
                if step := place_of(key, name):
                    steps[step] = status_of(value.get("status") if isinstance(value, dict) else value)
        elif isinstance(given, list):
            for value in given:
                if step := _step(value, name):
                    steps[step] = status_of(value.get("status")) if isinstance(value, dict) else "pending"
        for key in _STEP_LISTS:
            if isinstance(item.get(key), list):
                self._translated(f"finished steps of phase {name} from {key}")
                for value in item[key]:
                    if step := _step(value, name):
                        steps[step] = "completed"
        status = status_of(item.get("status"))
        if item.get("enabled") is False and status == "pending":
            status = "skipped"
        return ForeignPhase(status, steps, item)

    def _add_flat_steps(self) -> None:
        for key in _STEP_LISTS:
            listed = self.raw.get(key)
            for value in listed if isinstance(listed, list) else ():
                name, _, rest = value.partition(":") if isinstance(value, str) else ("", "", "")
                if (place := place_of(name)) and (done := place_of(rest, place)):
                    self._at(place).steps[done] = "completed"
        raw = self.raw.get("steps")
        if not isinstance(raw, list):
            return
        self._translated("steps given as one flat array")
        for item in raw:
            phase = place_of(name_of(item, ("phase", "phase_id")))
            if phase and (step := _step(item, phase)):
                self._at(phase).steps[step] = status_of(item.get("status"))

    def _at(self, phase: str) -> ForeignPhase:
        return self.phases.setdefault(phase, ForeignPhase("pending", {}, {}))

    def _add_mentioned(self) -> None:
        """Add steps named only by the current place, a failure or the events."""
        phase, step = current_place(self.raw)
        if phase:
            self._at(phase)
            if step:
                self.phases[phase].steps.setdefault(step, "in_progress")
        for phase_name, record in self.phases.items():
            failed = place_of(record.raw.get("failed_step"), phase_name)
            if failed:
                record.steps[failed] = "failed"
            if record.status == "completed":
                for name, status in record.steps.items():
                    record.steps[name] = status if status in SETTLED else "completed"
        newest: dict[tuple[str, str], str] = {}
        for event in self.events:
            at = place_of(event.get("phase"))
            if at and (done := place_of(event.get("step"), at)):
                newest[at, done] = event["type"]
        for (event_phase, event_step), kind in newest.items():
            if event_phase in self.phases and kind in (STEP_COMPLETE, STEP_SKIP):
                steps = self.phases[event_phase].steps
                if steps.get(event_step) in ("pending", "in_progress"):
                    self.notices.append(
                        Notice(
                            "state_behind",
                            Severity.INFO,
                            f"The events show {event_phase}:{event_step} complete; state.json does not.",
                            source=self.run_id,
                        )
                    )
                steps[event_step] = "completed" if kind == STEP_COMPLETE else "skipped"


def current_place(raw: Mapping[str, object]) -> tuple[str | None, str | None]:
    """The phase and the step that the state `raw` says it is at."""
    phase = place_of(raw.get("current_phase"))
    if phase in (None, "none"):
        return None, None
    return phase, place_of(raw.get("current_step") or raw.get("current_step_id"), phase)


def _step(value: object, phase: str) -> str | None:
    """The name of a step given as a text or an object."""
    return place_of(value if isinstance(value, str) else name_of(value, STEP_NAMES), phase)
