"""Handling a new comment: from a GitHub event file to an answer in the run's log, or the reason why not."""

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

from faber.context.resume import run_position
from faber.events.event_types import FEEDBACK_SUPERSEDED
from faber.feedback.permission import permission_problem
from faber.feedback.reopening import ChangesRequested, reopen_for_review
from faber.feedback.requests import respond
from faber.foreign.run_rows import own_runs_for, own_runs_of_pull_request
from faber.github.binding import BoundCommand, Unbound, bind
from faber.github.comment_events import COMMENT, MARKER, REVIEW, NewComment, Other, author_problem, read_event
from faber.github.comment_parser import ASKING, Ambiguous, CommentCommand, Ignored, answer_words
from faber.github.event_fields import Fields
from faber.github.notifications import tell, tell_progress, with_report
from faber.github.posting import hidden
from faber.github.pull_request_reviews import ANSWERED, VERBS_OF_STATES, said_in, with_lines
from faber.github.refusal_replies import REASONS, post_reply
from faber.github.work_item_source import open_commenting
from faber.github_events.check_failures import RepositoryApi, review_evidence, review_state
from faber.github_events.continuing import completed, continued
from faber.github_events.event_refusals import ELSEWHERE, Refusal, check_repository, not_certain
from faber.github_events.own_pulls import find_own
from faber.model.acceptance import Decision
from faber.model.answers import Responder
from faber.model.commands import resume_run
from faber.model.documents import CLOSED, Plan, State
from faber.model.model_errors import AlreadyAnswered, IllegalTransition, NotAnOption
from faber.model.state_parts import FeedbackRequest
from faber.notify.news import announce
from faber.sources.work_items import Commenting, WorkItemError
from faber.store import log
from faber.store.appending import Writer
from faber.store.commit import Committed, commit
from faber.store.config import Config, load_config
from faber.store.layout import Layout
from faber.store.load import Run
from faber.text.credentials import secret_values

PERSON = Writer(actor="person", tell=announce)


class Arrival(NamedTuple):
    """A comment that speaks to faber, and the project's configuration and issues."""

    layout: Layout
    config: Config
    source: Commenting
    comment: NewComment

    @property
    def mention(self) -> str:
        """What a comment to faber begins with."""
        return str(self.config.at("feedback.mention"))

    @property
    def may_resume(self) -> bool:
        """True if an answer from a comment lets the run resume at once."""
        return bool(self.config.at("feedback.from_comments") == "resume")


def handle_comment(event: Fields, name: str | None, find_layout: Callable[[], Layout]) -> Mapping[str, object]:
    """Process the comment or review of an event; returns what is printed of it, or raises `Refusal`."""
    comment = read_event(event, name)
    if isinstance(comment, Other):
        raise Refusal("ignored", comment.reason)
    try:
        layout = find_layout()
        config = listening(layout)
        said = _said(comment, config.at("feedback.mention"))
        problem = author_problem(comment)
        if problem:
            raise Refusal("denied", problem)
        source = open_commenting(config, layout, os.environ)
        check_repository(source, comment.host, comment.repository)
        runs = own_runs_for(layout, str(comment.number))
        if comment.on_pull_request:
            url = f"{source.web()}/pull/{comment.number}"
            known = {run.run_id for run in runs}
            runs += [run for run in own_runs_of_pull_request(layout, url) if run.run_id not in known]
        if not runs:
            raise Refusal("ignored", "no_run", recovery=ELSEWHERE)
        if comment.review is not None:
            _check_alone(cast(RepositoryApi, source), comment)
        return _handle(Arrival(layout, config, source, comment), said, runs)
    except Refusal as refusal:
        refusal.outcome.setdefault("comment_id", comment.comment_id)
        raise


def _check_alone(api: RepositoryApi, comment: NewComment) -> None:
    """Raise unless the comment on a line is one by itself: those of an approval, or of a request for changes, are
    heard with the review."""
    try:
        state = review_state(api, comment.number, comment.review or 0)
    except WorkItemError as error:
        raise not_certain("review_unknown", error) from None
    if state != "commented":
        raise Refusal("ignored", "part_of_review")


def listening(layout: Layout) -> Config:
    """The project's configuration; raises `Refusal` where it says not to listen."""
    config = load_config(layout)
    if config.at("feedback.from_comments") == "never":
        raise Refusal("ignored", "switched_off")
    return config


def _said(comment: NewComment, mention: str) -> CommentCommand | Ignored | Ambiguous:
    """What the comment says to faber; raises a refusal where it says nothing to it."""
    if MARKER in comment.body:
        raise Refusal("ignored", "own_comment")
    found = said_in(comment, mention)
    if isinstance(found, Ignored) and found.reason not in REASONS:
        raise Refusal("ignored", found.reason)
    if comment.edited:
        raise Refusal("ignored", "edited")
    return found


