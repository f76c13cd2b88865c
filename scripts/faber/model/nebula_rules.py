"""What each event of a nebula's run changes in its state. Imported wherever events are folded.

A nebula's phases are in `state["nebula"]`, separate from a workflow's: several run at once, and a failed phase
stops only its dependents. So `phase_start`, `phase_complete`, `phase_skip` and `phase_error` have a second
meaning here, for runs that have a `nebula_start`. The run itself starts, resumes, fails, is cancelled and
completes by the `workflow_*` events, like every run.
"""

from typing import Any, cast

from faber.events import event_types, token_counts
from faber.events.drafts import Event
from faber.model import feedback_rules  # noqa: F401 - the rules registered there get a second meaning here
from faber.model.documents import NebulaRunState, State, is_nebula_run, nebula_of
from faber.model.nebula_documents import NebulaPhase, NebulaState
from faber.model.rules import ERROR_CHARS, KEPT_ERRORS, RULES, Rule, reduces
from faber.model.state_parts import ErrorEntry
from faber.text.safe_text import shorten

REASON_CHARS = 200
REPORT_CHARS = 160
DENIED_CHARS = 160
KEPT_DENIED = 5
_NAME_CHARS = 200


@reduces(event_types.NEBULA_START)
def _start_nebula(state: State, event: Event) -> None:
    """Set the nebula's phases from an object of id and digest. On a repeat, known phases keep their state, and
    phases that were removed are kept if they had started. A started phase keeps the digest it started with."""
    given = event["metadata"]
    before = nebula_of(state)
    known = before["phases"] if before else {}
    phases: dict[str, NebulaPhase] = {}
    for name, digest in given["phases"].items():
        phases[name] = known.get(name, {"status": "pending"})
        if digest and (phases[name]["status"] == "pending" or "digest" not in phases[name]):
            phases[name]["digest"] = str(digest)[:64]
    for name, phase in known.items():
        if name not in phases and ("remedies" in phase or phase["status"] != "pending"):
            phases[name] = phase
    nebula = _ensure_nebula(state)
    nebula["name"] = str(given["nebula"])[:_NAME_CHARS]
    nebula["directory"] = given.get("directory")
    nebula["base_branch"] = given.get("base_branch")
    nebula["base_commit"] = given.get("base_commit")
    nebula["branch"] = given.get("branch")
    nebula["landed"] = None
    nebula["phases"] = phases


@reduces(event_types.NEBULA_LAND)
def _land(state: State, event: Event) -> None:
    _ensure_nebula(state)["landed"] = event["metadata"]["commit"]


# --- phases ----------------------------------------------------------------------------------------


def _ensure_nebula(state: State) -> NebulaState:
    """The nebula of the state, created empty if the state has none."""
    if not is_nebula_run(state):
        empty: NebulaState = {
            "name": "",
            "directory": None,
            "base_branch": None,
            "base_commit": None,
            "branch": None,
            "landed": None,
            "spent": {"cost": 0.0, "healing_cost": 0.0, "turns": 0},
            "phases": {},
        }
        state = cast(NebulaRunState, state)
        state["nebula"] = empty
    return state["nebula"]


def _phase(state: State, event: Event) -> NebulaPhase:
    phases = _ensure_nebula(state)["phases"]
    phase = phases.setdefault(event["phase"], {"status": "pending"})
    phase["event"] = event["event_id"]
    return phase


def _extend(rule: Rule, *names: str) -> None:
    """In a nebula's run, apply `rule` after the existing rules of the events `names`."""
    for name in names:
        RULES[name] = _both(RULES[name], rule)


def _both(first: Rule, second: Rule) -> Rule:
    def both(state: State, event: Event) -> None:
        first(state, event)
        if is_nebula_run(state):
            second(state, event)

    return both


def _replace(rule: Rule, name: str) -> None:
    """In a nebula's run, apply `rule` for the event `name`; in a workflow's run, the existing rule."""
    of_workflows = RULES[name]

    def either(state: State, event: Event) -> None:
        (rule if is_nebula_run(state) else of_workflows)(state, event)

    RULES[name] = either


def _start(state: State, event: Event) -> None:
    phase, given = _phase(state, event), event.get("metadata", {})
    phase["status"] = "in_progress"
    phase["started_at"] = phase.get("started_at", event["timestamp"])
    _drop(phase, "ended_at", "reason", "report", "failure", "healing", "not_healed")
    _take(phase, given, branch="branch", base="base", digest="digest")
    _forget_errors(state, event["phase"])


