"""Which events a run accepts: complete, about places of its plan, and within the limits of its log."""

import json
import re
from typing import Any, NamedTuple

from faber.errors import InvalidInput
from faber.events.drafts import Artifact, Draft
from faber.events.event_types import (
    BRANCH_CREATE,
    COMMIT_CREATE,
    DECISION_POINT,
    FEEDBACK_NOTIFIED,
    FEEDBACK_RECEIVED,
    FEEDBACK_REQUEST,
    FEEDBACK_SUPERSEDED,
    PR_CREATE,
    PROGRESS_NOTIFIED,
    RETRY_LOOP_ENTER,
    SESSION_END,
    SPEC_GENERATE,
    check_required,
    event_type,
)
from faber.model.answers import ACTIONS, check_options, check_responder
from faber.model.documents import CLOSED, Plan, State, nebula_phases
from faber.model.model_errors import HasOwnCommand, IllegalTransition, UnknownPlace
from faber.model.progress import phase_ids, phase_state, step_state

MAX_MESSAGE = 2_000
MAX_PROMPT = 2_000
MAX_DECISION = 500
MAX_ARTIFACTS = 200
MAX_ARTIFACT = 2_000  # characters of its JSON
SUMMARY_FILE = re.compile(r"session-[0-9A-Z]+-[0-9]{4,}\.json", re.ASCII)


class Repeated(NamedTuple):
    """The fact is already in the log, as this event."""

    event_id: int


Decision = list[Draft] | Repeated


def check_open(state: State) -> None:
    """Raise `IllegalTransition` if the run is completed or cancelled: it can only be read."""
    if state["status"] in CLOSED:
        raise IllegalTransition(
            f"The run is {state['status']}; it can only be read.",
            status=state["status"],
            recovery=f"Run `faber run rerun {state['run_id']}` for a new run linked to it.",
        )


def emit(state: State, plan: Plan, draft: Draft) -> Decision:
    """`event emit`: accept any registered type that has no command of its own."""
    kind = event_type(draft["type"])
    if kind.command:
        raise HasOwnCommand(
            f"Events of type {kind.name} are recorded only by `{kind.command}`.",
            type=kind.name,
            recovery=f"Run `{kind.command}`.",
        )
    return accept(state, plan, draft)


def accept(state: State, plan: Plan, draft: Draft) -> Decision:
    """Accept a draft that is complete, about places of the plan, and within the log's limits: `emit` without the
    check whether the type has its own command."""
    kind = event_type(draft["type"])
    check_required(kind.name, dict(draft))
    check_open(state)
    if "phase" in draft:
        _known_phase(state, draft["phase"])
        if "step" in draft:
            step_state(state, draft["phase"], draft["step"])
    if "message" in draft:
        bounded(draft["message"], "message", MAX_DECISION if kind.name == DECISION_POINT else MAX_MESSAGE)
    check_artifacts(state, draft.get("artifacts", []))
    _CHECKS.get(kind.name, _no_check)(state, plan, draft)
    return [draft]


def _no_check(state: State, plan: Plan, draft: Draft) -> None:
    return None


def _check_request(state: State, plan: Plan, draft: Draft) -> None:
    given = draft["metadata"]
    bounded(given["prompt"], "metadata.prompt", MAX_PROMPT)
    bounded(given["request_id"], "metadata.request_id", 100)
    bounded(given.get("type", "approval"), "metadata.type", 100)
    check_options(given.get("options", []))
    for name in ("context", "notification_sent", "resume_point"):
        if not isinstance(given.get(name, {}), dict) or len(str(given.get(name))) > MAX_PROMPT:
            raise InvalidInput(f"metadata.{name} must be an object of at most {MAX_PROMPT} characters.")
    _check_place(state, given.get("resume_point", {}))
    if any(request["request_id"] == given["request_id"] for request in state["feedback_queue"]):
        raise IllegalTransition(
            "A request of this id is already open.", request_id=given["request_id"], recovery="Use a new request_id."
        )


def _check_place(state: State, place: dict[str, Any]) -> None:
    phase, step = place.get("phase"), place.get("step")
    if not all(name is None or isinstance(name, str) for name in (phase, step)):
        raise InvalidInput("metadata.resume_point must name a phase and a step, each a string or null.")
    if phase is not None:
        _known_phase(state, phase)
        if step is not None:
            step_state(state, phase, step)


def _known_phase(state: State, phase: str) -> None:
    if phase not in nebula_phases(state):
        phase_state(state, phase)


def _check_decision(state: State, plan: Plan, draft: Draft) -> None:
    given = draft.get("metadata", {})
    if "question" in given:
        for name in ("question", "option"):
            bounded(given.get(name), f"metadata.{name}", 100)


