"""Asking a person and taking the answer: what each appends to a run. Pure, but for the random request id."""

import os
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from faber.errors import InvalidInput
from faber.events import feedback_events
from faber.feedback.answer_matching import MAX_ANSWER, Responder, read_answer, same_answer
from faber.model.acceptance import MAX_MESSAGE, MAX_PROMPT, Decision, Repeated, accept, bounded, check_open
from faber.model.answers import DEFAULT_OPTIONS, FREE_TEXT, OWN_LIST, check_options
from faber.model.documents import Plan, State
from faber.model.gates import Gate, gate_by_id
from faber.model.ids import check_relative
from faber.model.model_errors import AlreadyAnswered, IllegalTransition
from faber.model.next import next_action, warned_before
from faber.model.progress import next_place, places, step_state
from faber.model.state_parts import FeedbackRequest, StepAnswer
from faber.text.safe_text import inert, redact, shorten

MAX_ARTIFACTS = 20
MAX_PATH = 300


class NewRequest(NamedTuple):
    """A question to be put to a person, of one of the types of `DEFAULT_OPTIONS`.

    No `options` means the type's own. `place` is the step that asks; by default the step in progress, else the next
    one, else the last. `artifacts` are paths inside the repository that a person should look at first. With
    `gate_id`, type, prompt, options and place are the gate's.
    """

    request_id: str
    kind: str
    prompt: str | None = None
    options: Sequence[str] = ()
    place: tuple[str, str] | None = None
    gate_id: str | None = None
    artifacts: Sequence[str] = ()
    context: Mapping[str, object] | None = None


def new_request_id() -> str:
    """`fr-<date>-<random>`; the date is UTC."""
    return f"fr-{time.strftime('%Y%m%d', time.gmtime())}-{os.urandom(4).hex()}"


def open_request(state: State, plan: Plan, asked: NewRequest) -> Decision:
    """`feedback request`: put a question to a person; the run waits until it is answered.

    A gate has at most one open request: asking again returns the one that is open. Raises `InvalidInput`, and
    `IllegalTransition` where the gate is open or the run has ended.
    """
    request_id, kind, prompt, options, place, gate_id = asked[:6]
    check_open(state)
    if place is not None:
        step_state(state, *place)
    given = dict(asked.context or {})
    if asked.artifacts:
        given["artifacts"] = _paths(asked.artifacts)
    if gate_id is not None:
        gate = gate_by_id(state, plan, gate_id)
        if gate is None:
            raise InvalidInput(f"The plan has no gate {gate_id[:80]!a}.", recovery="`faber next RUN` names the gate.")
        known = state["gates"].get(gate_id)
        if known and known["answer"] == "approve":
            raise IllegalTransition(
                "A person has already approved this gate.",
                gate=gate_id,
                recovery=f"Run `faber next {state['run_id']}`.",
            )
        if known and known["answer"] is None:
            return Repeated(known["event_id"])
        kind, prompt, place, options = "approval", _told(state, plan, gate), (gate.phase, gate.step), ()
        given["gate"] = gate_id
    if not prompt and kind == "error_resolution" and state["status"] == "failed":
        prompt = f"{next_action(state, plan)['why'][: MAX_PROMPT - 20]} How to continue?"
    if not prompt:
        raise InvalidInput("A request needs a prompt.")
    if place is None:
        place = _asking_step(state, plan)
    draft = feedback_events.feedback_request(
        request_id, kind, prompt, options=_options(kind, options), context=given, place=place
    )
    return accept(state, plan, draft)


def _told(state: State, plan: Plan, gate: Gate) -> str:
    """The gate's question, after what completed steps warned of."""
    own = f"{gate.phase}:{gate.step}" if gate.id.startswith("result:") else None  # its question says it already
    warned = [f"{each['step']}: {each['message']}" for each in warned_before(state, plan, None) if each["step"] != own]
    told = f" (Completed with a warning: {'; '.join(warned)})" if warned else ""
    return shorten(gate.prompt + told, MAX_PROMPT)


def _asking_step(state: State, plan: Plan) -> tuple[str, str] | None:
    phase, step = state["current_phase"], state["current_step"]
    if phase is not None and step is not None:
        return phase, step
    return next_place(state, plan) or next(reversed(list(places(plan))), None)


