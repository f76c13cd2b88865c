"""A comment arrives: from a GitHub event file to an answer in the run's log, or a reason why not."""

import os
from typing import Any, NamedTuple

from faber.cli.app import Invocation
from faber.errors import InvalidInput, PersonRequired
from faber.events.event_types import FEEDBACK_SUPERSEDED
from faber.feedback.permission import permission_problem
from faber.feedback.requests import respond
from faber.github.actions_outputs import write_outputs
from faber.github.binding import Bound, Unbound, bind
from faber.github.comment_events import MARKER, MAX_PAYLOAD, NewComment, Other, author_problem, read_event
from faber.github.comment_parser import ANSWERING, Ambiguous, CommentCommand, Ignored, parse_comment
from faber.github.posting import hidden
from faber.model.credentials import secret_values
from faber.model.documents import CLOSED, Plan, State
from faber.model.model_errors import AlreadyAnswered, IllegalTransition, NotAnOption
from faber.sources.work_items import Commenting, WorkItemError
from faber.store import log
from faber.store.appending import Writer
from faber.store.commit import Committed, commit
from faber.store.config import Config, load_config
from faber.store.files import read_bytes
from faber.store.load import Run, load_for_work_item

REASONS = {
    "several_commands": "The comment holds more than one command, or something that could be another.",
    "several_runs": "Several runs of this issue are open: name the request.",
    "several_requests": "Several requests are open: name the one that is meant.",
    "nothing_asked": "Nothing is being asked.",
    "run_closed": "The run has ended.",
    "asked_later": "What is being asked now was asked after this comment was written: name the request.",
    "answered": "This request was answered before.",
    "not_open": "No open request of this issue has this id.",
    "not_an_option": "This is no answer to what is asked.",
    "awaiting_feedback": "The run waits for an answer.",
}


PERSON = Writer(actor="person")

_ELSEWHERE = "If the run is on another machine: push it there, run `faber sync pull --all` here, and repeat."


class _Refusal(Exception):
    """The comment is not taken: result, reason and what else is known."""

    def __init__(self, result: str, reason: str, **known: Any) -> None:
        super().__init__(reason)
        self.outcome = {"result": result, "reason": reason, **known}


class _Arrived(NamedTuple):
    comment: NewComment
    command: CommentCommand


def arrive(invocation: Invocation, event_path: str) -> dict[str, Any]:
    """What became of the comment in the event file, as `faber feedback from-event` prints it.

    Raises `PersonRequired` in an agent's session: whoever writes the file could have anybody answer.
    `InvalidInput` for what is no event file, and the store's own errors.
    """
    if invocation.is_agent:
        raise PersonRequired(
            "`faber feedback from-event` speaks for people and was called in an agent's session.",
            command="faber feedback from-event",
        )
    outcome = _whole(_outcome(invocation, event_path))
    write_outputs(outcome, os.environ.get("GITHUB_OUTPUT"))
    return outcome


def _outcome(invocation: Invocation, event_path: str) -> dict[str, Any]:
    comment = None
    try:
        comment = _comment(event_path)
        layout = invocation.layout
        config = load_config(layout)
        mode = config.at("feedback.from_comments")
        if mode == "never":
            raise _Refusal("ignored", "switched_off")
        command = _command(comment)
        problem = author_problem(comment)
        if problem:
            raise _Refusal("denied", problem)
        from faber.github.work_item_source import open_commenting

        source = open_commenting(config, layout, os.environ)
        _check_place(source, comment)
        runs = load_for_work_item(layout, str(comment.number))
        if not runs:
            raise _Refusal("ignored", "no_run", recovery=_ELSEWHERE)
        return _answered(_Arrived(comment, command), source, runs, mode, config)
    except _Refusal as refusal:
        return refusal.outcome | ({"comment_id": comment.comment_id} if comment else {})