def _check_session(state: State, plan: Plan, draft: Draft) -> None:
    given = draft.get("metadata", {})
    if "summary_file" in given and not (
        isinstance(given["summary_file"], str)
        and SUMMARY_FILE.fullmatch(given["summary_file"])
        and isinstance(given.get("summary"), dict)
    ):
        raise InvalidInput(
            "A session's summary is saved by `faber session save`.", recovery="Run `faber session save`."
        )


def _check_artifact_event(state: State, plan: Plan, draft: Draft) -> None:
    for path in event_type(draft["type"]).required:
        name = path.removeprefix("metadata.")
        bounded(draft["metadata"][name], path, MAX_ARTIFACT)


def _check_answer(state: State, plan: Plan, draft: Draft) -> None:
    given = draft["metadata"]
    open_ids = [request["request_id"] for request in state["feedback_queue"]]
    if given["request_id"] not in open_ids:
        raise IllegalTransition(
            "No request of this id is open.",
            request_id=given["request_id"],
            open_requests=open_ids,
            recovery="Answer one of the open requests." if open_ids else "No request is open; nothing needs an answer.",
        )
    if given.get("action", "continue") not in ACTIONS:
        raise InvalidInput(f"metadata.action must be one of {', '.join(ACTIONS)}.", known=list(ACTIONS))
    _check_response(given)


def _check_superseded(state: State, plan: Plan, draft: Draft) -> None:
    given = draft["metadata"]
    bounded(given["request_id"], "metadata.request_id", 100)
    _check_response(given)


def _check_comment(state: State, plan: Plan, draft: Draft) -> None:
    given = draft["metadata"]
    number, url = given["comment_id"], given.get("comment_url")
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InvalidInput("metadata.comment_id must be the number of a comment.")
    if url is not None and (not isinstance(url, str) or len(url) > 500):
        raise InvalidInput("metadata.comment_url must be a string of at most 500 characters.")


def _check_response(given: dict[str, Any]) -> None:
    bounded(given["response"], "metadata.response", MAX_MESSAGE)
    if given.get("comment") is not None:
        bounded(given["comment"], "metadata.comment", MAX_MESSAGE)
    if given.get("responder") is not None:
        check_responder(given["responder"])


def _check_loop(state: State, plan: Plan, draft: Draft) -> None:
    phases = phase_ids(plan)
    target, failing = draft["metadata"]["return_to"], draft["phase"]
    bounded(target, "metadata.return_to", MAX_MESSAGE)
    for name in (target, failing):
        if name not in phases:
            raise UnknownPlace(f"The plan has no phase {name[:60]!a}.", phase=ascii(name), known=phases)
    if phases.index(target) > phases.index(failing):
        raise InvalidInput(f"A retry loop goes back: {target} comes after {failing}.", return_to=target, phase=failing)


_CHECKS = {
    FEEDBACK_REQUEST: _check_request,
    FEEDBACK_RECEIVED: _check_answer,
    FEEDBACK_SUPERSEDED: _check_superseded,
    FEEDBACK_NOTIFIED: _check_comment,
    PROGRESS_NOTIFIED: _check_comment,
    RETRY_LOOP_ENTER: _check_loop,
    DECISION_POINT: _check_decision,
    SESSION_END: _check_session,
    **dict.fromkeys((BRANCH_CREATE, SPEC_GENERATE, COMMIT_CREATE, PR_CREATE), _check_artifact_event),
}


def check_artifacts(state: State, artifacts: list[Artifact]) -> None:
    """Raise `InvalidInput` for a malformed or too large artifact, or if the run would have too many."""
    for artifact in artifacts:
        if not isinstance(artifact, dict) or not isinstance(artifact.get("name"), str) or len(artifact) < 2:
            raise InvalidInput('An artifact must be an object with "name" and "value" (or other fields).')
        if len(json.dumps(artifact, ensure_ascii=False)) > MAX_ARTIFACT + len(artifact["name"]) + 30:
            raise InvalidInput(
                f"The artifact {artifact['name'][:60]!a} has more than {MAX_ARTIFACT} characters.",
                limit=MAX_ARTIFACT,
                recovery="Put it into a file and record the file's path.",
            )
    names = {artifact["name"] for artifact in artifacts} | set(state["artifacts"])
    if len(names) > MAX_ARTIFACTS:
        raise InvalidInput(f"A run keeps at most {MAX_ARTIFACTS} artifacts by name.", limit=MAX_ARTIFACTS)


def bounded(text: Any, what: str, limit: int) -> str:
    """Return `text` if it is a non-empty string of at most `limit` characters, else raise `InvalidInput`."""
    if not isinstance(text, str):
        raise InvalidInput(f"{what} is not a string.")
    if len(text) > limit:
        raise InvalidInput(
            f"{what} has {len(text)} characters; at most {limit} are kept in the log.",
            limit=limit,
            length=len(text),
            recovery="Shorten it, or put the long text into a file and name the file.",
        )
    if not text.strip():
        raise InvalidInput(f"{what} is empty.")
    return text