def _complete(state: State, event: Event) -> None:
    phase = _phase(state, event)
    phase["status"] = "done"
    phase["ended_at"] = event["timestamp"]
    _drop(phase, "stage", "reason", "failing_filter")
    if event.get("message"):
        phase["report"] = shorten(event["message"], REPORT_CHARS)
    _forget_errors(state, event["phase"])


def _skip(state: State, event: Event) -> None:
    phase = _phase(state, event)
    phase["status"] = "skipped"
    phase["ended_at"] = event["timestamp"]
    if event.get("message"):
        phase["reason"] = shorten(event["message"], REASON_CHARS)
    _forget_errors(state, event["phase"])


def _fail(state: State, event: Event) -> None:
    phase, message = _phase(state, event), str(event.get("error", {}).get("message", ""))
    phase["status"] = "failed"
    phase["ended_at"] = event["timestamp"]
    phase["reason"] = shorten(message, REASON_CHARS)
    _forget_errors(state, event["phase"])
    entry: ErrorEntry = {
        "event_id": event["event_id"],
        "type": event["type"],
        "phase": event["phase"],
        "step": None,
        "at": event["timestamp"],
        "message": shorten(message, ERROR_CHARS),
    }
    state["errors"] = [*state["errors"], entry][-KEPT_ERRORS:]


_replace(_start, event_types.PHASE_START)
_replace(_complete, event_types.PHASE_COMPLETE)
_replace(_skip, event_types.PHASE_SKIP)
_replace(_fail, event_types.PHASE_ERROR)


@reduces(event_types.PHASE_RESET)
def _reset(state: State, event: Event) -> None:
    """Reset the phase. Its cost, its tokens and its number of healing attempts stay."""
    phases = _ensure_nebula(state)["phases"]
    old = phases.get(event["phase"], {"status": "pending"})
    kept = ("digest", "cost", "turns", "tokens", "heal_attempts", "remediation", "remedies")
    fresh: Any = {"status": "pending", **{key: old[key] for key in kept if key in old}}  # type: ignore[literal-required]
    fresh["event"] = event["event_id"]
    phases[event["phase"]] = fresh
    _forget_errors(state, event["phase"])


@reduces(event_types.PHASE_MERGE)
def _merge(state: State, event: Event) -> None:
    phase = _phase(state, event)
    phase["merged"] = event["metadata"]["commit"]
    phase["stage"] = "merged"


@reduces(event_types.CHECKPOINT_VERDICT)
def _verdict(state: State, event: Event) -> None:
    _phase(state, event)


def _forget_errors(state: State, phase: str) -> None:
    state["errors"] = [error for error in state["errors"] if error.get("phase") != phase]


def _drop(phase: NebulaPhase, *keys: str) -> None:
    for key in keys:
        phase.pop(key, None)  # type: ignore[misc]


def _take(phase: NebulaPhase, given: dict[str, Any], **names: str) -> None:
    for key, name in names.items():
        if given.get(name) is not None:
            phase[key] = given[name]  # type: ignore[literal-required]


# --- people ----------------------------------------------------------------------------------------


def _ask(state: State, event: Event) -> None:
    """Record the question in the phase it is about: the answer may arrive while no process runs."""
    context = event["metadata"].get("context", {})
    name = context.get("nebula_phase")
    if isinstance(name, str) and name in _ensure_nebula(state)["phases"]:
        phase = _ensure_nebula(state)["phases"][name]
        phase["asked"] = event["metadata"]["request_id"]
        _take(phase, context, asked_commit="commit")


def _update_waiting(state: State, event: Event) -> None:
    """A nebula's run waits for a person only when no phase of it is being worked on."""
    if state["status"] not in ("in_progress", "awaiting_feedback"):
        return
    asked = {request["context"].get("nebula_phase") for request in state["feedback_queue"]}
    working = not asked or any(
        phase["status"] == "in_progress" and name not in asked
        for name, phase in _ensure_nebula(state)["phases"].items()
    )
    state["status"] = "in_progress" if working else "awaiting_feedback"


_extend(_ask, event_types.FEEDBACK_REQUEST)
_extend(_update_waiting, event_types.FEEDBACK_REQUEST, event_types.FEEDBACK_RECEIVED)
_extend(
    _update_waiting,
    event_types.PHASE_START,
    event_types.PHASE_COMPLETE,
    event_types.PHASE_ERROR,
    event_types.PHASE_SKIP,
)
_extend(_update_waiting, event_types.PHASE_RESET)


# --- cycles ----------------------------------------------------------------------------------------


