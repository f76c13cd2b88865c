"""The nebula in state.json, as `TypedDict`s; the other documents are in `model/documents.py`."""

from typing import Annotated, Literal, NotRequired, TypedDict

from faber.events.shapes import Keyword

NebulaStatus = Literal["pending", "created", "in_progress", "done", "failed", "skipped", "decomposed"]
NEBULA_STATUSES: tuple[NebulaStatus, ...] = (
    "pending",
    "created",
    "in_progress",
    "done",
    "failed",
    "skipped",
    "decomposed",
)
Stage = Literal["coding", "filtering", "reviewing", "review_complete", "approved", "merged"]

_Count = Annotated[int, Keyword("minimum", 0)]
_Dollars = Annotated[float, Keyword("minimum", 0)]
_Line = Annotated[str, Keyword("maxLength", 200)]


class NebulaPhase(TypedDict):
    """One phase of a nebula. A missing key means 0 or none: a state can hold thousands of phases."""

    status: NebulaStatus
    # The first digits of a hash of the phase file that the run uses.
    digest: NotRequired[Annotated[str, Keyword("maxLength", 64)]]
    started_at: NotRequired[str]
    ended_at: NotRequired[str]
    # The number of the newest cycle, and how many are complete.
    cycle: NotRequired[_Count]
    cycles_done: NotRequired[_Count]
    stage: NotRequired[Stage]
    # US dollars and turns of all its agents.
    cost: NotRequired[_Dollars]
    turns: NotRequired[_Count]
    # Their tokens by the names of the Messages API, and the calls of tools that they were denied; `denied` names those
    # of the last turn that had any.
    tokens: NotRequired[dict[str, _Count]]
    denials: NotRequired[_Count]
    denied: NotRequired[list[Annotated[str, Keyword("maxLength", 160)]]]
    branch: NotRequired[str]
    # The commit its branch starts from, the newest of its own, and the merge.
    base: NotRequired[str]
    commit: NotRequired[str]
    merged: NotRequired[str]
    # How many findings are open after the last review.
    findings: NotRequired[_Count]
    failing_filter: NotRequired[_Line]
    reason: NotRequired[_Line]
    report: NotRequired[Annotated[str, Keyword("maxLength", 160)]]
    heal_attempts: NotRequired[_Count]
    # The kind of failure as healing classified it; the progress of healing; why it was not healed.
    failure: NotRequired[_Line]
    healing: NotRequired[Literal["started", "planned"]]
    not_healed: NotRequired[_Line]
    # The phase that remedies this one, and the phase that this one remedies.
    remediation: NotRequired[str]
    remedies: NotRequired[str]
    # The request id of a question to a person about it, and the commit the question was about.
    asked: NotRequired[str]
    asked_commit: NotRequired[str]
    # The id of the event that last changed it.
    event: NotRequired[Annotated[int, Keyword("minimum", 1)]]


class NebulaSpent(TypedDict):
    """What a nebula's run has spent: US dollars, how many of them on healing, the turns of agents, and their tokens by
    the names of the Messages API. `unpriced` turns cost dollars that nobody knows."""

    cost: _Dollars
    healing_cost: _Dollars
    turns: _Count
    unpriced: NotRequired[_Count]
    tokens: NotRequired[dict[str, _Count]]


class NebulaState(TypedDict):
    """A nebula in the state of its run: name, directory, branches, and phases by id."""

    name: _Line
    directory: str | None
    base_branch: str | None
    base_commit: str | None
    branch: str | None
    landed: str | None
    spent: NebulaSpent
    phases: dict[str, NebulaPhase]
