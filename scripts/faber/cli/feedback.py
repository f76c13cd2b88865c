"""`faber feedback …`: asking people, and taking their answers."""

import os
from typing import Any, NamedTuple

import click

from faber.console.arguments import (
    complete_run,
    forbid_agent,
    format_option,
    key_option,
    place,
    require_person,
    run_argument,
    run_named,
)
from faber.console.invocation import Invocation
from faber.console.output import print_answer, print_json
from faber.console.recorded_answer import record
from faber.errors import AmbiguousRun, FaberError, RunNotFound, UsageError
from faber.feedback.answer_matching import read_answer
from faber.feedback.feedback_history import TYPES, text
from faber.feedback.feedback_history import history as past_requests
from faber.feedback.requests import NewRequest, find_request, new_request_id, open_request
from faber.feedback.requests import respond as answer_request
from faber.foreign.foreign_events import read_events
from faber.foreign.resolve import only, open_named, open_runs, resolve
from faber.github.notifications import tell_all, tell_as_configured
from faber.model.answers import DEFAULT_OPTIONS, FREE_TEXT
from faber.model.documents import State
from faber.model.model_errors import InvalidRunId
from faber.store import log
from faber.store.load import Run
from faber.store.store_errors import ForeignRun


@click.group()
def feedback() -> None:
    """Ask people, and answer them."""


class RequestOptions(NamedTuple):
    """The arguments of `faber feedback request`, as its options declare them."""

    run: str
    kind: str
    prompt: str | None
    options: tuple[str, ...]
    artifacts: tuple[str, ...]
    where: str | None
    gate_id: str | None
    post: bool
    key: str | None


@feedback.command("request")
@run_argument
@click.option(
    "--type",
    "kind",
    type=click.Choice(list(DEFAULT_OPTIONS)),
    default="approval",
    show_default=True,
    help="The kind of question.",
)
@click.option("--prompt", metavar="TEXT", help="The question (2,000 characters). A gate has its own.")
@click.option("--option", "options", multiple=True, metavar="O", help="A possible answer; repeatable.")
@click.option(
    "--artifact", "artifacts", multiple=True, metavar="PATH", help="A file in the repository to look at; repeatable."
)
@click.option(
    "--at", "where", metavar="PHASE:STEP", help="The step that asks. Default: the one in progress, else the next."
)
@click.option("--gate", "gate_id", metavar="ID", help="The gate that the answer opens, as `faber next` names it.")
@click.option("--post", is_flag=True, help="Also post it as a comment on the run's issue.")
@key_option
@click.pass_obj
def request(obj: Invocation, /, **given: Any) -> None:
    """Ask a person; the run waits for the answer.

    Without --option: approval offers approve, reject; confirmation confirm, cancel; review approve,
    request_changes, reject; error_resolution retry, skip, abort. A selection needs options of its own; a
    clarification has none: the person answers in their own words.
    """
    options = RequestOptions(**given)
    asked = NewRequest(
        new_request_id(),
        options.kind,
        options.prompt,
        options.options,
        place(options.where) if options.where is not None else None,
        options.gate_id,
        options.artifacts,
    )
    record(obj, options.run, lambda state, plan: open_request(state, plan, asked), key=options.key, post=options.post)


@feedback.command("respond")
@click.argument("run", metavar="[RUN]", required=False, shell_complete=complete_run)
@click.argument("response", required=False)
@click.option("--request", "request_id", metavar="REQUEST_ID", help="Default: the oldest open request.")
@click.option("--comment", metavar="TEXT", help="A remark on the answer (2,000 characters).")
@click.pass_obj
def respond(
    obj: Invocation, run: str | None, response: str | None, request_id: str | None, comment: str | None
) -> None:
    """Answer a request (people only). Without RESPONSE, the terminal asks for it.

    RESPONSE is one of the request's options, in upper or lower case, or an alias like yes, ok, lgtm, no, changes.
    """
    from faber.feedback.responder import terminal_responder
    from faber.github.posting import hidden
    from faber.text.credentials import secret_values

    if response is None and run is not None and not obj.is_agent and _is_answer(obj, run, request_id):
        run, response = only(obj.layout).run_id, run
    named = run_named(obj, run)
    found: str | Run = named
    require_person(obj, "faber feedback respond", named)
    if response is None:
        found = open_named(obj.layout, named)
        request_id = find_request(found.state, request_id)["request_id"]
        response, comment = _asked(found, request_id, comment)
    # Redacted as it will be recorded, so that a repeated answer is recognised.
    secrets = secret_values(os.environ)
    said, responder = hidden(response, secrets), terminal_responder(obj.layout.root)
    comment = hidden(comment, secrets) if comment is not None else None
    record(
        obj,
        found,
        lambda state, plan: answer_request(
            state, plan, request_id=request_id, response=said, comment=comment, responder=responder
        ),
    )


