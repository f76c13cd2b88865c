"""Reads what a report is made of: the run's log, its work item, its nebula's files, and its commits from git."""

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from faber.errors import FaberError
from faber.foreign.foreign_events import read_events
from faber.git.programs import Git
from faber.git.refs import is_commit
from faber.git.repository import find
from faber.nebula.plan.graph import edges_of
from faber.nebula.plan.nebula_files import load_nebula
from faber.report.facts import Asked, CommitFiles, RunReport, report_of
from faber.sources.work_files import FileWorkItems
from faber.store import log
from faber.store.files import read_json
from faber.store.layout import WORK_ITEM
from faber.store.load import Run
from faber.store.strict_json import InvalidJSON
from faber.view.read_view import read_view
from faber.view.run_record import record_of

MAX_WORK_ITEM = 2 * 1024 * 1024
MOST_COMMITS = 500


class _Planned(NamedTuple):
    """What a nebula's files say."""

    asked: Asked | None
    waits_for: Mapping[str, list[str]]
    titles: Mapping[str, str]


def read_report(run: Run, now: str) -> RunReport:
    """The report of a run at the time `now`. What cannot be read is left out, and named in its notices."""
    events, notices = read_events(run.directory, log.listing(run.directory))
    view = read_view(run, now)
    record = record_of(events, view)
    planned = _planned(run.layout.root, view.directory) if view.nebula else _Planned(None, {}, {})
    return report_of(
        view,
        record,
        events,
        planned.asked or _asked(run),
        now,
        waits_for=planned.waits_for,
        titles=planned.titles,
        commits=commits_of(run.layout.root, (made.sha for made in record.commits)),
        notices=[*run.notices, *notices],
    )


def _asked(run: Run) -> Asked:
    """The work item as it was last fetched, or as the project keeps it in a file; else the target."""
    item: object = None
    try:
        item = read_json(os.path.join(run.directory, WORK_ITEM), MAX_WORK_ITEM)
    except (OSError, InvalidJSON, FaberError):
        pass
    work_id = run.state["work_id"]
    if work_id and item is None:
        try:
            item = FileWorkItems(run.layout.work_items).fetch(work_id)
        except FaberError:
            pass
    title, text = (str(item.get(key) or "") if isinstance(item, dict) else "" for key in ("title", "description"))
    source = f"work item {work_id}" if work_id else ""
    return Asked(title or run.state["target"] or source or run.run_id, text, source)


def _planned(root: str, directory: str | None) -> _Planned:
    """What the files of the nebula in `directory` say now."""
    if not directory:
        return _Planned(None, {}, {})
    try:
        nebula = load_nebula(os.path.join(root, directory)).nebula
    except FaberError:
        return _Planned(None, {}, {})
    text = " ".join([nebula.description, *nebula.context.goals]).strip()
    edges = {name: sorted(needed) for name, needed in edges_of(nebula.phases).items()}
    return _Planned(Asked(nebula.name, text, f"nebula {directory}"), edges, {s.id: s.title for s in nebula.phases})


def commits_of(root: str, wanted: Iterable[str]) -> dict[str, CommitFiles]:
    """The newest of the `wanted` commits that are in the repository around `root`, with their files; of a merge those
    that came with it."""
    names = list(dict.fromkeys(sha for sha in wanted if is_commit(sha)))[-MOST_COMMITS:]
    repository = find(root) if names else None
    if repository is None:
        return {}
    git = Git(repository.top or root, repository.git_directory)
    try:
        there = [sha for sha in git.commits_of(*names) if sha is not None]
        if not there:
            return {}
        asked = ("--no-walk=unsorted", "--diff-merges=first-parent", "--name-status", "-z", "--format=%x01%H %s")
        told = git.run("log", *asked, "--stdin", stdin="\n".join(there), seconds=20.0, limit=8_000_000)
    except FaberError:
        return {}
    return dict(_commit(part) for part in told.out.split("\x01")[1:])


def _commit(told: str) -> tuple[str, CommitFiles]:
    head, *rest = told.replace("\n", "\0").strip("\0").split("\0")
    sha, _, subject = head.partition(" ")
    words, files = iter([word for word in rest if word]), []
    for letter in words:
        path = next(words, "")
        if letter[0] in "RC":
            path = f"{path} → {next(words, '')}"
        files.append((letter[0], path))
    return sha, CommitFiles(subject, tuple(files))
