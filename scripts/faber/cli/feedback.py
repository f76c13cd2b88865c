"""`faber feedback …`: asking a person, and a person's answer."""

import os
import time
from typing import Any

import click

from faber.cli.app import Invocation
from faber.cli.arguments import format_option, key_option, place, require_person, run_argument
from faber.cli.output import print_json, write
from faber.cli.recorded_answer import record
from faber.errors import FaberError, UsageError
from faber.feedback.requests import find_request
from faber.feedback.requests import request as open_request
from faber.feedback.requests import respond as answer_request
from faber.model.answers import DEFAULT_OPTIONS
from faber.model.text import inert
from faber.store.resolve import resolve
from faber.store.runs import Run, load
from faber.store.store_errors import ForeignRun


@click.group()
def feedback() -> None:
    """Ask a person, and answer."""


def new_request_id() -> str:
    """`fr-<date>-<random>`."""
    import secrets

    return f"fr-{time.strftime('%Y%m%d', time.gmtime())}-{secrets.token_hex(4)}"


@feedback.command("request")
@run_argument
@click.option("--type", "kind", type=click.Choice(list(DEFAULT_OPTIONS)), default="approval", show_default=True)
@click.option("--prompt", metavar="TEXT", help="What is asked (2,000 characters). A gate has its own.")
@click.option("--option", "options", multiple=True, metavar="O", help="A possible answer; repeatable.")
@click.option(
    "--artifact", "artifacts", multiple=True, metavar="PATH", help="A file of the repository to look at; repeatable."
)
@click.option("--at", "where", metavar="PHASE:STEP", help="The step that asks. Default: the one begun, else the next.")
@click.option("--gate", "gate_id", metavar="ID", help="The gate to be opened, as `faber next` names it.")
@click.option("--post", is_flag=True, help="Post it as a comment on the run's issue, too.")
@key_option
@click.pass_obj
def request(
    obj: Invocation,
    run: str,
    kind: str,
    prompt: str | None,
    options: tuple[str, ...],
    artifacts: tuple[str, ...],
    where: str | None,
    gate_id: str | None,
    post: bool,
    key: str | None,
) -> None:
    """Open a request; the run waits until a person answers it.

    Without --option: approval offers approve, reject; confirmation confirm, cancel; review approve,
    request_changes, reject; error_resolution retry, skip, abort. A selection has only its own options,
    a clarification none: it is answered in the person's words.
    """
    request_id = new_request_id()
    at = place(where) if where is not None else None
    record(
        obj,
        run,
        lambda state, plan: open_request(
            state,
            plan,
            request_id=request_id,
            kind=kind,
            prompt=prompt,
            options=list(options),
            place=at,
            gate_id=gate_id,
            artifacts=list(artifacts),
        ),
        key=key,
        post=post,
    )


@feedback.command("respond")
@run_argument
@click.argument("response", required=False)
@click.option("--request", "request_id", metavar="REQUEST_ID", help="Default: the oldest open request.")
@click.option("--comment", metavar="TEXT", help="What there is to say about it (2,000 characters).")
@click.pass_obj
def respond(obj: Invocation, run: str, response: str | None, request_id: str | None, comment: str | None) -> None:
    """Answer a request (people only). Without RESPONSE, ask for it in the terminal.

    RESPONSE is one of the request's options, in any case, or an alias like yes, ok, lgtm, no, changes.
    """
    from faber.cli.terminal_prompt import terminal_responder
    from faber.github.posting import hidden
    from faber.model.credentials import secret_values

    require_person(obj, "faber feedback respond", run)
    if response is None:
        made = load(obj.layout, resolve(obj.layout, run))
        run, request_id = made.run_id, find_request(made.state, request_id)["request_id"]
        response, comment = _asked(made, request_id, comment)
    # As it is recorded, so that the same answer given again is known to be the same.
    secrets = secret_values(os.environ)
    said, responder = hidden(response, secrets), terminal_responder(obj.layout.root)
    comment = hidden(comment, secrets) if comment is not None else None
    record(
        obj,
        run,
        lambda state, plan: answer_request(
            state, plan, request_id=request_id, response=said, comment=comment, responder=responder
        ),
    )


