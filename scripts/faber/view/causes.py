"""What a nebula's run spent, turn by turn, each turn for one cause. Pure.

The sums by cause, by phase, and those of the run's state are equal to the millionth of a dollar and to the token. Only
agents that faber starts are counted: what the sessions of a workflow's run cost, their client knows.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from faber.events import event_types
from faber.events.drafts import Event
from faber.events.token_counts import TOKENS, added_tokens, in_and_out
from faber.view.run_view import Money

Cause = Literal["work", "review", "correction", "resumption", "healing", "waste", "unknown"]
CAUSES: Mapping[Cause, str] = {
    "work": "First turns of coders",
    "review": "Turns of reviewers",
    "correction": "Coders' later cycles: findings, failed filters, conflicts",
    "resumption": "Turns repeated because a process was interrupted",
    "healing": "Architects, and everything in remediation phases",
    "waste": "Turns without a result, and work that was started over",
    "unknown": "Spent before the first event that is still there",
}
_MICRO = 1_000_000
# How a turn ends that gave what it was asked for; any other left at most a part of it.
_WHOLE = frozenset({"completed", "cut"})


class Spend(NamedTuple):
    """What one turn cost, in millionths of a dollar and in tokens, and why. Where events are lost, one entry stands for
    all `turns` of a phase; `phase` is empty where it is not known."""

    phase: str
    role: str
    cause: Cause
    micros: int
    tokens: Mapping[str, int]
    turns: int = 1


class Spending(NamedTuple):
    """Everything that a run spent."""

    spends: tuple[Spend, ...]

    @property
    def total(self) -> Money:
        """All of it."""
        return _sum(self.spends)

    def by_cause(self) -> dict[Cause, Money]:
        """The causes that cost anything, in the order of `CAUSES`."""
        return {cause: _sum(found) for cause in CAUSES if (found := [s for s in self.spends if s.cause == cause])}

    def by_phase(self) -> dict[str, dict[Cause, Money]]:
        """The phases in the order of their first turns, each by cause."""
        phases: dict[str, list[Spend]] = {}
        for spend in self.spends:
            phases.setdefault(spend.phase, []).append(spend)
        return {name: Spending(tuple(found)).by_cause() for name, found in phases.items()}


def _sum(spends: Iterable[Spend]) -> Money:
    micros = turns = 0
    tokens: dict[str, int] = {}
    for spend in spends:
        micros, turns = micros + spend.micros, turns + spend.turns
        tokens = added_tokens(tokens, spend.tokens)
    return Money(micros / _MICRO, *in_and_out(tokens), turns)


def spending_of(events: Iterable[Event]) -> Spending:
    """What the run with these events (all of them, in order) spent."""
    fold = _Fold()
    for event in events:
        fold.take(event)
    return Spending(tuple(turn.spend() for turn in fold.turns))


class _Turn:
    """A turn whose cause may still change: later events show whether it had a result, and whether that was kept."""

    def __init__(self, spend: Spend, cycle: int | None, whole: bool) -> None:
        self.kept, self.cycle, self.result = spend, cycle, whole
        self.recorded = False  # its result is an event of its own

    def spend(self) -> Spend:
        """The turn as it is known at the end."""
        return self.kept if self.result or self.kept.cause == "healing" else self.kept._replace(cause="waste")


class _Phase:
    """A phase in its current attempt: the turns that count as waste once it starts over, the number of its cycle, those
    whose stage an earlier process began, and the newest turn of each role since the last start."""

    def __init__(self) -> None:
        self.turns: list[_Turn] = []
        self.cycle: int | None = None
        self.repeats: set[tuple[str, int | None]] = set()
        self.newest: dict[str, _Turn] = {}


class _Fold:
    def __init__(self) -> None:
        self.turns: list[_Turn] = []
        self.phases: dict[str, _Phase] = {}
        self.remediations: set[str] = set()
        self.total = 0.0

    def take(self, event: Event) -> None:
        """Fold one event."""
        kind, given = event["type"], event.get("metadata") or {}
        if kind in event_types.SNAPSHOTS:
            self._begin_with(given.get("state"))
            return
        if kind == event_types.HEALING_INSERT:
            self.remediations.add(str(given.get("remediation")))
        if "phase" not in event:
            return
        phase = self.phases.setdefault(event["phase"], _Phase())
        if kind == event_types.AGENT_TURN:
            self._turn(event["phase"], phase, given)
        elif kind == event_types.PHASE_START:
            phase.repeats = {(role, turn.cycle) for role, turn in phase.newest.items()}
            phase.newest = {}
        elif kind == event_types.CYCLE_START:
            if phase.cycle == _cycle_of(given):  # the cycle of a process that ended in it
                phase.repeats.add(("coder", phase.cycle))
            phase.cycle = _cycle_of(given)
        elif kind == event_types.CYCLE_COMMIT:
            self._had_result(phase, "coder")
        elif kind == event_types.REVIEW:
            self._had_result(phase, "reviewer")
        elif kind == event_types.CHECKPOINT_VERDICT and given.get("resumes") is False:
            for turn in phase.turns:
                turn.result = False
            self.phases[event["phase"]] = _Phase()

    def _turn(self, name: str, phase: _Phase, given: Mapping[str, object]) -> None:
        role, cycle = str(given.get("role")), _cycle_of(given)
        cause: Cause = "review" if role == "reviewer" else "work"
        if role == "architect" or name in self.remediations:
            cause = "healing"
        elif (role, cycle) in phase.repeats:
            cause = "resumption"
        elif role == "coder" and cycle is not None and cycle > 1:
            cause = "correction"
        before = phase.newest.get(role)
        if before is not None and before.cycle == cycle and not before.recorded:  # asked again: it was of no use
            before.result = False
        tokens = given.get("tokens")
        counted = added_tokens({}, tokens) if isinstance(tokens, dict) else {}
        outcome = given.get("outcome", "completed")
        turn = _Turn(Spend(name, role, cause, self._micros(given.get("cost_usd")), counted), cycle, outcome in _WHOLE)
        phase.newest[role] = turn
        phase.turns.append(turn)
        self.turns.append(turn)

    def _had_result(self, phase: _Phase, role: str) -> None:
        if role in phase.newest:
            phase.newest[role].result = phase.newest[role].recorded = True

    def _micros(self, cost: object) -> int:
        """The millionths by which the run's total grows, added up as the state does."""
        before = self.total
        self.total = round(before + (float(cost) if isinstance(cost, int | float) else 0.0), 6)
        return round(self.total * _MICRO) - round(before * _MICRO)

    def _begin_with(self, state: object) -> None:
        """Take what a state knows for everything before it: the events of it may be lost."""
        nebula = state.get("nebula") if isinstance(state, dict) else None
        self.__init__()  # type: ignore[misc]
        if not isinstance(nebula, dict):
            return
        spent, left = nebula["spent"], dict(nebula["spent"].get("tokens", {}))
        micros, turns = round(spent["cost"] * _MICRO), spent["turns"]
        for name, phase in nebula["phases"].items():
            if "remedies" in phase:
                self.remediations.add(name)
            self._known(name, round(phase.get("cost", 0.0) * _MICRO), phase.get("tokens", {}), phase.get("turns", 0))
            micros, turns = micros - self.turns[-1].kept.micros, turns - phase.get("turns", 0)
            left = {key: left.get(key, 0) - phase.get("tokens", {}).get(key, 0) for key in TOKENS}
        self._known("", micros, left, turns)  # of phases that are gone
        self.turns = [turn for turn in self.turns if turn.kept.micros or turn.kept.turns or turn.kept.tokens]
        self.total = spent["cost"]

    def _known(self, phase: str, micros: int, tokens: Mapping[str, int], turns: int) -> None:
        counted = {name: count for name, count in tokens.items() if count}
        self.turns.append(_Turn(Spend(phase, "", "unknown", micros, counted, turns), None, True))


def _cycle_of(given: Mapping[str, object]) -> int | None:
    found = given.get("cycle")
    return found if isinstance(found, int) else None
