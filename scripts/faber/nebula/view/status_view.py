"""Where a nebula's run is, as one JSON object: the only place that computes what `faber nebula status` says. Pure."""

from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Any, NamedTuple

from faber.events.token_counts import in_and_out
from faber.model.documents import State, nebula_of
from faber.model.nebula_documents import NebulaPhase, NebulaSpent
from faber.nebula.healing.refusals import OFF, UNHEALABLE, refusal
from faber.nebula.plan.graph import Dag
from faber.nebula.plan.state_file import PhaseRecord
from faber.nebula.run.ready_queue import Frontier
from faber.nebula.run.run_limits import RunLimits
from faber.view.view_fold import NEW, allowance_of, elapsed, stage_of

KEPT_LINES = 20  # of a failing filter
_OF_RECORD = (
    *("started_at", "ended_at", "cycle", "findings", "reason"),
    *("failure", "healing", "remediation", "remedies"),
)


class StatusFacts(NamedTuple):
    """What the status is made of.

    `state` is that of the run, None if it is not in this store; `phases` are its phases, see `known_phases`. `worker`
    is the process that works on the nebula (`pid`, `command`, `since`). `reasons` are the whole reasons of failed
    phases, `checks` the failing filters (name and output) by phase. `now` is a time in UTC.
    """

    directory: str
    dag: Dag
    state: State | None
    phases: Mapping[str, NebulaPhase]
    spent: NebulaSpent
    limits: RunLimits
    worker: Mapping[str, Any] | None
    reasons: Mapping[str, str]
    checks: Mapping[str, tuple[str, str]]
    now: str


def known_phases(state: State | None, records: Mapping[str, PhaseRecord]) -> Mapping[str, NebulaPhase]:
    """The phases as the run's state has them; without it as nebula.state.toml has them."""
    nebula = nebula_of(state) if state else None
    return nebula["phases"] if nebula else {name: _of_record(record) for name, record in records.items()}


def run_view(facts: StatusFacts) -> dict[str, object]:
    """What is true of the whole run: `working`, why no turn can begin (`paused`), the `request` that is about no phase,
    `cost_usd`, `tokens_in`, `tokens_out`, `budget`, `queue`, `estimate`.

    Times are in seconds, money is in US dollars. `queue` lists the phases that may start now, best first, and counts
    those that wait for others. `estimate` goes by the median of the phases that are done; None without any, and where
    nothing is left.
    """
    phases = facts.phases
    frontier = _frontier(facts.dag, phases)
    ready = frontier.ready()
    spent, limits = facts.spent, facts.limits
    tokens_in, tokens_out = in_and_out(spent.get("tokens", {}))
    budget = allowance_of(limits.max_budget_usd, limits.reserve_usd, spent["cost"], spent["healing_cost"])
    settled = frontier.done | frontier.failed | frontier.skipped | frontier.running
    return {
        "working": dict(facts.worker) if facts.worker else None,
        "paused": facts.state.get("paused") if facts.state else None,
        "request": _request(facts.state, None),
        "cost_usd": facts.spent["cost"],
        "tokens_in": tokens_in,
        "tokens_out": tokens_out,
        "budget": budget._asdict(),
        "queue": {"ready": ready, "waiting": len(facts.dag.dependencies.keys() - settled) - len(ready)},
        "estimate": _estimate(facts),
    }


def phase_view(facts: StatusFacts, name: str) -> dict[str, object]:
    """What is true of one phase: status, stage, cycle, `elapsed_s`, cost, tokens, findings, what it was denied, why it
    failed (`reason` whole, the last lines of `failing_filter`), the `request` that it waits for, and its healing.

    `elapsed_s` counts from its start to its end or now, pauses included; where nobody works on it, to the run's last
    event.
    """
    phase = facts.phases.get(name, NEW)
    check = facts.checks.get(name)
    tokens_in, tokens_out = in_and_out(phase.get("tokens", {}))
    refused = phase.get("not_healed") if "remediation" not in phase else None
    # What no remediation can fix is not healed where healing is on either.
    why_not = UNHEALABLE if refused == OFF and phase.get("failure") == UNHEALABLE else refused
    return {
        "status": phase["status"],
        "stage": stage_of(phase),
        "cycle": phase.get("cycle"),
        "elapsed_s": _elapsed(facts, phase),
        "cost_usd": phase.get("cost", 0.0),
        "tokens_in": tokens_in,
        "tokens_out": tokens_out,
        "findings": phase.get("findings", 0),
        "denials": phase.get("denials", 0),
        "denied": phase.get("denied", []),
        "reason": facts.reasons.get(name) or phase.get("reason"),
        "failing_filter": {"name": check[0], "output": check[1].splitlines()[-KEPT_LINES:]} if check else None,
        "request": _request(facts.state, name),
        "failure": phase.get("failure"),
        "not_healed": refused,
        "what_to_do": refusal(why_not, facts.directory) if why_not else None,
        "remediation": phase.get("remediation"),
    }


