"""`faber context`: the context reconstitution protocol as one command."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from faber.cli.app import Invocation
from faber.cli.arguments import format_option, require_person, run_argument
from faber.cli.output import print_json, say, write
from faber.context.assemble import Request, asked_about, reconstitute
from faber.context.context_budget import SMALLEST_MAX_CHARS, fit
from faber.context.questions import ABORT, NOT_ASKED, QUESTIONS, check_answers, request_about
from faber.errors import Exit, FaberError, Notice, Severity
from faber.events.feedback_events import decision_point
from faber.events.record_events import context_loaded
from faber.events.workflow_events import workflow_cancelled
from faber.foreign.open_run import open_run
from faber.foreign.resolve import open_named
from faber.model import acceptance
from faber.model.documents import CLOSED, Draft, Plan, State
from faber.model.text import redact_json, shorten
from faber.store.clock import utc_now
from faber.store.commit import commit
from faber.store.config import load_config
from faber.store.load import Run


@click.command()
@run_argument
@format_option
@click.option(
    "--max-chars", type=click.IntRange(SMALLEST_MAX_CHARS), metavar="N", help="Budget of the JSON. Default: 24000."
)
@click.option("--full", is_flag=True, help="No budget.")
@click.option(
    "--decide", "decisions", multiple=True, metavar="CODE=OPTION", help="Answer an open decision (people only)."
)
@click.option("--record", "recording", is_flag=True, help="Record, once a session, that the context was loaded.")
@click.option(
    "--no-fetch",
    is_flag=True,
    envvar="FABER_NO_FETCH",
    help="Use the copy of the work item from last time; so does FABER_NO_FETCH=1.",
)
@click.pass_obj
def context(
    obj: Invocation,
    run: str,
    form: str,
    max_chars: int | None,
    full: bool,
    decisions: tuple[str, ...],
    recording: bool,
    no_fetch: bool,
) -> int:
    """Rebuild everything the next session needs to go on with RUN.

    Exit status 3 if a person has to decide something first: `decisions` holds what.
    """
    with critical_in(form):
        return _context(obj, run, form, None if full else max_chars or 0, decisions, recording, not no_fetch)


@contextmanager
def critical_in(form: str) -> Iterator[None]:
    """Say what stops everything in the protocol's words where text is wanted."""
    try:
        yield
    except FaberError as error:
        if form != "text" or error.exit_code != Exit.FAILED:
            raise
        from faber.context.render import critical

        write(critical(error))
        raise click.exceptions.Exit(error.exit_code) from error


def _context(
    obj: Invocation,
    run: str,
    form: str,
    budget: int | None,
    decisions: tuple[str, ...],
    recording: bool,
    fetch: bool,
) -> int:
    """`budget` in characters; 0 stands for the configured one, None for none."""
    answers = check_answers(decisions)
    if answers:
        require_person(obj, "faber context --decide", run)
    loaded = open_named(obj.layout, run)
    config = load_config(obj.layout)
    document = reconstitute(loaded, config, Request(fetch, answers, utc_now()))
    if answers:
        loaded = _decide(obj, loaded, answers, document)
        document = reconstitute(loaded, config, Request(False, answers, utc_now()))
    if recording:
        state, notices = _record(obj, loaded, document)
        document = asked_about(document, state, loaded.plan) if document["decisions"] else document
        document["warnings"] += [notice.as_dict() for notice in notices]
    document = redact_json(document)
    fitted = fit(document, config.at("context.max_chars") if budget == 0 else budget)
    if form == "text":
        from faber.context.render import text

        write(text(document))
    else:
        print_json(fitted)
    if fitted["decisions"]:
        say(f"faber: {len(fitted['decisions'])} decision(s) needed; see `decisions`.")
        return Exit.PERSON_NEEDED
    return Exit.OK


