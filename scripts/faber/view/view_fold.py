"""Folds a run's state, plan and newest events into what a person sees of it. Pure: `now` is an argument."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from faber.context.resume import RunPosition
from faber.events.drafts import Event
from faber.events.token_counts import in_and_out
from faber.model.documents import CLOSED, Plan, State, is_nebula_run, nebula_of
from faber.model.nebula_documents import NebulaPhase
from faber.model.progress import reopening
from faber.model.state_parts import FeedbackRequest, PhaseState, StepState
from faber.text.program_word import shell_word
from faber.view.run_view import Allowance, EventLine, Money, PhaseView, Progress, Question, RunView, StepView, Worker

DONE = frozenset({"completed", "done", "decomposed"})
NEW: NebulaPhase = {"status": "pending"}


class Around(NamedTuple):
    """What is known of a run beside its state: its position, the living process that works on a nebula (`pid`,
    `command`, `since`), the metadata of its newest start, which limit it, and its newest events."""

    position: RunPosition
    process: Mapping[str, object] | None = None
    limits: Mapping[str, object] = {}
    events: Sequence[Event] = ()
    foreign: bool = False


def view_of(state: State, plan: Plan, around: Around, now: str) -> RunView:
    """The run with this state and plan at the time `now` (UTC)."""
    nebula = nebula_of(state)
    worker = _worker(state, around)
    until = now if worker and not worker.ended and state["status"] not in CLOSED else state["updated_at"]
    asked = tuple(_question(state["run_id"], each) for each in state["feedback_queue"])
    about = {each["context"].get("nebula_phase"): each["request_id"] for each in reversed(state["feedback_queue"])}
    if nebula is not None:
        phases = tuple(_of_nebula(name, each, about.get(name), until) for name, each in nebula["phases"].items())
        spent = nebula["spent"]
        money = Money(spent["cost"], *in_and_out(spent.get("tokens", {})), spent["turns"])
        healing_cost, unpriced = spent["healing_cost"], spent.get("unpriced", 0)
    else:
        phases = tuple(_of_workflow(state, plan, until))
        money, healing_cost, unpriced = Money(), 0.0, 0
    statuses = {phase.id: phase.status for phase in phases}
    limit, reserve = (_amount(around.limits.get(key)) for key in ("max_budget_usd", "reserve_usd"))
    target, branch = state["target"], nebula["branch"] if nebula else state["artifacts"].get("branch_name")
    ended = state["completed_at"] if state["status"] in CLOSED else None
    return RunView(
        at=now,
        run_id=state["run_id"],
        nebula=nebula is not None,
        title=(nebula["name"] if nebula else "") or target or "",
        work_id=state["work_id"],
        workflow_id=state["workflow_id"],
        autonomy=state["autonomy"],
        branch=branch if isinstance(branch, str) else None,
        directory=nebula["directory"] if nebula else None,
        foreign=around.foreign,
        status=state["status"],
        created_at=state["created_at"],
        started_at=state["started_at"],
        updated_at=state["updated_at"],
        ended_at=ended,
        elapsed_s=elapsed(state["started_at"], ended or until),
        error=_said(state["error"]),
        current_phase=state["current_phase"],
        current_step=state["current_step"],
        resume=around.position["resume_point"],
        next_command=around.position["next_command"],
        questions=asked,
        paused=state.get("paused"),
        worker=worker,
        phases=phases,
        progress=progress_of(phases),
        money=money,
        healing_cost_usd=healing_cost,
        unpriced_turns=unpriced,
        allowance=allowance_of(limit, reserve or 0.0, money.cost_usd, healing_cost),
        reopened=loop["reason"] if (loop := reopening(state)) else None,
        loops=tuple((each["phase"], each["return_to"], each["reason"]) for each in state["retry_loops"]),
        healing=tuple((p.id, p.remediation, statuses.get(p.remediation, "pending")) for p in phases if p.remediation),
        events=tuple(event_line(each) for each in around.events),
        last_event_id=state["last_event_id"],
    )


def elapsed(start: str | None, end: str | None) -> float | None:
    """The seconds between two times, at least 0; None without both, or where another tool wrote something else."""
    try:
        between = datetime.fromisoformat(end).timestamp() - datetime.fromisoformat(start).timestamp()  # type: ignore[arg-type]
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, round(between, 3))


def progress_of(phases: Iterable[PhaseView]) -> Progress:
    """How far the steps of these phases are, and those phases that have no steps."""
    statuses: list[str] = []
    for phase in phases:
        if not (phase.status == "failed" and phase.remediation):
            statuses += [step.status for step in phase.steps] or [phase.status]
    return Progress(
        done=sum(status in DONE for status in statuses),
        skipped=statuses.count("skipped"),
        failed=statuses.count("failed"),
        running=statuses.count("in_progress"),
        total=len(statuses),
    )


def allowance_of(limit: float | None, reserve: float, cost: float, healing_cost: float) -> Allowance:
    """What is left of `limit`, of which only healing may spend `reserve`; what healing used of it is not kept again."""
    if limit is None:
        return Allowance(None, None, reserve, None)
    whole = max(0.0, limit - cost)
    left = max(0.0, limit - cost - max(0.0, reserve - healing_cost))
    return Allowance(limit, round(left, 6), reserve, round(whole - left, 6))


def event_line(event: Event) -> EventLine:
    """An event in one line."""
    given = event.get("metadata", {})
    said = event.get("message") or _said(event.get("error"))
    if not said:
        words = [given.get(key) for key in ("role", "filter", "outcome", "prompt", "response", "remediation")]
        words += [str(given["commit"])[:12]] if given.get("commit") else []
        cycle = [f"cycle {given['cycle']}"] if given.get("cycle") else []
        said = ", ".join([*cycle, *(str(each) for each in [*words, event.get("status")] if each)])
    place = event.get("phase"), event.get("step")
    return EventLine(event["event_id"], event["timestamp"], event["type"], *place, " ".join(said.split()))


# --- inside ----------------------------------------------------------------------------------------


def _amount(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _said(error: Mapping[str, object] | None) -> str | None:
    return str(error.get("message") or "") or None if error else None


def _question(run_id: str, asked: FeedbackRequest) -> Question:
    place, about = asked["resume_point"], asked["context"].get("nebula_phase")
    answer = asked["options"][0] if asked["options"] else "ANSWER"
    return Question(
        asked["request_id"],
        asked["type"],
        asked["prompt"],
        tuple(asked["options"]),
        asked["requested_at"],
        about if isinstance(about, str) else place["phase"],
        place["step"],
        f"faber feedback respond {run_id} {shell_word(answer)} --request {asked['request_id']}",
    )


def _worker(state: State, around: Around) -> Worker | None:
    if state["status"] in CLOSED:
        return None
    if is_nebula_run(state):
        found = around.process
        if found is None:
            return None
        pid, since = found.get("pid"), str(found.get("since") or "")
        command = str(found.get("command") or "") or None
        return Worker(None, None, pid if isinstance(pid, int) else None, command, since, state["updated_at"], False)
    holder = state["holder"]
    if holder is None or holder["session_id"] is None:
        return None
    session = holder["session_id"]
    clients = [each.get("client") for each in around.events if each.get("session_id") == session]
    client = next((each for each in reversed(clients) if each), None)
    return Worker(session, client, None, None, holder["since"], holder["seen"], holder["ended"])


def _of_workflow(state: State, plan: Plan, until: str) -> Iterable[PhaseView]:
    names = {phase["id"]: phase["name"] for phase in plan["phases"]}
    steps = {(phase["id"], step["id"]): step["name"] for phase in plan["phases"] for step in phase["steps"]}
    for phase_id, phase in state["phases"].items():
        yield PhaseView(
            phase_id,
            names.get(phase_id, phase_id),
            phase["status"],
            phase["started_at"],
            phase["completed_at"],
            _elapsed_of(phase, until),
            state["loops_used"].get(phase_id, 0),
            _said(phase["error"]),
            tuple(_step(name, steps.get((phase_id, name), name), step, until) for name, step in phase["steps"].items()),
        )


def _elapsed_of(place: PhaseState | StepState, until: str) -> float | None:
    return elapsed(place["started_at"], until if place["status"] == "in_progress" else place["completed_at"])


def _step(step_id: str, name: str, step: StepState, until: str) -> StepView:
    return StepView(
        step_id,
        name,
        step["status"],
        step["attempts"],
        step["started_at"],
        step["completed_at"],
        _elapsed_of(step, until),
        step["message"],
        _said(step["error"]),
        step["warning"],
        step["blocked"],
        step["waived_by"] is not None,
    )


def _of_nebula(name: str, phase: NebulaPhase, request_id: str | None, until: str) -> PhaseView:
    running = phase["status"] == "in_progress"
    return PhaseView(
        id=name,
        name=name,
        status=phase["status"],
        started_at=phase.get("started_at"),
        ended_at=phase.get("ended_at"),
        elapsed_s=elapsed(phase.get("started_at"), until if running else phase.get("ended_at")),
        attempts=phase.get("heal_attempts", 0),
        reason=phase.get("reason"),
        stage=stage_of(phase),
        cycle=phase.get("cycle"),
        cycles_done=phase.get("cycles_done", 0),
        findings=phase.get("findings", 0),
        denials=phase.get("denials", 0),
        money=Money(phase.get("cost", 0.0), *in_and_out(phase.get("tokens", {})), phase.get("turns", 0)),
        failing_filter=phase.get("failing_filter"),
        failure=phase.get("failure"),
        remediation=phase.get("remediation"),
        remedies=phase.get("remedies"),
        not_healed=phase.get("not_healed") if "remediation" not in phase else None,
        commit=phase.get("commit"),
        merged=phase.get("merged"),
        request_id=request_id,
    )


def stage_of(phase: NebulaPhase) -> str | None:
    """What happens in a nebula's phase: `healing`, or the stage of its cycle while it is in progress."""
    if "healing" in phase:
        return "healing"
    return phase.get("stage") if phase["status"] == "in_progress" else None