def _options(kind: str, options: Sequence[str]) -> list[str]:
    if kind not in DEFAULT_OPTIONS:
        raise InvalidInput(f"{kind[:40]!a} is not a type of request.", known=list(DEFAULT_OPTIONS))
    if kind == FREE_TEXT and options:
        raise InvalidInput(
            "A clarification takes no options: the person answers in their own words.",
            recovery=f"Use --type {OWN_LIST} to offer a list of options.",
        )
    if kind == OWN_LIST and not options:
        raise InvalidInput("A selection needs at least one --option.", recovery="Pass each choice as --option.")
    return check_options(list(options) or list(DEFAULT_OPTIONS[kind]))


def _paths(artifacts: Sequence[str]) -> list[str]:
    if len(artifacts) > MAX_ARTIFACTS:
        raise InvalidInput(f"A request names at most {MAX_ARTIFACTS} artifacts.", limit=MAX_ARTIFACTS)
    for path in artifacts:
        bounded(path, "An artifact's path", MAX_PATH)
        if inert(check_relative(path)) != path:
            raise InvalidInput(f"{path[:80]!a} contains invisible characters.")
    return list(artifacts)


def respond(
    state: State,
    plan: Plan,
    *,
    request_id: str | None,
    response: str,
    comment: str | None,
    responder: Responder | None = None,
) -> Decision:
    """`feedback respond`: answer the request `request_id`, or the oldest open one.

    `response` is read by `read_answer`. The same answer from the same person again records nothing new. Raises
    `AlreadyAnswered` with who answered, where and when, and `IllegalTransition` if no such request is open.
    """
    said = inert(comment).strip() if comment is not None else ""
    try:
        asked = find_request(state, request_id)
    except AlreadyAnswered as error:
        heard = next(heard for heard in reversed(state["answers"]) if heard["event_id"] == error.fields["event_id"])
        same_person = responder == heard["responder"] and (redact(said) or None) == heard["comment"]
        if same_person and same_answer(heard, response):
            return Repeated(heard["event_id"])
        raise
    answer = read_answer(asked, response)
    draft = feedback_events.feedback_received(
        asked["request_id"],
        answer.option,
        action=answer.action,
        comment=bounded(said, "A comment", MAX_ANSWER) if said else None,
        responder=responder,
        message=f"{answer.option}: {asked['prompt']}"[:MAX_MESSAGE],
    )
    return accept(state, plan, draft)


def notified(state: State, plan: Plan, *, request_id: str, comment_id: int, comment_url: str | None) -> Decision:
    """Record where an open request was posted. Only the first posting counts."""
    asked = find_request(state, request_id)
    if asked["notification_sent"].get("issue_comment"):
        return Repeated(asked["event_id"])
    draft = feedback_events.feedback_notified(request_id, comment_id=comment_id, comment_url=comment_url)
    return accept(state, plan, draft)


def find_request(state: State, request_id: str | None) -> FeedbackRequest:
    """The open request with that id, or the oldest one; raises as `respond` does."""
    for asked in state["feedback_queue"]:
        if request_id in (None, asked["request_id"]):
            return asked
    open_ids = [asked["request_id"] for asked in state["feedback_queue"]]
    earlier = [heard for heard in state["answers"] if request_id in (None, heard["request_id"])]
    if earlier:
        raise _answered(earlier[-1], open_ids)
    check_open(state)
    raise IllegalTransition(
        "No request with this id is open." if request_id else "No request is open.",
        request_id=request_id,
        open_requests=open_ids,
        recovery=f"Open requests: {', '.join(open_ids)}." if open_ids else "There is nothing to answer.",
    )


def _answered(heard: StepAnswer, open_ids: list[str]) -> AlreadyAnswered:
    who = heard["responder"]
    name = (who and who["name"]) or "somebody"
    where = f" ({who['source'].replace('_', ' ')})" if who else ""
    return AlreadyAnswered(
        f"{heard['request_id']} was answered {heard['response'][:60]!a} by {name}{where} at {heard['at']}.",
        request_id=heard["request_id"],
        response=heard["response"],
        action=heard["action"],
        responder=who,
        at=heard["at"],
        event_id=heard["event_id"],
        open_requests=open_ids,
    )
