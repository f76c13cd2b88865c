"""What a report is made of: the view and the record of a run, its whole log, and what files and git add to them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from faber.errors import Notice
from faber.events.drafts import Event
from faber.view.causes import Spending, spending_of
from faber.view.run_record import RunRecord
from faber.view.run_view import RunView
from faber.view.timeline import Timeline, timeline_of


class CommitFiles(NamedTuple):
    """What git knows of a commit: its subject, and its files as (letter of the change, path)."""

    subject: str
    files: tuple[tuple[str, str], ...]


class Asked(NamedTuple):
    """What was asked: a title and a longer text, each empty if there is none, and where they are from."""

    title: str
    text: str
    source: str


class RunReport(NamedTuple):
    """Everything that the page shows. `waits_for` are the phases that each phase depends on, `titles` are those of the
    phases; both are empty where the nebula's files are gone. `commits` has those that are in the repository."""

    view: RunView
    record: RunRecord
    events: Sequence[Event]
    timeline: Timeline
    spending: Spending
    asked: Asked
    waits_for: Mapping[str, Sequence[str]]
    titles: Mapping[str, str]
    commits: Mapping[str, CommitFiles]
    notices: Sequence[Notice]
    now: str


def report_of(
    view: RunView, record: RunRecord, events: Sequence[Event], asked: Asked, now: str, **more: object
) -> RunReport:
    """The report of a run; `more` are the fields of `RunReport` that files and git add."""
    until = now if view.worker is not None and not view.worker.ended and view.ended_at is None else view.updated_at
    known: dict[str, object] = {"waits_for": {}, "titles": {}, "commits": {}, "notices": ()} | more
    return RunReport(
        view=view,
        record=record,
        events=events,
        timeline=timeline_of(events, until),
        spending=spending_of(events),
        asked=asked,
        now=now,
        **known,  # type: ignore[arg-type]
    )


def notice_lines(notices: Iterable[Notice]) -> list[str]:
    """Each notice in one line, without repetitions."""
    return list(dict.fromkeys(notice.message for notice in notices))
