"""Healing in the run's log: what each event carries, and the history of attempts that the events form.

An attempt is recorded in an order that makes a kill harmless: `healing_start` (the attempt counts from here),
`healing_plan` with the whole phase file (from here the architect is not asked again), then the phase file is written,
then `healing_insert`. A resume plans an attempt that is `started`, and inserts one that is `planned` from its event;
both stay the same attempt.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from faber.events import healing_events
from faber.events.drafts import Draft, Event
from faber.events.event_types import HEALING_DONE, HEALING_INSERT, HEALING_PLAN, HEALING_SKIPPED, HEALING_START
from faber.model.documents import State, nebula_phases
from faber.nebula.healing.diagnosis import FailureDiagnosis, SkipReason
from faber.nebula.plan.specs import Nebula, PhaseSpec
from faber.store import log
from faber.store.layout import Layout
from faber.text.safe_text import inert, shorten

AttemptStage = Literal["started", "planned", "inserted", "skipped", "failed", "done"]


def healing_start(diagnosis: FailureDiagnosis, original: str, attempt: int) -> Draft:
    """Attempt number `attempt` for the phase `original`, which failed itself or whose last remediation failed."""
    return healing_events.healing_start(
        diagnosis.phase_id,
        diagnosis.summary,
        kind=diagnosis.kind.value,
        cycles=diagnosis.cycles_used,
        spent=diagnosis.budget_spent,
        original=original,
        attempt=attempt,
    )


def healing_skipped(diagnosis: FailureDiagnosis, reason: SkipReason) -> Draft:
    """The phase stays failed without an attempt."""
    kind = diagnosis.kind.value
    return healing_events.healing_skipped(diagnosis.phase_id, diagnosis.summary, reason=reason.value, kind=kind)


def healing_plan(failed: str, spec: PhaseSpec, text: str, architect_cost: float | None) -> Draft:
    """The planned remediation with its phase file."""
    return healing_events.healing_plan(
        failed, remediation=spec.id, title=spec.title, architect_cost=architect_cost, phase_file=text
    )


def healing_insert(failed: str, spec: PhaseSpec, rewired: Sequence[str], *, file: str, digest: str = "") -> Draft:
    """The remediation is in the graph; the phases `rewired` depend on it now; `file` is its phase file."""
    if rewired:
        named = ", ".join(rewired[:5]) + (f" and {len(rewired) - 5} more" if len(rewired) > 5 else "")
        effect = f"{named} now {'depend' if len(rewired) > 1 else 'depends'} on it."
    else:
        effect = "no phase depended on the failed phase."
    message = f"{spec.id} is queued; {effect}"
    return healing_events.healing_insert(
        failed, message, remediation=spec.id, rewired=rewired, file=file, digest=digest or None
    )


# --- the history -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Attempt:
    """One failure and what was done about it. Money in US dollars, None if unknown.

    `phase` failed; `original` is the phase that people wrote; `number` counts the attempts for it. `stage` is
    `started`, `planned` (`phase_file` is the whole file), `inserted`, or the end: `skipped` or `failed` (for `reason`),
    or `done`.
    """

    phase: str
    original: str = ""
    number: int = 1
    stage: AttemptStage = "started"
    kind: str = ""
    remediation: str = ""
    title: str = ""
    phase_file: str = ""
    architect_cost: float | None = 0.0
    reason: str = ""


class RemediationResult(NamedTuple):
    """The result of a remediation: whether it was merged, and its cost in US dollars (None: unknown)."""

    success: bool
    cost_usd: float | None = 0.0


class HealingHistory:
    """The fold of a run's healing events. `attempts` are in the order of the log; `results` are those of remediations,
    by id."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.attempts: list[Attempt] = []
        self.results: dict[str, RemediationResult] = {}
        self._open: dict[str, int] = {}
        self.take(events)

    def take(self, events: Iterable[Event]) -> None:
        """Fold more events; those of other types are ignored."""
        for event in events:
            kind = event["type"]
            if not kind.startswith("healing_"):
                continue
            phase, given = event.get("phase", ""), event.get("metadata", {})
            if kind in (HEALING_START, HEALING_SKIPPED):
                self._open[phase] = len(self.attempts)
                self.attempts.append(_new_attempt(event, given))
            elif phase in self._open:
                place = self._open[phase]
                self.attempts[place] = _advanced(self.attempts[place], event, given)
            if kind == HEALING_DONE and given.get("remediation"):
                result = RemediationResult(event.get("status") == "done", given.get("cost"))
                self.results[str(given["remediation"])] = result

    def last_of(self, phase: str) -> Attempt | None:
        """The newest attempt for the failed `phase`."""
        return next((each for each in reversed(self.attempts) if each.phase == phase), None)

    def last_with(self, remediation: str) -> Attempt | None:
        """The newest attempt whose remediation is `remediation`."""
        return next((each for each in reversed(self.attempts) if each.remediation == remediation), None)

    def summary(self) -> str:
        """What healing did, for the end of a report: a line of totals, and a line for each failure. Failures while
        healing was off do not count; empty without any."""
        attempts = [each for each in self.attempts if each.reason != SkipReason.POLICY_DISABLED]
        if not attempts:
            return ""
        healed = sum(1 for each in attempts if _is_healed(each, self.results))
        costs = [_cost(each, self.results) for each in attempts]
        known = sum(cost for cost in costs if cost is not None)
        more = "at least " if None in costs else ""
        count = f"{len(attempts)} failure{'s' if len(attempts) > 1 else ''}"
        lines = [f"Healing: {count}, {healed} healed; cost {more}{known:.2f} dollars"]
        return "\n".join([*lines, *(f"  {_line(each, self.results)}" for each in attempts)]) + "\n"