def _handle(arrival: Arrival, said: CommentCommand | Ignored | Ambiguous, runs: list[Run]) -> Mapping[str, object]:
    comment = arrival.comment
    comment_id = comment.comment_id if comment.event == COMMENT else None
    if earlier := _recorded(runs, arrival.comment.key):
        return _recorded_before(arrival, *earlier)
    replies = arrival.config.at("feedback.post_refusals")
    if isinstance(said, Ignored) and not replies:
        raise Refusal("ignored", said.reason)
    _check_permission(arrival.source, comment)
    try:
        if isinstance(said, Ignored):
            raise Refusal("ignored", said.reason)
        if isinstance(said, Ambiguous):
            raise Refusal("ambiguous", "several_commands", lines=said.lines)
        bound = bind(said, [run.state for run in runs], comment_id, comment.created_at)
        if isinstance(bound, Unbound):
            if comment.state == "changes_requested" and bound.reason in ("nothing_asked", "run_closed"):
                return _reopen(arrival, said)
            raise Refusal(bound.result, bound.reason, run_id=bound.run_id, open_requests=list(bound.open_requests))
        if comment.state == "changes_requested" and bound.request and not _takes_changes(bound.request, said):
            return _reopen(arrival, said)
        if said.verb in ASKING:
            return _status_or_resume(arrival, said.verb, _run_of(bound, runs))
        return record_answer(arrival, said, bound, _run_of(bound, runs))
    except Refusal as refusal:
        # Only people who may answer get here: nobody else can make faber write a reply.
        if replies and not _between_people(arrival, refusal):
            refusal.outcome |= post_reply(arrival.source, arrival.comment, refusal.outcome, mention=arrival.mention)
        raise


def _takes_changes(asked: FeedbackRequest, said: CommentCommand) -> bool:
    """True if a review that requests changes answers this request, or names it. A gate can only be approved or
    rejected, and other questions are not about the work."""
    return "gate" not in asked["context"] and (asked["type"] in ANSWERED or said.request_id is not None)


def _between_people(arrival: Arrival, refusal: Refusal) -> bool:
    """True if somebody approves the pull request as usual, which faber did not ask for."""
    plain = arrival.mention.lower() not in arrival.comment.body.lower()
    return plain and arrival.comment.state == "approved" and refusal.reason in ("nothing_asked", "run_closed")


def _check_permission(source: Commenting, comment: NewComment) -> None:
    login = comment.sender.login
    try:
        answer = source.permission(login)
    except WorkItemError as error:
        raise not_certain("permission_unknown", error) from None
    if problem := permission_problem(answer, login):
        raise Refusal("denied", problem)


def _recorded(runs: list[Run], key: str) -> tuple[Run, int] | None:
    for run in runs:
        recent = [entry["event_id"] for entry in run.state["recent_events"] if entry.get("key") == key]
        event_id = recent[0] if recent else log.find_key(run.directory, key)
        if event_id is not None:
            return run, event_id
    return None


def _recorded_before(arrival: Arrival, run: Run, event_id: int) -> Mapping[str, object]:
    # A repetition finishes a killed first attempt and changes nothing else.
    committed = commit(run.layout, run.run_id, _nothing, PERSON, key=arrival.comment.key, known=run)
    committed = completed(committed, arrival.may_resume)
    outcome = _recorded_answer(arrival, committed)
    return {**outcome, "reason": "recorded_before", "event_id": event_id, "repeated": True}


def _nothing(state: State, plan: Plan) -> Decision:
    raise IllegalTransition("This comment was processed before.")


def _run_of(bound: BoundCommand, runs: list[Run]) -> Run:
    return next(run for run in runs if run.run_id == bound.state["run_id"])


def record_answer(arrival: Arrival, command: CommentCommand, bound: BoundCommand, run: Run) -> Mapping[str, object]:
    """Record the answer in the run that it is bound to; raises `Refusal` where it cannot be one."""
    assert bound.request is not None
    run_id, request_id = run.run_id, bound.request["request_id"]
    if arrival.comment.state in VERBS_OF_STATES and bound.request["type"] not in ANSWERED:
        raise Refusal("denied", "not_about_the_work", run_id=run_id, request_id=request_id)
    said, warnings = _whole_text(arrival, command)
    text = hidden(said, secret_values(os.environ)).strip()
    given = answer_words(command.verb, text, bound.request["type"])
    if given is None:
        raise Refusal("denied", "not_an_option", run_id=run_id, request_id=request_id, options=[])
    response, words = given
    responder = _responder(arrival.comment)
    try:
        committed = commit(
            run.layout,
            run_id,
            lambda state, plan: respond(
                state, plan, request_id=request_id, response=response, comment=words, responder=responder
            ),
            PERSON,
            key=arrival.comment.key,
            known=run,
        )
    except NotAnOption as error:
        options = error.fields.get("options")
        raise Refusal("denied", "not_an_option", run_id=run_id, request_id=request_id, options=options) from None
    except (AlreadyAnswered, IllegalTransition):
        raise Refusal("stale", "answered", run_id=run_id, request_id=request_id) from None
    committed = completed(committed, arrival.may_resume)
    recorded = with_report(_recorded_answer(arrival, committed), tell(run.layout, committed, config=arrival.config))
    return recorded | warnings


