"""Finds the run that a person names: by its id, its work item, a unique part of its id, or `latest`."""

from itertools import islice
from typing import NoReturn

from faber.errors import AmbiguousRun, RunNotFound
from faber.foreign.open_run import open_run
from faber.foreign.run_rows import active_runs, open_for
from faber.model.ids import check_run_id, check_work_id, is_run_id, looks_like_work_id
from faber.store.layout import Layout
from faber.store.load import Run

LATEST = "latest"
MOST = 20  # candidates of an error


def resolve(layout: Layout, text: str) -> str:
    """The run id that `text` refers to.

    Raises `InvalidRunId`, `RunNotFound`, and `AmbiguousRun` with the candidates. An exact id is
    found without looking at any other run.
    """
    if text == LATEST:
        return latest(layout).run_id
    if is_run_id(text) and layout.find_run_dir(text):
        return text
    if looks_like_work_id(text) and (found := _for_work_item(layout, check_work_id(text))):
        return found
    check_run_id(text)
    known = layout.run_ids()
    matches = [run_id for run_id in known if text in run_id]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise AmbiguousRun(
            f"{text!a} matches {len(matches)} runs.", candidates=matches[:MOST], candidates_total=len(matches)
        )
    raise RunNotFound(
        f"Run directory not found: {layout.run_dir(text)}.",
        recovery=_elsewhere(layout) if not known else None,
        run_id=text,
        known_runs=len(known),
    )


def _for_work_item(layout: Layout, work_id: str) -> str | None:
    """The one open run for a work item; `AmbiguousRun` if there are several."""
    found = [run.run_id for run in open_for(layout, work_id, "")]
    if len(found) > 1:
        raise AmbiguousRun(
            f"{len(found)} runs are open for work item {work_id}.", candidates=found[:MOST], candidates_total=len(found)
        )
    return found[0] if found else None


def open_named(layout: Layout, text: str) -> Run:
    """The run that `text` refers to, loaded once. Raises what `resolve` and `open_run` raise."""
    return latest(layout) if text == LATEST else open_run(layout, resolve(layout, text))


def latest(layout: Layout) -> Run:
    """The first of the active runs; `RunNotFound` if there is none."""
    return next(active_runs(layout), None) or _none(layout)


def only(layout: Layout) -> Run:
    """The one run that `latest` can mean. Raises `AmbiguousRun` if several are active, and `RunNotFound`."""
    runs = open_runs(layout)
    if len(runs) > 1:
        raise AmbiguousRun(
            "Several runs are open, and none was named.",
            candidates=[run.run_id for run in runs],
            recovery="Name the run: the command takes its id, or a unique part of it.",
        )
    return runs[0] if runs else _none(layout)


def open_runs(layout: Layout) -> list[Run]:
    """At most `MOST` runs that `latest` could mean, the most recently active first."""
    return list(islice(active_runs(layout), MOST))


def _none(layout: Layout) -> NoReturn:
    recovery = None if layout.run_ids() else _elsewhere(layout)
    raise RunNotFound("There is no active run.", recovery=recovery, run_id=LATEST)


def _elsewhere(layout: Layout) -> str | None:
    """What to do where there is no run at all: a clone has none of the runs that other machines pushed."""
    from faber.git.repository import has_remote  # only in an error

    if not has_remote(layout.root):
        return None
    return "No run is here. `faber sync pull --all` fetches those on the remote; `faber run init` starts a new one."