def read_history(layout: Layout, run_id: str) -> HealingHistory:
    """The history of healing in a stored run."""
    directory = layout.run_dir(run_id)
    return HealingHistory(
        log.read_event(directory, entry.file) for entry in log.listing(directory) if entry.type.startswith("healing_")
    )


def _new_attempt(event: Event, given: Mapping[str, Any]) -> Attempt:
    phase = event["phase"]
    attempt = Attempt(phase, str(given.get("original") or phase), kind=str(given.get("kind", "")))
    if event["type"] == HEALING_SKIPPED:
        return replace(attempt, stage="skipped", reason=str(given.get("reason", "")))
    return replace(attempt, number=int(given.get("attempt", 1)))


def _advanced(attempt: Attempt, event: Event, given: Mapping[str, Any]) -> Attempt:
    if event["type"] == HEALING_PLAN:
        return replace(
            attempt,
            stage="planned",
            remediation=str(given["remediation"]),
            title=str(given.get("title", "")),
            phase_file=str(given.get("phase_file", "")),
            architect_cost=given.get("architect_cost"),
        )
    if event["type"] == HEALING_INSERT:
        return replace(attempt, stage="inserted", remediation=str(given["remediation"]))
    reason = event.get("message", "")
    if given.get("remediation"):
        return replace(attempt, stage="done" if event.get("status") == "done" else "failed", reason=reason)
    return replace(attempt, stage="failed", reason=reason, architect_cost=given.get("cost"))


def without_planned(nebula: Nebula, attempts: Iterable[Attempt]) -> Nebula:
    """The nebula without remediations that are planned but not inserted. After a kill in between, their phase file may
    exist; as an ordinary phase it would run without the work that it builds on."""
    planned = {attempt.remediation for attempt in attempts if attempt.stage == "planned"}
    return replace(nebula, phases=tuple(spec for spec in nebula.phases if spec.id not in planned))


# --- from the state --------------------------------------------------------------------------------


def remediations(state: State) -> dict[str, str]:
    """The remediation of each phase that has one, as `nebula_dag` expects it."""
    phases = nebula_phases(state)
    return {name: phase["remediation"] for name, phase in phases.items() if "remediation" in phase}


def original_of(state: State, phase: str) -> str:
    """The phase that people wrote and that `phase` remedies, directly or indirectly; else `phase` itself."""
    phases = nebula_phases(state)
    seen = {phase}
    while phase in phases and (before := phases[phase].get("remedies")) is not None and before not in seen:
        phase = before
        seen.add(phase)
    return phase


def heal_attempts(state: State, phase: str) -> int:
    """The number of attempts for the original of `phase`, those for its remediations included."""
    phases = nebula_phases(state)
    original = original_of(state, phase)
    family = [name for name in phases if original_of(state, name) == original]
    return sum(phases[name].get("heal_attempts", 0) for name in family)


# --- as text ---------------------------------------------------------------------------------------


def live_line(phase: str, kind: str, remediation: str, title: str) -> str:
    """The line of the live view: `healing parser (max_cycles) → heal-parser: "Handle empty input"`."""
    return f'healing {phase} ({kind}) → {remediation}: "{shorten(" ".join(inert(title).split()), 100)}"'


def _is_healed(attempt: Attempt, results: Mapping[str, RemediationResult]) -> bool:
    result = results.get(attempt.remediation)
    return attempt.stage == "done" if result is None else result.success


def _cost(attempt: Attempt, results: Mapping[str, RemediationResult]) -> float | None:
    result = results.get(attempt.remediation) if attempt.remediation else None
    if attempt.architect_cost is None or (result is not None and result.cost_usd is None):
        return None
    return attempt.architect_cost + (result.cost_usd or 0.0 if result is not None else 0.0)


_STAGES: dict[AttemptStage, str] = {
    "started": "waiting for the architect",
    "planned": "planned, not inserted",
    "inserted": "not finished",
    "skipped": "not healed",
    "failed": "failed",
    "done": "done",
}


def _line(attempt: Attempt, results: Mapping[str, RemediationResult]) -> str:
    what = f"{attempt.phase} ({attempt.kind or 'unknown'})"
    said = healing_events.NOT_HEALED.get(attempt.reason, attempt.reason)
    reason = f": {shorten(' '.join(inert(said).split()), 120)}" if said else ""
    if not attempt.remediation:
        return f"{what}: {_STAGES[attempt.stage]}{reason}"
    result = results.get(attempt.remediation)
    ended = _STAGES[attempt.stage] if result is None else "done" if result.success else "failed"
    title = shorten(" ".join(inert(attempt.title).split()), 60)
    cost = f", {result.cost_usd:.2f} dollars" if result is not None and result.cost_usd is not None else ""
    return f'{what} → {attempt.remediation} "{title}": {ended}{cost}{reason}'
