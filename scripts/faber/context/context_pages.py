"""One part of a context alone and whole, in pages of a bounded size."""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NotRequired, TypedDict, cast

from faber.context.assemble import context_warning
from faber.context.context_budget import items_of, size, squeeze
from faber.context.context_document import ContextWarning
from faber.context.context_sources import ContextSources
from faber.context.past_failure import overcome_errors
from faber.context.recent_work import shown, step_messages
from faber.errors import UsageError
from faber.events.drafts import Event
from faber.events.event_types import DECISION_POINT
from faber.foreign.foreign_events import read_events
from faber.store import log
from faber.store.sessions import history
from faber.text.program_word import command
from faber.text.safe_text import redact_json

# What stands on every page is short: the part's description, and the first warnings; the context has them all.
_FRAME_CHARS = 200
_WARNINGS = 3
# Room on a page for the larger numbers of a later one.
_SLACK = 20
# Characters on a page for one event, which is usually much shorter.
_AN_EVENT = 400
_EVENT_CHARS = (2_000, 500, 150, 60)
_EVENT_KEYS = ("event_id", "type", "timestamp", "phase", "step", "status", "message")
# A value that stands in every piece of a divided item.
_SMALL = 100


class ContextPage(TypedDict):
    """One page of a part. `about` describes the whole part; `next_command` is for the next page, null on the last."""

    run_id: str
    part: str
    page: int
    pages: int
    items_total: int
    about: Mapping[str, object]
    items: Sequence[object]
    next_command: str | None
    warnings: list[ContextWarning]
    untrusted: NotRequired[bool]


class NoSuchPage(UsageError):
    """The part has fewer pages."""

    code = "no_such_page"
    recovery = "Name one of its pages."


def part_page(sources: ContextSources, part: str, page: int, max_chars: int | None, program: str) -> ContextPage:
    """Page `page` (from 1) of a part of a run, in a line of `max_chars` characters (None: everything on one page).

    An item that is longer than a page is divided; only events are shortened. `program` is how `next_command` calls
    faber. Raises `NoSuchPage`.
    """
    content = READERS[part](sources)
    again = command(f"faber context {sources.run.run_id} --part {part} --page {page + 1}", program)
    warnings = [context_warning(notice) for notice in sources.notices if notice.severity != "INFO"]
    made: ContextPage = {
        "run_id": sources.run.run_id,
        "part": part,
        "page": page,
        "pages": page,
        "items_total": len(content.items),
        "about": redact_json(squeeze(content.about, _FRAME_CHARS)),
        "items": [],
        "next_command": again,
        "warnings": redact_json(squeeze(warnings[:_WARNINGS], _FRAME_CHARS)),
    }
    if part == "issue":
        made["untrusted"] = True
    room = max_chars - size(made) - _SLACK if max_chars else None
    pages = content.paged(room)
    if page > len(pages):
        raise NoSuchPage(f"{part} has {len(pages)} page(s).", pages=len(pages))
    made["pages"] = len(pages)
    made["items"] = content.shown(pages[page - 1], room)
    made["next_command"] = again if page < len(pages) else None
    return made


# --- pages -----------------------------------------------------------------------------------------


class PartContent:
    """All of a part: what describes it, and its items in order."""

    def __init__(self, about: Mapping[str, object], items: Sequence[Any]) -> None:
        self.about, self.items = about, items

    def paged(self, room: int | None) -> list[list[Any]]:
        """The items in pages of at most `room` characters (None: one page); at least one page."""
        pages: list[list[Any]] = [[]]
        used = 0
        for piece in (piece for item in redact_json(self.items) for piece in pieces(item, room)):
            length = size(piece) + 1
            if room is not None and used + length > room and pages[-1]:
                pages.append([])
                used = 0
            pages[-1].append(piece)
            used += length
        return pages

    def shown(self, items: list[Any], room: int | None) -> list[Any]:
        """The items of a page as they are printed."""
        return items