def _responder(comment: NewComment) -> Responder:
    return {
        "name": comment.sender.login,
        "source": comment.event,
        "url": comment.url,
        "comment_id": comment.comment_id,
    }


def _reopen(arrival: Arrival, said: CommentCommand) -> Mapping[str, object]:
    """A review that requests changes, while nothing is asked, gives the run that opened the pull request work again."""
    comment, source = arrival.comment, arrival.source
    words, warnings = _whole_text(arrival, said)
    text = hidden(words, secret_values(os.environ)).strip()
    try:
        run, pull, _ = find_own(arrival.layout, source.web(), cast(RepositoryApi, source), [comment.number])
    except WorkItemError as error:
        raise not_certain("pull_request_unknown", error) from None
    evidence = review_evidence(comment.sender.login, comment.state, comment.url, text)
    review = ChangesRequested(comment.key, pull.head_commit, pull.number, text, _responder(comment), [evidence])
    try:
        committed = commit(
            run.layout,
            run.run_id,
            lambda state, plan: reopen_for_review(state, plan, review),
            PERSON,
            key=comment.key,
            known=run,
        )
    except IllegalTransition as error:
        raise Refusal("stale", str(error.fields.get("reason", "run_closed")), run_id=run.run_id) from None
    recorded = with_report(_recorded_answer(arrival, committed), tell(run.layout, committed, config=arrival.config))
    return recorded | warnings | {"reason": "reopened"}


def _whole_text(arrival: Arrival, command: CommentCommand) -> tuple[str, dict[str, object]]:
    """The words of the answer, with what a review says on lines; and a warning where that could not be read."""
    comment, text = arrival.comment, command.text or ""
    if comment.place and text:
        return f"{comment.place}: {text}", {}
    if comment.event != REVIEW or command.verb != "request_changes":
        return text, {}
    try:
        return with_lines(text, arrival.source.line_comments(comment.number, comment.comment_id)), {}
    except WorkItemError as error:
        return text, {"warnings": [{"code": "line_comments_not_read", "message": error.message}]}


def _recorded_answer(arrival: Arrival, committed: Committed) -> Mapping[str, object]:
    event = committed.events[0] if committed.events else None
    given = event.get("metadata", {}) if event else {}
    # A merge of two copies of the run keeps an answer that came second, without counting it.
    counted = event is None or event["type"] != FEEDBACK_SUPERSEDED
    position = run_position(committed.run, None)
    return {
        "result": "recorded",
        "reason": "answered",
        "run_id": position["run_id"],
        "request_id": given.get("request_id"),
        "response": given.get("response"),
        "action": given.get("action"),
        "event_id": event["event_id"] if event else None,
        "repeated": committed.repeated,
        "counted": counted,
        **continued(committed.run, counted and arrival.may_resume and position["status"] == "in_progress"),
        "status": position["status"],
        "next": position["next_command"],
        "comment_id": arrival.comment.comment_id,
    }


def _status_or_resume(arrival: Arrival, verb: str, made: Run) -> Mapping[str, object]:
    """`status` and `resume`: nothing is recorded, but that a person resumes a failed run, or that it is completed."""
    position = run_position(made, None)
    outcome: dict[str, object] = {
        "result": "ignored",
        "reason": verb,
        "run_id": made.run_id,
        "resume": False,
        "status": position["status"],
        "standing": position,
        "next": position["next_command"],
        "comment_id": arrival.comment.comment_id,
    }
    if verb == "status":
        posts = arrival.config.at("feedback.post") == "all"
        return with_report(outcome, tell_progress(made, arrival.config) if posts else None)
    if position["status"] in CLOSED:
        raise Refusal("stale", "run_closed", run_id=made.run_id)
    if made.state["feedback_queue"]:
        raise Refusal("stale", "awaiting_feedback", run_id=made.run_id)
    done = Committed([], made, False)
    if arrival.may_resume and position["status"] == "failed":
        done = commit(made.layout, made.run_id, resume_run, PERSON, key=arrival.comment.key, known=made)
    done = completed(done, arrival.may_resume)
    if done.events:
        position = run_position(done.run, None)
        outcome |= {"result": "recorded", "status": position["status"], "standing": position}
        outcome["next"] = position["next_command"]
    waits = position["status"] in CLOSED or bool(done.run.state["feedback_queue"])  # a gate may be asked now
    outcome |= continued(done.run, arrival.may_resume and not waits)
    return with_report(outcome, tell(made.layout, done, config=arrival.config))
