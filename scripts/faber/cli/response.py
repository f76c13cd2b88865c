"""`faber response …`: handling responses that were truncated at the output limit."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import click

from faber.console.given_text import read_cut, read_response, read_schema
from faber.console.invocation import Invocation
from faber.console.output import print_json
from faber.errors import Exit
from faber.responses import Chunk, ChunkMergeError, build_resume_prompt
from faber.responses.envelope import examine
from faber.responses.response_errors import ValidationTimeout

file_argument = click.argument("file", metavar="[FILE|-]", default="-")
stop_reason_option = click.option(
    "--stop-reason",
    metavar="R",
    help="The source's stop reason (max_tokens, length, end_turn …).",
)


@click.group()
def response() -> None:
    """Check and complete truncated responses.

    FILE is UTF-8 text of at most 64 MB; `-` (the default) is stdin.
    """


@response.command("check")
@file_argument
@stop_reason_option
def check(file: str, stop_reason: str | None) -> None:
    """Check whether a response is truncated, complete or malformed JSON.

    Exit status 0 in all three cases: see `status`. If there is prose or a fence around the JSON, `envelope` holds
    what was removed, and indexes refer to the JSON text. Bytes of a character that was cut at the end are left out;
    `cut_bytes` counts them.
    """
    given = read_cut(file)
    envelope, found = examine(given.text, stop_reason)
    if found.status == "complete":
        given.require_whole()
    answer = found.as_dict()
    if given.cut_bytes:
        answer["cut_bytes"] = given.cut_bytes
    if envelope.removed:
        answer["envelope"] = envelope.as_dict()
    print_json(answer)


@response.command("merge")
@click.argument("initial", metavar="INITIAL")
@click.argument("continuations", metavar="CONTINUATION…", nargs=-1, required=True)
@click.option(
    "--join",
    type=click.Choice(["consistent", "proven"]),
    default="proven",
    show_default=True,
    help="What to require of a join: that the continuation begins with the last valid token and continues as the "
    "response does (proven), or only that it can be read in one way (consistent). A gap between the two then goes "
    "unnoticed: in real files, 80 % of those are joined wrong.",
)
def merge(initial: str, continuations: tuple[str, ...], join: str) -> None:
    """Join a truncated response and its continuations, in order.

    `merged` is the JSON text. Exit status 1 if a join cannot be trusted or the last continuation is truncated, too.
    """
    chunk = Chunk.of(read_cut(initial).text)
    proofs = []
    for number, name in enumerate(continuations, start=1):
        given = read_cut(name)
        made = chunk.join(given.text, "consistent" if join == "consistent" else "proven")
        if made.complete:
            given.require_whole()
        proofs.append(made.proof)
        chunk = made.chunk
        if made.complete and number < len(continuations):
            raise ChunkMergeError(
                f"The response is complete after {number} of {len(continuations)} continuations.",
                reason="not_truncated",
                recovery="Leave out the remaining continuations.",
            )
    if not made.complete:
        raise ChunkMergeError(
            "The continuations fit, but the last one is truncated, too.",
            reason="unfinished",
            **made.detection.as_dict(),
        )
    print_json({"merged": made.text, "proofs": proofs})


@response.command("prompt")
@file_argument
@stop_reason_option
def prompt(file: str, stop_reason: str | None) -> None:
    """Print the prompt that asks for the rest of a truncated response.

    It quotes only the last valid token, so send it in the conversation that the response came from.
    """
    chunk = Chunk.of(read_cut(file).text, stop_reason)
    print_json(
        {
            "prompt": build_resume_prompt(chunk.token()),
            "last_valid_token": chunk.detection.last_valid_token,
            "truncation_index": chunk.detection.truncation_index,
        }
    )


@response.command("validate")
@click.option(
    "--schema", "schema_file", required=True, metavar="FILE", help="A JSON Schema (draft 2020-12), at most 1 MB."
)
@click.option(
    "--time-limit",
    type=click.FloatRange(0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit: a schema's patterns and references can take exponential time.",
)
@file_argument
def validate(schema_file: str, file: str, time_limit: float) -> int:
    """Validate a response against a JSON Schema.

    Exit status 5 if it is invalid: `problems` lists the errors by JSON path. References must be inside the schema;
    nothing is fetched.
    """
    from faber.responses.schema_validation import MalformedResponseHandler

    text, schema = read_response(file), read_schema(schema_file)
    with limited(time_limit):
        found = MalformedResponseHandler.validate(text, schema)
    print_json({"valid": found.ok, "problems": found.as_dicts()})
    return Exit.OK if found.ok else Exit.UNFINISHED


@response.command("log")
@click.option("--task", "task_id", metavar="ID", help="Only this task.")
@click.option("--last", type=click.IntRange(1), default=1000, show_default=True, metavar="N", help="Only the newest N.")
@click.pass_obj
def log(obj: Invocation, task_id: str | None, last: int) -> None:
    """List truncated responses and how each was completed, oldest first."""
    from faber.responses.recovery_log import entries

    found = entries(obj.layout, task_id=task_id, last=last)
    print_json({"entries": found, "database": obj.layout.database})


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `ValidationTimeout` after `seconds`, even inside a regular expression, which checks for signals."""

    def end(number: int, frame: object) -> None:
        raise ValidationTimeout(f"The validation took longer than {seconds:g} seconds.")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