class _Log(PartContent):
    """The events, of which only those of one page are read; the newest are on the first."""

    def __init__(self, directory: str) -> None:
        super().__init__({}, log.listing(directory))
        self.directory = directory

    def paged(self, room: int | None) -> list[list[Any]]:
        each = max(1, room // _AN_EVENT) if room is not None else max(1, len(self.items))
        ends = range(len(self.items), 0, -each)
        return [list(self.items[max(0, end - each) : end]) for end in ends] or [[]]

    def shown(self, items: list[Any], room: int | None) -> list[Any]:
        read = redact_json([shown(event) for event in read_events(self.directory, items).events])
        for limit in _EVENT_CHARS:
            if room is None or size(read) <= room:
                return cast(list[Any], read)
            read = squeeze(read, limit)
        return [{key: event[key] for key in _EVENT_KEYS if key in event} for event in read]


def pieces(item: Any, room: int | None) -> list[Any]:
    """An item in as many pieces as it takes for each to have at most `room` characters.

    A text is divided anywhere, a list between its entries, an object in its longest value.
    """
    halves = None if room is None or size(item) <= room else _halves(item)
    return [item] if halves is None else [piece for half in halves for piece in pieces(half, room)]


def _halves(item: Any) -> tuple[Any, Any] | None:
    """The item in two; None for what cannot be divided."""
    if isinstance(item, dict) and item:
        name = max(item, key=lambda key: size(item[key]))
        divided = _halves(item[name]) if size(item[name]) > _SMALL else None
        if divided is not None:
            again = {key: value for key, value in item.items() if size(value) <= _SMALL}
            return {**item, name: divided[0]}, {**again, name: divided[1]}
    if not isinstance(item, str | list | dict) or len(item) < 2:
        inner = _halves(item[0]) if isinstance(item, list) and item else None
        return ([inner[0]], [inner[1]]) if inner is not None else None
    middle = len(item) // 2
    if isinstance(item, dict):
        entries = list(item.items())
        return dict(entries[:middle]), dict(entries[middle:])
    return item[:middle], item[middle:]


# --- parts -----------------------------------------------------------------------------------------


def _specification(sources: ContextSources) -> PartContent:
    spec: Any = sources.specification() or {}
    about = {key: spec[key] for key in ("path", "title", "type", "status") if key in spec}
    return PartContent(about, [text.rstrip() for text in items_of(spec.get("content") or "") if text.strip()])


def _issue(sources: ContextSources) -> PartContent:
    issue: Any = dict(sources.issue() or {})
    longer = {"description", "labels", "comments", "untrusted"}
    about = {key: value for key, value in issue.items() if key not in longer}
    head = {key: issue[key] for key in ("labels", "description") if issue.get(key)}
    return PartContent(about, [*([head] if head else []), *({"comment": each} for each in issue.get("comments") or ())])


def _branch(sources: ContextSources) -> PartContent:
    sessions = history(sources.run).summaries
    branch: Any = dict(sources.branch(sources.begin_branch(sessions[-1] if sessions else None)) or {})
    lists = ("commits", "commits_since_session", "files_changed", "dirty_files")
    about = {key: value for key, value in branch.items() if key not in lists}
    return PartContent(about, [{key: each} for key in lists for each in branch.get(key) or ()])


def _sessions(sources: ContextSources) -> PartContent:
    found = history(sources.run)
    sources.notices += found.notices
    return PartContent({}, found.summaries)


def _decisions(sources: ContextSources) -> PartContent:
    run = sources.run
    if run.state["decisions_total"] <= len(run.state["decisions"]):
        return PartContent({}, run.state["decisions"])
    found = read_events(run.directory, [entry for entry in log.listing(run.directory) if entry.type == DECISION_POINT])
    sources.notices += found.notices
    logged = {event["event_id"] for event in found.events}
    lost = [entry for entry in run.state["decisions"] if entry["event_id"] not in logged]  # the state still knows them
    every: list[Any] = [*map(_decision, found.events), *lost]
    return PartContent({}, sorted(every, key=itemgetter("event_id")))


def _decision(event: Event) -> dict[str, object]:
    names = {"event_id": "event_id", "decision": "message", "phase": "phase", "step": "step", "at": "timestamp"}
    return {name: event.get(key) for name, key in names.items()}


def _errors(sources: ContextSources) -> PartContent:
    overcome = [{**error, "overcome": True} for error in overcome_errors(sources.run)]
    return PartContent({}, [*overcome, *sources.run.state["errors"]])


READERS: dict[str, Callable[[ContextSources], PartContent]] = {
    "spec": _specification,
    "issue": _issue,
    "events": lambda sources: _Log(sources.run.directory),
    "sessions": _sessions,
    "decisions": _decisions,
    "branch": _branch,
    "errors": _errors,
    "steps": lambda sources: PartContent({}, step_messages(sources.run.state)),
}