def elapsed_of(phase: NebulaPhase, now: str) -> float | None:
    """The seconds from a phase's start to its end; to `now` while it is in progress. None before its start."""
    return elapsed(phase.get("started_at"), now if phase["status"] == "in_progress" else phase.get("ended_at"))


# --- inside ----------------------------------------------------------------------------------------


def _of_record(record: PhaseRecord) -> NebulaPhase:
    known: Any = {"status": record.status, "cost": record.cost_usd}
    known |= {key: value for key in _OF_RECORD if (value := getattr(record, key))}
    phase: NebulaPhase = known
    return phase


def _frontier(dag: Dag, phases: Mapping[str, NebulaPhase]) -> Frontier:
    """The queue as a resumed run would have it."""

    def of(*statuses: str) -> list[str]:
        return [name for name in dag.dependencies if phases.get(name, NEW)["status"] in statuses]

    frontier = Frontier(dag, done=of("done", "decomposed"), failed=of("failed"), skipped=of("skipped"))
    frontier.running.update(of("in_progress"))
    for name in [*frontier.failed, *frontier.skipped]:
        frontier.skip_after(name)
    return frontier


def _request(state: State | None, phase: str | None) -> dict[str, object] | None:
    for asked in state["feedback_queue"] if state else ():
        if state is not None and asked["context"].get("nebula_phase") == phase:
            answer = f"faber feedback respond {state['run_id']} approve --request {asked['request_id']}"
            return {
                "request_id": asked["request_id"],
                "prompt": asked["prompt"],
                "options": asked["options"],
                "answer_with": answer,
            }
    return None


def _elapsed(facts: StatusFacts, phase: NebulaPhase) -> float | None:
    return elapsed_of(phase, facts.now if facts.worker or facts.state is None else facts.state["updated_at"])


def _estimate(facts: StatusFacts) -> dict[str, object] | None:
    """How long what is left takes with the run's workers, if every phase takes what the finished ones took. Nobody is
    waited for: a phase at a gate counts as approved."""
    phases = facts.phases
    done = [phase for phase in phases.values() if phase["status"] == "done" and phase.get("started_at")]
    if not done:
        return None
    usual = sorted(_elapsed(facts, phase) or 0.0 for phase in done)[len(done) // 2]
    price = sorted(phase.get("cost", 0.0) for phase in done)[len(done) // 2]
    asked = {each["context"].get("nebula_phase") for each in facts.state["feedback_queue"]} if facts.state else set()
    frontier = _frontier(facts.dag, phases)
    ends: list[tuple[float, str]] = []
    cost, count = 0.0, 0
    for running in sorted(frontier.running):
        phase = phases[running]
        free = running in asked or phase.get("stage") in ("approved", "merged")
        heappush(ends, (0.0 if free else max(0.0, usual - (_elapsed(facts, phase) or 0.0)), running))
        cost += 0.0 if free else max(0.0, price - phase.get("cost", 0.0))
        count += not free
    now = 0.0
    while True:
        while len(ends) < facts.limits.max_workers and (name := frontier.take()) is not None:
            heappush(ends, (now + usual, name))
            cost, count = cost + price, count + 1
        if not ends:
            break
        now, ended = heappop(ends)
        frontier.finish(ended)
    return {"seconds": round(now), "cost_usd": round(cost, 4), "phases": count, "by": len(done)} if count else None
