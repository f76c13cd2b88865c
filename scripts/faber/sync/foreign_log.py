"""What a machine on which only an agent worked may add to a run: a positive list, and each event where the same
command would record it here. Pure.

The log decides what people are asked, and what their answers open. So nothing in it may come from such a machine that
a person says (answers, waivers, resumes, skipped steps), and no request that a person would misread: one about a gate,
a waiver or a question of the context must be the one that faber itself asks.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast

from faber.errors import FaberError
from faber.events import event_types as kinds
from faber.events.drafts import Draft, Event
from faber.feedback.requests import NewRequest, open_request
from faber.git.refs import shown
from faber.model import commands
from faber.model.acceptance import Decision, Repeated, accept, check_artifacts
from faber.model.consequences import consequences
from faber.model.documents import Plan, State
from faber.model.next import next_action
from faber.model.progress import places, step_plan, step_state
from faber.model.reducer import fold
from faber.store.load import plan_digest
from faber.sync.sync_errors import ForeignEvent
from faber.text.safe_text import redact_json, shorten

MOST_EVENTS = 5_000
# Who may have recorded an event there; a person is never on that machine.
ACTORS = frozenset({"agent", "hook", "script"})
# The clocks of two machines, and a job that waited for the other one.
CLOCKS = timedelta(minutes=10)
# Notes of work: they are accepted as from any agent.
NOTES = frozenset(
    {
        kinds.CONTEXT_LOADED,
        kinds.RUN_HELD,
        kinds.DECISION_POINT,
        kinds.APPROVAL_REQUEST,
        kinds.ARTIFACT_CREATE,
        kinds.ARTIFACT_MODIFY,
        kinds.COMMIT_CREATE,
        kinds.BRANCH_CREATE,
        kinds.SPEC_GENERATE,
        kinds.SPEC_VALIDATE,
        kinds.TEST_RUN,
        kinds.DOCS_UPDATE,
        kinds.CHECKPOINT,
        kinds.SESSION_START,
        kinds.SESSION_END,
        kinds.SKILL_INVOKE,
        kinds.AGENT_INVOKE,
        kinds.COMMAND_REFUSED,
        kinds.HOOK_EXECUTE,
        kinds.RESPONSE_RECOVERED,
    }
)
# What faber records under a key of its own for what arrives from GitHub: an event that claims the key first would make
# the answer a repetition.
_TAKEN_KEYS = re.compile(r"(comment|review|check|workflow|reaction|line|thread|pull|delivery)[a-z_]*-.*", re.DOTALL)
_REQUEST_ID = re.compile(r"fr-[0-9]{8}-[0-9a-f]{8}", re.ASCII)
_REQUEST_KEYS = frozenset(
    {"request_id", "type", "prompt", "options", "context", "notification_sent", "resume_point"}
)  # fmt: skip
_FRAME = ("type", "phase", "step", "status", "message", "metadata", "artifacts", "error")
# By these artifacts faber knows the pull request whose comments, reviews and checks count.
_OWN_ARTIFACTS = "pr_"


class ContextQuestion(NamedTuple):
    """What faber asks about a run's context: the beginning of the prompt, and the options."""

    prompt: str
    options: Sequence[str]


class Terms(NamedTuple):
    """What events are measured by: the time now, and faber's own questions about a context, by their codes."""

    now: datetime
    questions: Mapping[str, ContextQuestion]


def check_foreign(state: State, plan: Plan, events: Iterable[Event], terms: Terms) -> State:
    """The state after `events`, which follow `state`; raises `ForeignEvent` for the first that may not be added."""
    due: list[Draft] = []
    earliest = _time(state["updated_at"]) - CLOCKS
    names = frozenset(name for place in places(plan) for name in place)
    before, digest = _own_artifacts(state), plan_digest(plan)
    for number, event in enumerate(events, 1):
        if number > MOST_EVENTS:
            raise _refused(event, f"there are more than {MOST_EVENTS} new events")
        _check_frame(event, digest, earliest, terms.now + CLOCKS)
        if due and _is(event, due[0], names):
            due.pop(0)
        else:
            due = _voice(state, plan, event, names, terms)
        state = fold(state, [event])
        if _own_artifacts(state) != before:
            raise _refused(event, "it names a pull request, which only faber records after it opened one")
        due = due or consequences(state, plan)
    return state


