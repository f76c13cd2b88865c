"""A session's summary, as `TypedDict`s: as given, as faber stores it, and as it is read."""

from typing import Annotated, NotRequired, TypedDict

from faber.events.shapes import Keyword, extensible

_Count = Annotated[int, Keyword("minimum", 0)]
_Number = Annotated[int, Keyword("minimum", 1)]
_Line = Annotated[str, Keyword("minLength", 1), Keyword("maxLength", 1000)]
_Decision = Annotated[str, Keyword("minLength", 1), Keyword("maxLength", 500)]
_Lines = Annotated[list[_Line], Keyword("maxItems", 200)]


class GivenParts(TypedDict, total=False):
    """The parts of a summary as a person or an agent gives them."""

    accomplished: _Lines
    decisions: Annotated[
        list[Annotated[str, Keyword("minLength", 1), Keyword("maxLength", 500)]], Keyword("maxItems", 200)
    ]
    files_changed: Annotated[list[_Line], Keyword("maxItems", 5000)]
    remaining_phases: _Lines
    context_notes: Annotated[str | None, Keyword("maxLength", 8000)]


class GivenSummary(TypedDict):
    """The input of `faber session save`."""

    session_id: NotRequired[Annotated[str, Keyword("minLength", 1), Keyword("maxLength", 200)]]
    phase_completed: NotRequired[Annotated[str | None, Keyword("maxLength", 200)]]
    summary: GivenParts


@extensible()
class SummaryParts(TypedDict):
    """The parts of a stored summary; other tools may have written more."""

    accomplished: list[str]
    decisions: list[str]
    files_changed: list[str]
    remaining_phases: list[str]
    context_notes: str | None


class CheckedSummary(TypedDict):
    """A given summary, complete and checked."""

    session_id: str | None
    phase_completed: str | None
    summary: SummaryParts


class StoredSummary(TypedDict):
    """session-summaries/session-<time>.json: what one session passes to the next (context reconstitution 0.4.5)."""

    schema_version: _Number
    session_id: str
    sequence: _Number
    timestamp: str
    phase_completed: str | None
    head_commit: str | None
    after_event_id: _Count
    summary: SummaryParts