def _comment(event_path: str) -> NewComment:
    try:
        data = read_bytes(event_path, MAX_PAYLOAD)
    except OSError as error:
        raise InvalidInput(f"The event file cannot be read: {error.strerror}.") from None
    comment = read_event(data, os.environ.get("GITHUB_EVENT_NAME") or None)
    if isinstance(comment, Other):
        raise _Refusal("ignored", comment.reason)
    return comment


def _command(comment: NewComment) -> CommentCommand:
    if MARKER in comment.body:
        raise _Refusal("ignored", "own_comment")
    found = parse_comment(comment.body)
    if isinstance(found, Ignored):
        raise _Refusal("ignored", found.reason)
    if comment.edited:
        raise _Refusal("ignored", "edited")
    if isinstance(found, Ambiguous):
        raise _Refusal("ambiguous", "several_commands", lines=found.lines)
    return found


def _check_place(source: Commenting, comment: NewComment) -> None:
    try:
        ours = source.web()
    except WorkItemError as error:
        raise _unknown(error) from None
    if f"https://{comment.host}/{comment.repository}".lower() != ours.lower():
        raise _Refusal("denied", "repository")


def _unknown(error: WorkItemError) -> _Refusal:
    """Nobody is allowed what could not be asked."""
    return _Refusal("denied", "permission_unknown", error=error.as_dict())


def _answered(arrived: _Arrived, source: Commenting, runs: list[Run], mode: str, config: Config) -> dict[str, Any]:
    comment, command = arrived
    key = f"comment-{comment.comment_id}"
    if earlier := _recorded(runs, key):
        return _recorded_before(earlier, mode, comment)
    _check_permission(source, comment)
    try:
        bound = bind(command, [run.state for run in runs], comment.comment_id, comment.created_at)
        if isinstance(bound, Unbound):
            raise _Refusal(bound.result, bound.reason, run_id=bound.run_id, open_requests=list(bound.open_requests))
        if command.verb not in ANSWERING:
            return _other_command(command.verb, _run_of(bound, runs), mode, config, comment)
        return _record(arrived, bound, _run_of(bound, runs), mode, config)
    except _Refusal as refusal:
        # Said only to people who may answer: nobody else can have faber write.
        if config.at("feedback.post_refusals") and refusal.outcome["reason"] in REASONS:
            refusal.outcome |= _reply(source, comment, REASONS[refusal.outcome["reason"]])
        raise


def _check_permission(source: Commenting, comment: NewComment) -> None:
    login = comment.sender[0]
    try:
        answer = source.permission(login)
    except WorkItemError as error:
        raise _unknown(error) from None
    if problem := permission_problem(answer, login):
        raise _Refusal("denied", problem)


def _recorded(runs: list[Run], key: str) -> tuple[Run, int] | None:
    for run in runs:
        recent = [entry["event_id"] for entry in run.state["recent_events"] if entry.get("key") == key]
        event_id = recent[0] if recent else log.find_key(run.directory, key)
        if event_id is not None:
            return run, event_id
    return None


def _recorded_before(earlier: tuple[Run, int], mode: str, comment: NewComment) -> dict[str, Any]:
    run, event_id = earlier
    # A repetition finishes what a killed first attempt left undone, and changes nothing else.
    committed = commit(run.layout, run.run_id, _nothing, PERSON, key=f"comment-{comment.comment_id}", known=run)
    return _said(committed, mode, comment) | {"reason": "recorded_before", "event_id": event_id, "repeated": True}


def _nothing(state: State, plan: Plan) -> Any:
    raise IllegalTransition("This comment was taken before.")


def _run_of(bound: Bound, runs: list[Run]) -> Run:
    return next(run for run in runs if run.run_id == bound.state["run_id"])