def _is_answer(obj: Invocation, said: str, request_id: str | None) -> bool:
    """True if `said` names no run, but an option of an open request, or an alias of one."""
    try:
        resolve(obj.layout, said)
    except (AmbiguousRun, InvalidRunId, RunNotFound):
        return any(_chooses(run.state, said, request_id) for run in open_runs(obj.layout))
    return False


def _chooses(state: State, said: str, request_id: str | None) -> bool:
    try:
        asked = find_request(state, request_id)
        return asked["type"] != FREE_TEXT and bool(read_answer(asked, said))
    except FaberError:
        return False


def _asked(made: Run, request_id: str, comment: str | None) -> tuple[str, str | None]:
    """The option and the comment from the person at the terminal."""
    from faber.console.terminal_prompt import ask_person, on_terminal

    if made.foreign:
        raise ForeignRun(f"Run {made.run_id} was created by another tool; faber only reads it.", run_id=made.run_id)
    asked = find_request(made.state, request_id)
    if not on_terminal():
        options = asked["options"]
        raise UsageError(
            f"There is no terminal to ask in: give the answer as an argument, {' or '.join(options) or 'any text'}.",
            options=options,
            request_id=request_id,
            recovery=f"Run `faber feedback respond {made.run_id} RESPONSE --request {request_id}`.",
        )
    answer, comment = ask_person(asked, comment, more=len(made.state["feedback_queue"]) - 1)
    return answer.option, comment


@feedback.command("show")
@run_argument
@format_option
@click.pass_obj
def show_open(obj: Invocation, run: str, form: str) -> None:
    """Show the open requests, oldest first, and the last answer."""
    made = open_named(obj.layout, run)
    asked = made.state["feedback_queue"]

    def described_requests() -> str:
        from faber.console.terminal_prompt import described

        lines = [described(entry) for entry in asked] or ["No request is open."]
        if asked:
            lines.append(f"Answer with: {obj.program} feedback respond {made.run_id}")
        return "\n\n".join(lines) + "\n"

    print_answer(
        {"run_id": made.run_id, "open": asked, "last_answer": made.state["last_answer"]},
        form,
        lambda _: described_requests(),
    )


@feedback.command("history")
@run_argument
@format_option
@click.pass_obj
def history(obj: Invocation, run: str, form: str) -> None:
    """Show all requests and answers, oldest first: who answered, where and when."""
    made = open_named(obj.layout, run)
    found = read_events(made.directory, (entry for entry in log.listing(made.directory) if entry.type in TYPES))
    requests = past_requests(found.events)
    warnings = [notice.as_dict() for notice in found.notices]
    answer = {"run_id": made.run_id, "requests": requests, "warnings": warnings}
    print_answer(answer, form, lambda _: text(requests))


@feedback.command("post")
@run_argument
@click.option("--progress", is_flag=True, help="Also update the comment with the run's progress.")
@click.option("--as-configured", is_flag=True, help="Post only what `feedback.post` in config.yaml asks for.")
@click.pass_obj
def post_command(obj: Invocation, run: str, progress: bool, as_configured: bool) -> None:
    """Post every open request that is not on the issue yet. Repeating posts nothing twice.

    Exit status 1 if something could not be posted.
    """
    if progress and as_configured:
        raise UsageError("Give --progress or --as-configured, not both.")
    made = open_named(obj.layout, run)
    report = tell_as_configured(obj.layout, made) if as_configured else tell_all(made, progress=progress)
    print_json({"run_id": made.run_id, **report.as_dict()})
    if report.warnings:
        raise click.exceptions.Exit(1)


@feedback.command("from-event")
@click.option(
    "--event-path",
    metavar="FILE",
    envvar="GITHUB_EVENT_PATH",
    required=True,
    help="The event file. Default: $GITHUB_EVENT_PATH.",
)
@click.pass_obj
def from_event(obj: Invocation, event_path: str) -> None:
    """Take what an event of GitHub says: a comment, a review, or a failed check.

    On a schedule (and on workflow_dispatch), take answers from the reactions to the comments that ask.

    Prints {"result": recorded|denied|stale|ambiguous|ignored, "reason", "resume", ...}. Exit status 0 for
    recorded and ignored, 4 for the others. In a GitHub Actions job, result, resume, run_id and request_id
    become outputs of the step.
    """
    from faber.github_events.event_handling import handle_event

    (forbid_agent if os.environ.get("GITHUB_ACTIONS") == "true" else require_person)(obj, "faber feedback from-event")
    outcome = handle_event(event_path, lambda: obj.layout)
    print_json(outcome)
    if outcome["result"] in ("denied", "stale", "ambiguous"):
        raise click.exceptions.Exit(4)