def _asked(made: Run, request_id: str, comment: str | None) -> tuple[str, str | None]:
    """What the person at the terminal answers: the option and the comment."""
    from faber.cli.terminal_prompt import ask_person, on_terminal

    if made.foreign:
        raise ForeignRun(f"Run {made.run_id} was made by another tool and is only read.", run_id=made.run_id)
    asked = find_request(made.state, request_id)
    if not on_terminal():
        options = asked["options"]
        raise UsageError(
            f"Without a terminal the answer is an argument: {' or '.join(options) or 'any text'}.",
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
def show(obj: Invocation, run: str, form: str) -> None:
    """Show what is being asked, oldest first, and the last answer."""
    made = load(obj.layout, resolve(obj.layout, run))
    asked = made.state["feedback_queue"]
    if form == "json":
        print_json({"run_id": made.run_id, "open": asked, "last_answer": made.state["last_answer"]})
        return
    from faber.cli.terminal_prompt import described

    shown = [described(entry) for entry in asked] or ["Nothing is being asked."]
    if asked:
        shown.append(f"Answer with: faber feedback respond {made.run_id}")
    write(inert("\n\n".join(shown)) + "\n")


@feedback.command("history")
@run_argument
@format_option
@click.pass_obj
def history(obj: Invocation, run: str, form: str) -> None:
    """Show all that was asked and answered, oldest first: who, from where, when."""
    from faber.feedback.feedback_history import history as told
    from faber.feedback.feedback_history import text

    made = load(obj.layout, resolve(obj.layout, run))
    events, warnings = _events(made)
    requests = told(events)
    if form == "json":
        print_json({"run_id": made.run_id, "requests": requests, "warnings": warnings})
    else:
        write(text(requests))


def _events(made: Run) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The feedback events of the whole log, and a warning for each that cannot be read."""
    from faber.feedback.feedback_history import TYPES
    from faber.foreign.normalise import event_notice, normalise_event
    from faber.store import log

    events, warnings = [], []
    for entry in log.listing(made.directory):
        if entry.type not in TYPES:
            continue
        try:
            events.append(normalise_event(dict(log.read_event(made.directory, entry.file)), entry))
        except FaberError as error:
            warnings.append(event_notice(error, entry.file).as_dict())
    return events, warnings


@feedback.command("post")
@run_argument
@click.option("--progress", is_flag=True, help="Bring the comment with the run's progress up to date, too.")
@click.option(
    "--as-configured", is_flag=True, help="Post what `feedback.post` of config.yaml wants posted, and nothing else."
)
@click.pass_obj
def post_command(obj: Invocation, run: str, progress: bool, as_configured: bool) -> None:
    """Post every open request that is not on the issue yet; repeating posts nothing twice.

    Exits with 1 if something could not be posted.
    """
    from faber.github.notifications import tell_all, tell_as_configured

    if progress and as_configured:
        raise UsageError("Give --progress or --as-configured, not both.")
    made = load(obj.layout, resolve(obj.layout, run))
    told = tell_as_configured(obj.layout, made) if as_configured else tell_all(obj.layout, made, progress=progress)
    print_json({"run_id": made.run_id, **told})
    if told["warnings"]:
        raise click.exceptions.Exit(1)


@feedback.command("from-event")
@click.option(
    "--event-path",
    metavar="FILE",
    envvar="GITHUB_EVENT_PATH",
    required=True,
    help="The event's file. Default: $GITHUB_EVENT_PATH.",
)
@click.pass_obj
def from_event(obj: Invocation, event_path: str) -> None:
    """Take a person's answer from a new comment on the run's issue (GitHub's issue_comment event).

    Prints {"result": recorded|denied|stale|ambiguous|ignored, "reason", "resume", ...}. Exit status 0 for
    recorded and ignored, 4 for the others. In a GitHub Actions job result, resume, run_id and request_id
    become outputs of the step.
    """
    from faber.github.comment_command import arrive

    outcome = arrive(obj, event_path)
    print_json(outcome)
    if outcome["result"] in ("denied", "stale", "ambiguous"):
        raise click.exceptions.Exit(4)
