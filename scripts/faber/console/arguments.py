"""Arguments that several commands share, and reading input from people and agents."""

import os
import stat
import sys
from collections.abc import Callable
from math import isfinite
from typing import Any, TypeVar

import click

from faber.console.invocation import Invocation
from faber.console.output import keep_format
from faber.errors import InvalidInput, PersonRequired, RunNotFound
from faber.events.drafts import Artifact
from faber.model.ids import check_name
from faber.store import strict_json

MAX_INPUT = 64 * 1024
F = TypeVar("F", bound=Callable[..., Any])


class Amount(click.FloatRange):
    """A finite number within limits: click itself lets `nan` pass all of them."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; raises `BadParameter`."""
        number: float = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


def complete_run(_ctx: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """The ids of runs that begin like this, for the shell's completion."""
    return [run_id for run_id in Invocation().layout.run_ids() if run_id.startswith(begun)]


def run_named(invocation: Invocation, text: str | None, *, only: bool = False) -> str:
    """`text`; but `latest`, or no text at all, is in a session the session's own run. A session that has none, and with
    `only` a person who gives no text, means the one open run: raises `AmbiguousRun` if there are several."""
    from faber.foreign.resolve import LATEST

    if text is not None and text != LATEST:
        return text
    session = invocation.session_id
    if session is None:
        return _only_run(invocation) if only and text is None else LATEST
    from faber.hooks.run_lookup import session_run

    try:
        here = os.getcwd()
    except FileNotFoundError:  # the current directory was deleted
        here = invocation.layout.root
    return session_run(invocation.layout, session, here) or _only_run(invocation)


def _only_run(invocation: Invocation) -> str:
    from faber.foreign.resolve import LATEST, only

    try:
        return only(invocation.layout).run_id
    except RunNotFound:  # said by the command itself, which may look elsewhere
        return LATEST


def _run_argument(*, only: bool) -> Callable[[F], F]:
    def one(ctx: click.Context, _: click.Parameter, given: tuple[str, ...]) -> str:
        if len(given) > 1:
            raise click.UsageError(f"Got unexpected extra argument ({given[-1]}).", ctx)
        return run_named(ctx.obj, given[0] if given else None, only=only)

    # Of any number, so that it takes what the arguments after it leave: `step start PHASE:STEP` names no run.
    return click.argument("run", metavar="[RUN]", nargs=-1, callback=one, shell_complete=complete_run)


run_argument = _run_argument(only=False)
# For commands that end or override something: a person who names no run means the only open one.
only_run_argument = _run_argument(only=True)
next_option = click.option(
    "--next", "following", is_flag=True, help="Then start what comes next, and print it as `faber next` does."
)
key_option = click.option("--key", metavar="KEY", help="Idempotency key: a repetition records nothing new.")


def format_choice(*forms: str, default: str = "json") -> Callable[[F], F]:
    """The `--format` option, passed as `form`."""
    return click.option(
        "--format", "form", type=click.Choice(forms), default=default, show_default=True, help="Output format."
    )


def limit_option(default: int | None) -> Callable[[F], F]:
    """The `--limit` option: at most so many entries of a list."""
    return click.option(
        "--limit",
        type=click.IntRange(1),
        metavar="N",
        default=default,
        show_default=default is not None,
        help="At most N runs, and as many damaged ones.",
    )


format_option = format_choice("json", "text")


def generic_format() -> click.Option:
    """The same option for a command that has no text of its own: its JSON is printed as plain lines."""
    return click.Option(
        ["--format"],
        type=click.Choice(("json", "text")),
        default="json",
        show_default=True,
        help="Output format.",
        expose_value=False,
        callback=keep_format,
    )


def require_person(invocation: Invocation, command: str, run: str | None = None) -> None:
    """Raise `PersonRequired` unless a person calls a command that speaks for one; `run` is the run it would change."""
    invocation.run = run
    forbid_agent(invocation, command)
    if not invocation.is_person:
        raise PersonRequired(
            f"Only a person may use `{command}`; this process has no terminal.",
            command=command,
            recovery="Call it in a terminal. A project lets programs without one speak for a person by "
            "`feedback: {from_scripts: true}` in its committed config.yaml.",
        )


def forbid_agent(invocation: Invocation, command: str) -> None:
    """Raise `PersonRequired` if an agent calls the command."""
    if invocation.is_agent:
        raise PersonRequired(
            f"Only a person may use `{command}`; it was called in an agent's session.", command=command
        )


def json_object(text: str, what: str) -> dict[str, object]:
    """`text` parsed as a JSON object; raises `InvalidInput`, naming it `what`, if it is too large or anything else."""
    if len(text) > MAX_INPUT:
        raise InvalidInput(f"{what} has {len(text)} characters; the limit is {MAX_INPUT}.", limit=MAX_INPUT)
    try:
        value = strict_json.loads(text)
    except strict_json.InvalidJSON as error:
        raise InvalidInput(f"{what} is not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise InvalidInput(f"{what} must be a JSON object.")
    return value


def place(text: str) -> tuple[str, str]:
    """The two names in `PHASE:STEP`."""
    phase, colon, step = text.partition(":")
    if not colon:
        raise InvalidInput(
            f"{text[:80]!a} is not PHASE:STEP.", recovery="Name the step as PHASE:STEP, e.g. build:implement."
        )
    return check_name(phase, "phase"), check_name(step, "step")


def named_values(given: tuple[str, ...]) -> list[Artifact]:
    """Artifacts from `NAME=VALUE` arguments."""
    artifacts: list[Artifact] = []
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not value:
            raise InvalidInput(f"{text[:80]!a} is not NAME=VALUE.")
        if len(value) > 2_000:
            raise InvalidInput(f"The value of artifact {name[:60]!a} has more than 2000 characters.")
        artifacts.append({"name": check_name(name, "artifact"), "value": value})
    return artifacts


def read_stdin(limit: int = 1024 * 1024) -> str | None:
    """The piped input; None if stdin is a terminal or closed. Raises `InvalidInput` beyond `limit` bytes."""
    try:
        if sys.stdin is None or sys.stdin.isatty() or stat.S_ISCHR(os.fstat(sys.stdin.fileno()).st_mode):
            return None
        data = sys.stdin.buffer.read(limit + 1)
    except (OSError, ValueError):
        return None
    if len(data) > limit:
        raise InvalidInput(f"More than {limit} bytes on stdin.", limit=limit)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"stdin is not UTF-8: {error}.") from None
