"""`faber feedback …`: asking a person, and a person's answer."""

import secrets
import time

import click

from faber.cli.app import Invocation
from faber.cli.arguments import key_option, place, require_person, run_argument
from faber.cli.output import print_json
from faber.cli.record import record
from faber.feedback.requests import request as open_request
from faber.feedback.requests import respond as answer_request
from faber.model.answers import DEFAULT_OPTIONS
from faber.store.find import resolve
from faber.store.runs import load


@click.group()
def feedback() -> None:
    """Ask a person, and answer."""


@feedback.command("request")
@run_argument
@click.option("--type", "kind", type=click.Choice(list(DEFAULT_OPTIONS)), default="approval", show_default=True)
@click.option("--prompt", metavar="TEXT", help="What is asked (2,000 characters). A gate has its own.")
@click.option("--option", "options", multiple=True, metavar="O", help="A possible answer; repeatable.")
@click.option("--at", "where", metavar="PHASE:STEP", help="The step that asks.")
@click.option("--gate", "gate_id", metavar="ID", help="The gate to be opened, as `faber next` names it.")
@key_option
@click.pass_obj
def request(
    obj: Invocation,
    run: str,
    kind: str,
    prompt: str | None,
    options: tuple[str, ...],
    where: str | None,
    gate_id: str | None,
    key: str | None,
) -> None:
    """Open a request; the run waits until a person answers it."""
    request_id = f"fr-{time.strftime('%Y%m%d', time.gmtime())}-{secrets.token_hex(4)}"
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
        ),
        key=key,
    )


@feedback.command("respond")
@run_argument
@click.argument("response")
@click.option("--request", "request_id", metavar="REQUEST_ID", help="Default: the oldest open request.")
@click.option("--comment", metavar="TEXT", help="What there is to say about it.")
@click.pass_obj
def respond(obj: Invocation, run: str, response: str, request_id: str | None, comment: str | None) -> None:
    """Answer a request (people only)."""
    require_person(obj, "faber feedback respond", run)
    record(
        obj,
        run,
        lambda state, plan: answer_request(state, plan, request_id=request_id, response=response, comment=comment),
    )


@feedback.command("show")
@run_argument
@click.pass_obj
def show(obj: Invocation, run: str) -> None:
    """Show what is being asked, oldest first, and the last answer."""
    made = load(obj.layout, resolve(obj.layout, run))
    print_json({"run_id": made.run_id, "open": made.state["feedback_queue"], "last_answer": made.state["last_answer"]})