@reduces(event_types.CYCLE_START)
def _start_cycle(state: State, event: Event) -> None:
    phase = _phase(state, event)
    phase["cycle"] = int(event["metadata"]["cycle"])
    phase["stage"] = "coding"


@reduces(event_types.CYCLE_COMMIT)
def _commit(state: State, event: Event) -> None:
    phase = _phase(state, event)
    phase["commit"] = event["metadata"]["commit"]
    phase["stage"] = "filtering"


@reduces(event_types.CYCLE_COMPLETE)
def _complete_cycle(state: State, event: Event) -> None:
    phase, given = _phase(state, event), event["metadata"]
    phase["cycles_done"] = max(phase.get("cycles_done", 0), int(given["cycle"]))
    if "findings" in given:
        phase["findings"] = int(given["findings"])


@reduces(event_types.AGENT_TURN)
def _turn(state: State, event: Event) -> None:
    phase, given, spent = _phase(state, event), event["metadata"], _ensure_nebula(state)["spent"]
    cost = float(given.get("cost_usd") or 0.0)
    phase["cost"], spent["cost"] = (round(before + cost, 6) for before in (phase.get("cost", 0.0), spent["cost"]))
    phase["turns"], spent["turns"] = phase.get("turns", 0) + 1, spent["turns"] + 1
    if given.get("unpriced"):
        spent["unpriced"] = spent.get("unpriced", 0) + 1
    if given.get("denials"):
        phase["denials"] = phase.get("denials", 0) + int(given["denials"])
    if given.get("denied"):
        phase["denied"] = [str(each)[:DENIED_CHARS] for each in given["denied"]][:KEPT_DENIED]
    if given["role"] == "architect" or "remedies" in phase:
        spent["healing_cost"] = round(spent["healing_cost"] + cost, 6)
    if isinstance(given.get("tokens"), dict):
        spent["tokens"] = token_counts.added_tokens(spent.get("tokens", {}), given["tokens"])
        phase["tokens"] = token_counts.added_tokens(phase.get("tokens", {}), given["tokens"])


@reduces(event_types.FILTER_RUN)
def _filter(state: State, event: Event) -> None:
    phase = _phase(state, event)
    if event["status"] == "passed":
        phase["stage"] = "reviewing"
        _drop(phase, "failing_filter")
    else:
        phase["failing_filter"] = str(event["metadata"]["filter"])[:_NAME_CHARS]


@reduces(event_types.REVIEW)
def _review(state: State, event: Event) -> None:
    phase, given = _phase(state, event), event.get("metadata", {})
    phase["stage"] = "approved" if event["status"] == "approved" else "review_complete"
    if "findings" in given:
        phase["findings"] = int(given["findings"])


# --- healing ---------------------------------------------------------------------------------------


@reduces(event_types.HEALING_START)
def _start_healing(state: State, event: Event) -> None:
    phase = _phase(state, event)
    phase["heal_attempts"] = phase.get("heal_attempts", 0) + 1
    phase["failure"] = str(event["metadata"]["kind"])[:_NAME_CHARS]
    phase["healing"] = "started"
    _drop(phase, "not_healed")


@reduces(event_types.HEALING_INSERT)
def _insert(state: State, event: Event) -> None:
    """Add the remediation phase; `remediation` tells dependents of the failed phase to wait for it instead."""
    phase, given = _phase(state, event), event["metadata"]
    new = str(given["remediation"])
    phase["remediation"] = new
    _drop(phase, "healing")
    phases = _ensure_nebula(state)["phases"]
    made = phases.setdefault(new, {"status": "pending"})
    made["remedies"] = event["phase"]
    made["event"] = event["event_id"]
    _take(made, given, digest="digest")


@reduces(event_types.HEALING_SKIPPED)
def _skip_healing(state: State, event: Event) -> None:
    phase, given = _phase(state, event), event["metadata"]
    phase["not_healed"] = str(given["reason"])[:_NAME_CHARS]
    if given.get("kind"):
        phase["failure"] = str(given["kind"])[:_NAME_CHARS]
    _drop(phase, "healing")


@reduces(event_types.HEALING_PLAN)
def _plan_healing(state: State, event: Event) -> None:
    _phase(state, event)["healing"] = "planned"


@reduces(event_types.HEALING_DONE)
def _end_healing(state: State, event: Event) -> None:
    """With a remediation phase, the outcome is in its own entry; without one, the architect produced none."""
    phase = _phase(state, event)
    _drop(phase, "healing")
    if event["status"] == "failed":
        phase["not_healed"] = shorten(str(event.get("message") or "The remediation failed."), REASON_CHARS)
