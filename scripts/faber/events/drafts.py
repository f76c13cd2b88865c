"""An event, and an event in the making, as `TypedDict`s."""

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
    key: NotRequired[Annotated[str, Keyword("minLength", 1), Keyword("maxLength", 200)]]


class Event(Draft):
    """One immutable fact. `event_id` counts from 1 without gaps and is the only order."""

    schema_version: _Number
    event_id: _Number
    timestamp: Timestamp
    run_id: str
