"""An event and its draft, as `TypedDict`s."""

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict

from faber.events.shapes import Keyword, extensible

_Number = Annotated[int, Keyword("minimum", 1)]
Timestamp = Annotated[str, Keyword("pattern", r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")]


@extensible(minProperties=2)
class Artifact(TypedDict):
    """Something that a run made: a name, and its `value` or other fields."""

    name: str
    value: NotRequired[Any]


@extensible()
class ErrorDetail(TypedDict, total=False):
    """What went wrong."""

    message: str


class Draft(TypedDict):
    """An event before the log gives it id, time and run."""

    type: Annotated[str, Keyword("pattern", "^[a-z_]+$")]
    phase: NotRequired[str]
    step: NotRequired[str]
    status: NotRequired[str]
    message: NotRequired[str]
    metadata: NotRequired[dict[str, Any]]
    artifacts: NotRequired[list[Artifact]]
    error: NotRequired[ErrorDetail]
    session_id: NotRequired[str]
    actor: NotRequired[str]
    client: NotRequired[str]
    key: NotRequired[Annotated[str, Keyword("minLength", 1), Keyword("maxLength", 200)]]


class Event(Draft):
    """One immutable fact. `event_id` counts from 1 without gaps and is the only order."""

    schema_version: _Number
    event_id: _Number
    timestamp: Timestamp
    run_id: str
    # Of the run's plan; in the first event, and in one that contains the whole state.
    plan_digest: NotRequired[Annotated[str, Keyword("pattern", "^sha256:[0-9a-f]{64}$")]]
    # Only in the event's file, as its last key.
    checksum: NotRequired[Annotated[str, Keyword("pattern", "^crc32:[0-9a-f]{8}$")]]


def draft(
    type: str,
    phase: str | None = None,
    step: str | None = None,
    *,
    status: str | None = None,
    message: str | None = None,
    error: str | None = None,
    metadata: Mapping[str, object] | None = None,
) -> Draft:
    """A draft, for the modules with one function per event type. None and an empty `message` are left out."""
    made: Draft = {"type": type}
    if phase is not None:
        made["phase"] = phase
    if step is not None:
        made["step"] = step
    if status is not None:
        made["status"] = status
    if message:
        made["message"] = message
    if error is not None:
        made["error"] = {"message": error}
    given = {name: value for name, value in (metadata or {}).items() if value is not None}
    if given:
        made["metadata"] = given
    return made
