"""Opening a question to a person and answering it: what each may append to a run."""

from typing import Any

from faber.errors import IllegalTransition, InvalidInput
from faber.model.acceptance import Decision, Repeated, accept, check_open
from faber.model.answers import DEFAULT_OPTIONS
from faber.model.documents import Draft, FeedbackRequest, Plan, State
from faber.model.gates import gate_by_id
from faber.model.progress import step_state


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
    context: dict[str, Any] | None = None,
) -> Decision:
    """`feedback request`: a new open request. A gate's is opened once: again while it is open answers
    the one that is, and the gate's own words are its prompt."""
    check_open(state)
    if place is not None:
        step_state(state, *place)
    given = dict(context or {})
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
        kind, prompt, place = "approval", gate.prompt, (gate.phase, gate.step)
        given["gate"] = gate_id
    if not prompt:
        raise InvalidInput("A request needs a prompt.")
    if kind not in DEFAULT_OPTIONS:
        raise InvalidInput(f"There is no request of type {kind[:40]!a}.", known=sorted(DEFAULT_OPTIONS))
    draft: Draft = {
        "type": "feedback_request",
        "message": prompt,
        "metadata": {
            "request_id": request_id,
            "type": kind,
            "prompt": prompt,
            "options": options or list(DEFAULT_OPTIONS[kind]),
            "context": given,
            "notification_sent": {"cli": True, "issue_comment": False, "comment_url": None},
        },
    }
    if place is not None:
        draft["phase"], draft["step"] = place
        draft["metadata"]["resume_point"] = {"phase": place[0], "step": place[1]}
    return accept(state, plan, draft)


def respond(state: State, plan: Plan, *, request_id: str | None, response: str, comment: str | None) -> Decision:
    """`feedback respond`: the answer to the oldest open request, or to the one named.

    Only the request's own options are taken. Answering what is closed is refused, saying so.
    """
    check_open(state)
    asked = find_request(state, request_id)
    if response not in asked["options"]:
        raise InvalidInput(
            f"{asked['request_id']} is not answered by {response[:60]!a}.",
            options=asked["options"],
            request_id=asked["request_id"],
        )
    metadata: dict[str, Any] = {"request_id": asked["request_id"], "response": response}
    if comment is not None:
        if len(comment) > 2_000:
            raise InvalidInput("A comment has at most 2000 characters.", limit=2_000)
        metadata["comment"] = comment
    message = f"{response}: {asked['prompt']}"[:2_000]
    return accept(state, plan, {"type": "feedback_received", "message": message, "metadata": metadata})


def find_request(state: State, request_id: str | None) -> FeedbackRequest:
    """The open request of that id, or the oldest one; `IllegalTransition` if there is none."""
    for asked in state["feedback_queue"]:
        if request_id in (None, asked["request_id"]):
            return asked
    open_ids = [asked["request_id"] for asked in state["feedback_queue"]]
    raise IllegalTransition(
        "No request of this id is open." if request_id else "Nothing is being asked.",
        request_id=request_id,
        open_requests=open_ids,
        recovery=f"Open are: {', '.join(open_ids)}." if open_ids else "There is nothing to answer.",
    )
