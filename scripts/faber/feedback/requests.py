"""Opening a question to a person and answering it: what each may append to a run."""

from typing import Any

from faber.errors import InvalidInput
from faber.events import feedback_events
from faber.feedback.answer_matching import MAX_ANSWER, Responder, read_answer, same_answer
from faber.model.acceptance import MAX_MESSAGE, Decision, Repeated, accept, bounded, check_open
from faber.model.answers import DEFAULT_OPTIONS, FREE_TEXT, OWN_LIST, check_options
from faber.model.documents import Plan, State
from faber.model.gates import gate_by_id
from faber.model.ids import check_relative
from faber.model.model_errors import AlreadyAnswered, IllegalTransition
from faber.model.progress import next_place, places, step_state
from faber.model.state_parts import FeedbackRequest, Heard
from faber.model.text import inert, redact

MAX_ARTIFACTS = 20
MAX_PATH = 300


def request(
    state: State,
    plan: Plan,
    *,
    request_id: str,
    kind: str,
    prompt: str | None,
    options: list[str],
    place: tuple[str, str] | None,
    gate_id: str | None = None,
    artifacts: list[str] | None = None,
    context: dict[str, Any] | None = None,
) -> Decision:
    """`feedback request`: a new open request, of one of the types of `DEFAULT_OPTIONS`.

    `place` is the step that asks; without it the one in progress, else the next, else the last.
    `artifacts` are paths inside the repository that a person should look at first. A gate's request is
    opened once: again while it is open answers the one that is, and its words and options are the gate's own.
    """
    check_open(state)
    if place is not None:
        step_state(state, *place)
    given = dict(context or {})
    if artifacts:
        given["artifacts"] = _paths(artifacts)
    if gate_id is not None:
        gate = gate_by_id(state, plan, gate_id)
        if gate is None:
            raise InvalidInput(f"The plan has no gate {gate_id[:80]!a}.", recovery="`faber next RUN` names the gate.")
        known = state["gates"].get(gate_id)
        if known and known["answer"] == "approve":
            raise IllegalTransition(
                "This gate is open already.", gate=gate_id, recovery=f"Run `faber next {state['run_id']}`."
            )
        if known and known["answer"] is None:
            return Repeated(known["event_id"])
        kind, prompt, place, options = "approval", gate.prompt, (gate.phase, gate.step), []
        given["gate"] = gate_id
    if not prompt:
        raise InvalidInput("A request needs a prompt.")
    if place is None:
        place = _asking(state, plan)
    draft = feedback_events.feedback_request(
        request_id, kind, prompt, options=_options(kind, options), context=given, place=place
    )
    return accept(state, plan, draft)


def _asking(state: State, plan: Plan) -> tuple[str, str] | None:
    phase, step = state["current_phase"], state["current_step"]
    if phase is not None and step is not None:
        return phase, step
    return next_place(state, plan) or next(reversed(list(places(plan))), None)


def _options(kind: str, options: list[str]) -> list[str]:
    if kind not in DEFAULT_OPTIONS:
        raise InvalidInput(f"There is no request of type {kind[:40]!a}.", known=list(DEFAULT_OPTIONS))
    if kind == FREE_TEXT and options:
        raise InvalidInput(
            "A clarification is answered in the person's own words and has no options.",
            recovery=f"Use --type {OWN_LIST} for a list to choose from.",
        )
    if kind == OWN_LIST and not options:
        raise InvalidInput("A selection needs at least one --option.", recovery="Give each choice with --option.")
    return check_options(options or list(DEFAULT_OPTIONS[kind]))


def _paths(artifacts: list[str]) -> list[str]:
    if len(artifacts) > MAX_ARTIFACTS:
        raise InvalidInput(f"A request names at most {MAX_ARTIFACTS} artifacts.", limit=MAX_ARTIFACTS)
    for path in artifacts:
        bounded(path, "An artifact's path", MAX_PATH)
        if inert(check_relative(path)) != path:
            raise InvalidInput(f"{path[:80]!a} has characters that cannot be seen.")
    return artifacts


def respond(
    state: State,
    plan: Plan,
    *,
    request_id: str | None,
    response: str,
    comment: str | None,
    responder: Responder | None = None,
) -> Decision:
    """`feedback respond`: the answer to the oldest open request, or to the one named.

    `response` is read by `read_answer`. The same answer by the same person once more is a repetition. Raises
    `AlreadyAnswered` with who did, from where and when, and `IllegalTransition` where nothing is asked.
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
    """What follows a posted comment: the open request remembers where it was posted; the first posting counts."""
    asked = find_request(state, request_id)
    if asked["notification_sent"].get("issue_comment"):
        return Repeated(asked["event_id"])
    draft = feedback_events.feedback_notified(request_id, comment_id=comment_id, comment_url=comment_url)
    return accept(state, plan, draft)


def find_request(state: State, request_id: str | None) -> FeedbackRequest:
    """The open request of that id, or the oldest one; see `respond` for what is raised if there is none."""
    for asked in state["feedback_queue"]:
        if request_id in (None, asked["request_id"]):
            return asked
    open_ids = [asked["request_id"] for asked in state["feedback_queue"]]
    earlier = [heard for heard in state["answers"] if request_id in (None, heard["request_id"])]
    if earlier:
        raise _answered(earlier[-1], open_ids)
    check_open(state)
    raise IllegalTransition(
        "No request of this id is open." if request_id else "Nothing is being asked.",
        request_id=request_id,
        open_requests=open_ids,
        recovery=f"Open are: {', '.join(open_ids)}." if open_ids else "There is nothing to answer.",
    )


def _answered(heard: Heard, open_ids: list[str]) -> AlreadyAnswered:
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