def _own_artifacts(state: State) -> dict[str, Any]:
    return {name: value for name, value in state["artifacts"].items() if name.startswith(_OWN_ARTIFACTS)}


def _check_frame(event: Event, digest: str, earliest: datetime, latest: datetime) -> None:
    if event.get("actor", "agent") not in ACTORS:
        raise _refused(event, f"its actor is {str(event.get('actor'))[:40]!a}")
    if not earliest <= _time(event["timestamp"]) <= latest:
        raise _refused(event, "its time is before the run's last event, or in the future")
    if "origin_id" in event.get("metadata", {}):
        raise _refused(event, "it claims to repeat another event")
    if _TAKEN_KEYS.fullmatch(event.get("key", "")):
        raise _refused(event, "its key is one of faber's own")
    if "plan_digest" in event and (event["event_id"], event["plan_digest"]) != (1, digest):
        raise _refused(event, "it names another plan")


def _voice(state: State, plan: Plan, event: Event, names: frozenset[str], terms: Terms) -> list[Draft]:
    """Check an event that did not follow by itself; the events that must follow it, if there are any."""
    kind = event["type"]
    try:
        if kind in NOTES:
            _check_note(event)
            accept(state, plan, _core(event))
            return []
        if kind == kinds.FEEDBACK_REQUEST:
            _check_request(state, plan, event, names, terms)
            return []
        check = _WORK.get(kind)
        if check is None:
            raise _refused(event, "no agent records this type")
        decided = check(state, plan, event)
    except ForeignEvent:
        raise
    except (FaberError, LookupError, TypeError, ValueError, AttributeError) as error:
        said = error.message if isinstance(error, FaberError) else f"{type(error).__name__}: {error}"
        raise _refused(event, said.rstrip(".")) from None
    if isinstance(decided, Repeated) or not decided or decided[0]["type"] != kind:
        raise _refused(event, "nothing of the kind can be recorded at that point")
    return decided[1:]


def _check_note(event: Event) -> None:
    if event["type"] == kinds.DECISION_POINT and "question" in event.get("metadata", {}):
        raise _refused(event, "only a person settles a question of the context")


# --- work: each event is what its command would record in this state --------------------------------


def _starts(state: State, plan: Plan, event: Event) -> Decision:
    if state["status"] != "pending":
        return []
    return commands.resume_run(state, plan)


def _resumes(state: State, plan: Plan, event: Event) -> Decision:
    """Of a run in progress it changes nothing; to continue a failed one is a person's decision."""
    return commands.resume_run(state, plan) if state["status"] == "in_progress" else []


def _starts_phase(state: State, plan: Plan, event: Event) -> Decision:
    _check_failure(state, plan, event)
    return commands.start_phase(state, plan, event["phase"], event.get("message"))


def _starts_step(state: State, plan: Plan, event: Event) -> Decision:
    _check_failure(state, plan, event)
    return commands.start_step(state, plan, event["phase"], event["step"], event.get("message"))


def _check_failure(state: State, plan: Plan, event: Event) -> None:
    if next_action(state, plan)["action"] == "failed":
        raise _refused(event, "the run has failed, and a person decides whether it continues")


def _completes(state: State, plan: Plan, event: Event) -> Decision:
    phase, step = event["phase"], event["step"]
    planned = cast("dict[str, Any]", step_plan(plan, phase, step))
    found = event.get("metadata", {}).get("evidence", [])
    if planned.get("pull_request"):
        raise _refused(event, "faber itself completes the step that opens the pull request")
    if any(each["kind"] == "waived" for each in found):
        if not step_state(state, phase, step)["waived_by"]:
            raise _refused(event, "nobody waived its evidence")
    else:
        for piece in planned.get("evidence", []):
            if not any(each["kind"] == piece["kind"] and each["met"] is True for each in found):
                raise _refused(event, f"it has no evidence of the kind {piece['kind']}")
    check_artifacts(state, event.get("artifacts", []))
    return commands.complete_step(state, plan, phase, step, event.get("message"), event.get("artifacts", []))


