"""Healing as the run's log has it: what each event carries, and what the events say of each attempt. Pure.

The order in which an attempt is recorded makes a kill harmless: `healing_start` (the attempt counts from here),
`healing_plan` with the whole phase file (from here the architect is not asked again), then the phase file beside the
others, then `healing_insert`. Whoever resumes looks at `attempts_of`: an attempt that is `started` is planned now, one
that is `planned` gets its file and its insertion from the event, and both are the same attempt.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from faber.model.documents import Event, State, nebula_phases
from faber.model.text import inert, shorten
from faber.nebula.healing.diagnosis import FailureDiagnosis, SkipReason
from faber.nebula.plan.specs import Nebula, PhaseSpec

Stage = Literal["started", "planned", "inserted", "skipped", "failed", "done"]
UNFINISHED: frozenset[Stage] = frozenset(("started", "planned"))
_REWIRED = 200  # names kept in an event


class Record(NamedTuple):
    """An event to append about the phase that failed: `journal.record(type, phase, **arguments)`."""

    type: str
    phase: str
    arguments: dict[str, Any]


def healing_start(diagnosis: FailureDiagnosis, original: str, attempt: int) -> Record:
    """Attempt number `attempt` for the phase `original`, whose own or whose last remediation's failure this is."""
    return Record(
        "healing_start",
        diagnosis.phase_id,
        {
            "message": diagnosis.summary,
            "kind": diagnosis.kind.value,
            "cycles": diagnosis.cycles_used,
            "spent": round(diagnosis.budget_spent, 6),
            "original": original,
            "attempt": attempt,
        },
    )


def healing_skipped(diagnosis: FailureDiagnosis, reason: SkipReason) -> Record:
    """The phase stays failed without an attempt."""
    arguments = {"message": diagnosis.summary, "reason": reason.value, "kind": diagnosis.kind.value}
    return Record("healing_skipped", diagnosis.phase_id, arguments)


def healing_plan(failed: str, spec: PhaseSpec, text: str, architect_cost: float | None) -> Record:
    """The architect's answer, made fit to be inserted: its whole file, so that it is asked for once."""
    arguments = {
        "message": spec.title,
        "remediation": spec.id,
        "title": spec.title,
        "architect_cost": architect_cost,
        "phase_file": text,
    }
    return Record("healing_plan", failed, arguments)


def healing_insert(failed: str, spec: PhaseSpec, rewired: Sequence[str], *, file: str, digest: str = "") -> Record:
    """The remediation is in the graph: `rewired` wait for it now; `file` is its phase file."""
    arguments = {
        "message": healing_message(spec.id, rewired),
        "remediation": spec.id,
        "rewired": list(rewired[:_REWIRED]),
        "rewired_total": len(rewired),
        "file": file,
        "digest": digest or None,
    }
    return Record("healing_insert", failed, arguments)


def healing_done(failed: str, *, success: bool, cost: float | None, remediation: str = "", reason: str = "") -> Record:
    """How the attempt ended. `cost` in US dollars is the remediation's, or the architect's where there is no
    remediation, because the architect gave none: then `reason` says why."""
    arguments = {
        "status": "done" if success else "failed",
        "message": reason or None,
        "success": success,
        "cost": cost,
        "remediation": remediation or None,
    }
    return Record("healing_done", failed, arguments)


def healing_message(remediation: str, rewired: Sequence[str]) -> str:
    """What an insertion does, in a sentence."""
    if not rewired:
        return f"{remediation} is queued; nothing waited for the failed phase."
    named = ", ".join(rewired[:5]) + (f" and {len(rewired) - 5} more" if len(rewired) > 5 else "")
    return f"{remediation} is queued; {named} {'wait' if len(rewired) > 1 else 'waits'} for it now."


# --- reading ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Attempt:
    """One failure and what was done about it. Money in US dollars, None where it is not known.

    `phase` is what failed, `original` the phase that people wrote, `number` counts the attempts for it. `stage` is
    `started`, `planned` (`phase_file` is its whole file), `inserted`, or how it ended: `skipped` and `failed` (for
    `reason`), or `done`.
    """

    phase: str
    original: str = ""
    number: int = 1
    stage: Stage = "started"
    kind: str = ""
    cycles: int = 0
    spent: float = 0.0
    remediation: str = ""
    title: str = ""
    phase_file: str = ""
    architect_cost: float | None = 0.0
    rewired: tuple[str, ...] = ()
    reason: str = ""


class Healed(NamedTuple):
    """What a remediation came to: whether it was approved and merged, and its cost in US dollars (None: not known)."""

    success: bool
    cost_usd: float | None = 0.0


def attempts_of(events: Iterable[Event]) -> list[Attempt]:
    """Every failure that healing had to do with, in the order of the log; other events are passed over."""
    found: list[Attempt] = []
    open_: dict[str, int] = {}
    for event in events:
        kind, phase, given = event["type"], event.get("phase", ""), event.get("metadata", {})
        if kind in ("healing_start", "healing_skipped"):
            open_[phase] = len(found)
            found.append(_begun(event, given))
        elif kind in _CHANGES and phase in open_:
            place = open_[phase]
            found[place] = replace(found[place], **_CHANGES[kind](event, given))
    return found


def _begun(event: Event, given: Mapping[str, Any]) -> Attempt:
    phase = event["phase"]
    begun = Attempt(phase, str(given.get("original") or phase), kind=str(given.get("kind", "")))
    if event["type"] == "healing_skipped":
        return replace(begun, stage="skipped", reason=str(given.get("reason", "")))
    cycles, spent, number = given.get("cycles", 0), given.get("spent", 0.0), given.get("attempt", 1)
    return replace(begun, cycles=int(cycles), spent=float(spent), number=int(number))