def _record(arrived: _Arrived, bound: Bound, run: Run, mode: str, config: Config) -> dict[str, Any]:
    comment, command = arrived
    assert bound.request is not None
    request_id = bound.request["request_id"]
    text = hidden(command.text or "", secret_values(os.environ)).strip()
    response, said = answer_words(command.verb, text, bound.request["type"])
    responder: Any = {
        "name": comment.sender[0],
        "source": "issue_comment",
        "url": comment.url,
        "comment_id": comment.comment_id,
    }
    try:
        committed = commit(
            run.layout,
            run.run_id,
            lambda state, plan: respond(
                state, plan, request_id=request_id, response=response, comment=said, responder=responder
            ),
            PERSON,
            key=f"comment-{comment.comment_id}",
            known=run,
        )
    except NotAnOption as error:
        raise _Refusal(
            "denied",
            "not_an_option",
            run_id=bound.state["run_id"],
            request_id=request_id,
            options=error.fields.get("options"),
        ) from None
    except (AlreadyAnswered, IllegalTransition):
        raise _Refusal("stale", "answered", run_id=bound.state["run_id"], request_id=request_id) from None
    from faber.github.notifications import tell

    return _said(committed, mode, comment) | tell(run.layout, committed, config=config)


def answer_words(verb: str, text: str, kind: str) -> tuple[str, str | None]:
    """The response and the comment: a verb is its own response, `answer` is followed by it in the first line.

    To a request of the type `kind`; raises where it can be none.
    """
    from faber.model.answers import FREE_TEXT

    if verb != "answer":
        if kind == FREE_TEXT:
            raise _Refusal("denied", "not_an_option", options=[])
        return verb, text or None
    if not text:
        raise _Refusal("denied", "not_an_option")
    if kind == FREE_TEXT:
        return text, None
    first, _, rest = text.partition("\n")
    return first.strip(), rest.strip() or None


def _said(committed: Committed, mode: str, comment: NewComment) -> dict[str, Any]:
    from faber.cli.arguments import standing

    event = committed.events[0] if committed.events else None
    given = event.get("metadata", {}) if event else {}
    # A merge of two copies of the run parks an answer where another one came first.
    counted = event is None or event["type"] != FEEDBACK_SUPERSEDED
    now = standing(committed.state, committed.plan)
    return {
        "result": "recorded",
        "reason": "answered",
        "run_id": now["run_id"],
        "request_id": given.get("request_id"),
        "response": given.get("response"),
        "action": given.get("action"),
        "event_id": event["event_id"] if event else None,
        "repeated": committed.repeated,
        "counted": counted,
        "resume": counted and mode == "resume" and now["status"] == "in_progress",
        "status": now["status"],
        "next": now["next_command"],
        "comment_id": comment.comment_id,
    }


def _other_command(verb: str, made: Run, mode: str, config: Config, comment: NewComment) -> dict[str, Any]:
    """`status` and `resume`: nothing is recorded."""
    from faber.cli.arguments import standing

    now = standing(made.state, made.plan)
    outcome = {
        "result": "ignored",
        "reason": verb,
        "run_id": made.run_id,
        "resume": False,
        "status": now["status"],
        "standing": now,
        "next": now["next_command"],
        "comment_id": comment.comment_id,
    }
    if verb == "status":
        from faber.github.notifications import tell_progress

        return outcome | (tell_progress(made, config) if config.at("feedback.post") == "all" else {})
    if now["status"] in CLOSED:
        raise _Refusal("stale", "run_closed", run_id=made.run_id)
    if made.state["feedback_queue"]:
        raise _Refusal("stale", "awaiting_feedback", run_id=made.run_id)
    return outcome | {"resume": mode == "resume"}


def _reply(source: Commenting, comment: NewComment, words: str) -> dict[str, Any]:
    from faber.github.posting import Board, notification, reply_comment

    board = Board(source, str(comment.number), secret_values(os.environ))
    try:
        posted = board.post(reply_comment(words, comment.comment_id), perhaps_posted=True)
    except WorkItemError as error:
        return {"warnings": [{"code": "comment_not_posted", "message": error.message}]}
    return {"posted": [{"reply": True, **notification(posted)}]}


_FIXED: dict[str, Any] = {"run_id": None, "request_id": None, "action": None, "resume": False, "next": None}


def _whole(outcome: dict[str, Any]) -> dict[str, Any]:
    return {"result": outcome["result"], "reason": outcome["reason"], **_FIXED, "comment_id": None} | outcome