def _blocks(state: State, plan: Plan, event: Event) -> Decision:
    missing = event["metadata"]["missing"]
    return commands.block_step(state, plan, event["phase"], event["step"], missing, "")


_WORK: dict[str, Callable[[State, Plan, Event], Decision]] = {
    kinds.WORKFLOW_START: _starts,
    kinds.WORKFLOW_RESUMED: _resumes,
    kinds.WORKFLOW_COMPLETE: lambda state, plan, event: commands.complete_run(state, plan),
    kinds.WORKFLOW_ERROR: lambda state, plan, event: commands.fail_run(state, plan, event["error"]["message"]),
    kinds.PHASE_START: _starts_phase,
    kinds.PHASE_COMPLETE: lambda state, plan, event: commands.complete_phase(state, plan, event["phase"]),
    kinds.PHASE_ERROR: lambda state, plan, event: commands.fail_phase(
        state, plan, event["phase"], event["error"]["message"]
    ),
    kinds.STEP_START: _starts_step,
    kinds.STEP_RETRY: _starts_step,
    kinds.STEP_COMPLETE: _completes,
    kinds.STEP_ERROR: lambda state, plan, event: commands.fail_step(
        state, plan, event["phase"], event["step"], event["error"]["message"]
    ),
    kinds.STEP_BLOCKED: _blocks,
}
ALLOWED = NOTES | {kinds.FEEDBACK_REQUEST} | _WORK.keys()


# --- requests --------------------------------------------------------------------------------------


def _check_request(state: State, plan: Plan, event: Event, names: frozenset[str], terms: Terms) -> None:
    """A request is the one that faber would open: its place, gate, prompt and options belong together."""
    given = event["metadata"]
    context = given.get("context", {})
    known = {state["gates"][gate]["request_id"] for gate in state["gates"]}
    known |= {answer["request_id"] for answer in state["answers"]}
    if not _REQUEST_ID.fullmatch(given["request_id"]) or given["request_id"] in known:
        raise _refused(event, "its request_id is not a new one")
    if set(given) - _REQUEST_KEYS or set(context) - {"artifacts", "gate", "question"}:
        raise _refused(event, "its metadata has more than a request has")
    question = context.get("question")
    if question is not None:
        known_question = terms.questions.get(question["code"]) if set(question) == {"code", "subject"} else None
        about = f" ({shorten(question['subject'], 300)})" if question["subject"] else ""
        if known_question is None or (given["prompt"], given["type"], given["options"]) != (
            known_question.prompt + about,
            "error_resolution",
            list(known_question.options),
        ):
            raise _refused(event, "its question is not one that faber asks")
    place = (event["phase"], event["step"]) if "phase" in event and "step" in event else None
    asked = NewRequest(
        given["request_id"],
        given["type"],
        given["prompt"],
        given.get("options", []),
        place,
        context.get("gate"),
        context.get("artifacts", []),
        {"question": question} if question is not None else None,
    )
    opened = open_request(state, plan, asked)
    if isinstance(opened, Repeated) or not _is(event, opened[0], names):
        raise _refused(event, "faber would ask it in other words")


# --- comparing -------------------------------------------------------------------------------------


def _core(event: Event) -> Draft:
    found: Any = {name: value for name, value in event.items() if name in _FRAME}
    return cast("Draft", found)


def _is(event: Event, draft: Draft, names: frozenset[str]) -> bool:
    """True if `event` is `draft` as it is written, whatever the id of its request."""
    wanted: dict[str, Any] = redact_json(dict(draft), names)
    given: dict[str, Any] = dict(_core(event))
    for each in (wanted, given):
        if "metadata" in each:
            each["metadata"] = {**each["metadata"], "request_id": None}
    return wanted == given


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return datetime(1970, 1, 1, tzinfo=UTC)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _refused(event: Event, why: str) -> ForeignEvent:
    number, kind, why = event.get("event_id"), shown(str(event.get("type"))), shown(why)
    return ForeignEvent(f"Event {number} ({kind}) cannot be imported: {why}.", event_id=number, type=kind, reason=why)