def _decide(obj: Invocation, run: Run, answers: dict[str, str], document: dict[str, object]) -> Run:
    """Record what a person decided, and do what the decision itself asks for."""
    warnings = document["warnings"]
    assert isinstance(warnings, list)
    subjects = {warning["code"]: warning["source"] for warning in warnings}
    for code, option in answers.items():
        if code not in subjects:
            raise NothingToDecide(code)
        if run.foreign:
            continue  # a view: the answer holds for this output only
        if code == "feedback_mismatch" and option == "repair":
            from faber.store.repair import repair_run

            repair_run(obj.layout, run.run_id)
        _settle(obj, run, code, option, subjects[code])
    return open_run(obj.layout, run.run_id)


class NothingToDecide(FaberError):
    """The decision answered is not open."""

    code = "nothing_to_decide"
    exit_code = Exit.REFUSED
    recovery = "Run `faber context RUN` without --decide to see what is open."

    def __init__(self, code: str) -> None:
        super().__init__(f"{code} is not open on this run.", decision=code)


def _settle(obj: Invocation, run: Run, code: str, option: str, subject: str | None) -> None:
    """The answer to the request that asks this, else a decision of its own."""
    said = f"{code}: {QUESTIONS[code].options[option]}"
    draft = decision_point(said, question=code, option=option, subject=subject)
    from faber.cli.terminal_prompt import terminal_responder
    from faber.feedback.requests import respond

    responder = terminal_responder(obj.layout.root)

    def decide(state: State, plan: Plan) -> acceptance.Decision:
        asked = request_about(state, code)
        if asked is not None:
            return respond(
                state, plan, request_id=asked["request_id"], response=option, comment=None, responder=responder
            )
        drafts = acceptance.emit(state, plan, draft)
        if option == ABORT and isinstance(drafts, list):
            drafts = [*drafts, workflow_cancelled(f"Aborted by a person over {code}.")]
        return drafts

    commit(obj.layout, run.run_id, decide, obj.writer)


def _record(obj: Invocation, run: Run, document: dict[str, Any]) -> tuple[State, list[Notice]]:
    """Append `context_loaded` with the warnings, once a session, and put open decisions to a person, each once.

    Answers the state then, and as a notice what prevents it.
    """
    if run.foreign or run.state["status"] in CLOSED:
        why = "made by another tool" if run.foreign else run.state["status"]
        message = f"Nothing was recorded: the run is {why}."
        return run.state, [Notice("not_recorded", Severity.INFO, message, source=run.run_id)]
    session = obj.session_id
    codes = [{"code": w["code"], "severity": w["severity"]} for w in document["warnings"] if w["severity"] != "INFO"]

    def decide(state: State, plan: Plan) -> acceptance.Decision:
        drafts = _questions(state, plan, document["decisions"])
        if session and session in state["context_sessions"]:
            return drafts
        return [*drafts, context_loaded(codes[:50])]

    try:
        committed = commit(obj.layout, run.run_id, decide, obj.writer, known=run)
    except FaberError as error:
        return run.state, [Notice("not_recorded", Severity.WARNING, error.message, error.recovery, run.run_id)]
    from faber.github.notifications import tell

    lost = tell(obj.layout, committed).get("warnings", [])
    return committed.state, [Notice(**{**warning, "severity": Severity(warning["severity"])}) for warning in lost]


def _questions(state: State, plan: Plan, decisions: list[dict[str, Any]]) -> list[Draft]:
    """The requests that put these decisions to a person, but for those that are asked already."""
    if not decisions or any(entry["code"] in NOT_ASKED for entry in decisions):
        return []
    from faber.cli.feedback import new_request_id
    from faber.feedback.requests import request

    drafts: list[Draft] = []
    for entry in decisions:
        if request_about(state, entry["code"]) is not None:
            continue
        about = f" ({shorten(entry['about'], 300)})" if entry["about"] else ""
        asked = request(
            state,
            plan,
            request_id=new_request_id(),
            kind="error_resolution",
            prompt=entry["prompt"] + about,
            options=[option["option"] for option in entry["options"]],
            place=None,
            context={"question": {"code": entry["code"], "subject": entry["about"]}},
        )
        drafts += asked if isinstance(asked, list) else []
    return drafts