def _planned(event: Event, given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "stage": "planned",
        "remediation": str(given["remediation"]),
        "title": str(given.get("title", "")),
        "phase_file": str(given.get("phase_file", "")),
        "architect_cost": given.get("architect_cost"),
    }


def _inserted(event: Event, given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "stage": "inserted",
        "remediation": str(given["remediation"]),
        "rewired": tuple(map(str, given.get("rewired", ()))),
    }


def _ended(event: Event, given: Mapping[str, Any]) -> dict[str, Any]:
    if given.get("remediation"):
        return {"stage": "done" if event.get("status") == "done" else "failed", "reason": event.get("message", "")}
    return {"stage": "failed", "reason": event.get("message", ""), "architect_cost": given.get("cost")}


_CHANGES = {"healing_plan": _planned, "healing_insert": _inserted, "healing_done": _ended}


def results_of(events: Iterable[Event]) -> dict[str, Healed]:
    """What each remediation came to, by its id."""
    found = {}
    for event in events:
        given = event.get("metadata", {})
        if event["type"] == "healing_done" and given.get("remediation"):
            found[str(given["remediation"])] = Healed(event.get("status") == "done", given.get("cost"))
    return found


def unfinished(attempts: Iterable[Attempt]) -> list[Attempt]:
    """The attempts that a kill interrupted before their remediation was inserted."""
    return [attempt for attempt in attempts if attempt.stage in UNFINISHED]


def without_planned(nebula: Nebula, attempts: Iterable[Attempt]) -> Nebula:
    """The nebula without remediations that are planned and not inserted: killed in between, their file stands beside
    the others already, and taken for a phase like any other it would run without the work it is to go on from."""
    planned = {attempt.remediation for attempt in attempts if attempt.stage == "planned"}
    return replace(nebula, phases=tuple(spec for spec in nebula.phases if spec.id not in planned))


# --- from the state --------------------------------------------------------------------------------


def remediations(state: State) -> dict[str, str]:
    """The remediation of each phase that has one, as `nebula_dag` takes it."""
    phases = nebula_phases(state)
    return {name: phase["remediation"] for name, phase in phases.items() if "remediation" in phase}


def original_of(state: State, phase: str) -> str:
    """The phase that people wrote, of which `phase` is a remediation, or a remediation's; else `phase` itself."""
    phases = nebula_phases(state)
    seen = {phase}
    while phase in phases and (before := phases[phase].get("remedies")) is not None and before not in seen:
        phase = before
        seen.add(phase)
    return phase


def heal_attempts(state: State, phase: str) -> int:
    """How often healing was begun for the original of `phase`: its own failures and those of its remediations."""
    phases = nebula_phases(state)
    original = original_of(state, phase)
    family = [name for name in phases if original_of(state, name) == original]
    return sum(phases[name].get("heal_attempts", 0) for name in family)


# --- as text ---------------------------------------------------------------------------------------


def live_line(phase: str, kind: str, remediation: str, title: str) -> str:
    """What the live view shows: `healing parser (max_cycles) → heal-parser: "Handle empty input"`."""
    return f'healing {phase} ({kind}) → {remediation}: "{shorten(" ".join(inert(title).split()), 100)}"'


def healing_summary(attempts: Sequence[Attempt], results: Mapping[str, Healed]) -> str:
    """What healing did, for the end of a report: a line of totals and one for each failure; empty without any, and of
    failures while healing was off nothing is said."""
    attempts = [each for each in attempts if each.reason != SkipReason.POLICY_DISABLED]
    if not attempts:
        return ""
    healed = sum(1 for each in attempts if _is_healed(each, results))
    costs = [_cost(each, results) for each in attempts]
    known = sum(cost for cost in costs if cost is not None)
    more = " at least" if None in costs else ""
    count = f"{len(attempts)} failure{'s' if len(attempts) > 1 else ''}"
    lines = [f"Healing: {count}, {healed} healed;{more} {known:.2f} dollars for it"]
    return "\n".join([*lines, *(f"  {_line(each, results)}" for each in attempts)]) + "\n"


def _is_healed(attempt: Attempt, results: Mapping[str, Healed]) -> bool:
    result = results.get(attempt.remediation)
    return attempt.stage == "done" if result is None else result.success


def _cost(attempt: Attempt, results: Mapping[str, Healed]) -> float | None:
    result = results.get(attempt.remediation) if attempt.remediation else None
    if attempt.architect_cost is None or (result is not None and result.cost_usd is None):
        return None
    return attempt.architect_cost + (result.cost_usd or 0.0 if result is not None else 0.0)


_STAGES: dict[Stage, str] = {
    "started": "the architect has not answered",
    "planned": "planned, not inserted",
    "inserted": "not ended",
    "skipped": "not healed",
    "failed": "failed",
    "done": "done",
}


def _line(attempt: Attempt, results: Mapping[str, Healed]) -> str:
    what = f"{attempt.phase} ({attempt.kind or 'unknown'})"
    reason = f": {shorten(' '.join(inert(attempt.reason).split()), 120)}" if attempt.reason else ""
    if not attempt.remediation:
        return f"{what}: {_STAGES[attempt.stage]}{reason}"
    result = results.get(attempt.remediation)
    ended = _STAGES[attempt.stage] if result is None else "done" if result.success else "failed"
    title = shorten(" ".join(inert(attempt.title).split()), 60)
    cost = f", {result.cost_usd:.2f} dollars" if result is not None and result.cost_usd is not None else ""
    return f'{what} → {attempt.remediation} "{title}": {ended}{cost}{reason}'
