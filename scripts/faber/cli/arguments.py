"""Arguments that several commands share, and reading what people and agents hand in."""

import os
import stat
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from faber.cli.app import Invocation
from faber.errors import InvalidInput, PersonRequired
from faber.model.documents import Artifact, Plan, State
from faber.model.ids import check_name
from faber.store import strict_json

MAX_INPUT = 64 * 1024
F = TypeVar("F", bound=Callable[..., Any])

run_argument = click.argument("run", metavar="RUN")
key_option = click.option("--key", metavar="KEY", help="Idempotency key: repeating the command records nothing new.")
format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["json", "text"]),
    default="json",
    show_default=True,
    help="Form of the answer.",
)


def require_person(invocation: Invocation, command: str, run: str) -> None:
    """Raise `PersonRequired` if an agent calls a command that speaks for a person about `run`."""
    invocation.run = run
    if invocation.is_agent:
        raise PersonRequired(f"`{command}` speaks for a person and was called in an agent's session.", command=command)


def json_object(text: str, what: str) -> dict[str, Any]:
    """`text` as a JSON object; raises `InvalidInput` if it is none or too large."""
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
    """`PHASE:STEP` as its two names."""
    phase, colon, step = text.partition(":")
    if not colon:
        raise InvalidInput(
            f"{text[:80]!a} is not PHASE:STEP.", recovery="Name a step as phase:step, e.g. build:implement."
        )
    return check_name(phase, "phase"), check_name(step, "step")


def named_values(given: tuple[str, ...]) -> list[Artifact]:
    """`NAME=VALUE` arguments as artifacts."""
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
    """What is piped in, or None on a terminal or where nothing is connected; raises `InvalidInput` past `limit`."""
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


def standing(state: State, plan: Plan) -> dict[str, Any]:
    """Where a run stands, as every recording command answers."""
    from faber.context.resume import next_steps, resume_point

    resume = resume_point(state, plan)
    return {
        "run_id": state["run_id"],
        "status": state["status"],
        "current_phase": state["current_phase"],
        "current_step": state["current_step"],
        "last_event_id": state["last_event_id"],
        "resume_point": resume.point,
        "next_command": next_steps(state, plan, resume)["command"],
    }
