"""Finds the run that a person names: by its id, a unique part of it, or `latest`."""

from itertools import islice
from typing import NoReturn

from faber.errors import AmbiguousRun, RunNotFound
from faber.foreign.open_run import open_run
from faber.foreign.run_rows import active_runs
from faber.model.ids import check_run_id, is_run_id
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
        run_id=text,
        known_runs=len(known),
    )


def open_named(layout: Layout, text: str) -> Run:
    """The run that `text` refers to, loaded once. Raises what `resolve` and `open_run` raise."""
    return latest(layout) if text == LATEST else open_run(layout, resolve(layout, text))


def latest(layout: Layout) -> Run:
    """The first of the active runs; `RunNotFound` if there is none."""
    return next(active_runs(layout), None) or _none()


def only(layout: Layout) -> Run:
    """The one run that `latest` can mean. Raises `AmbiguousRun` if several are active, and `RunNotFound`."""
    runs = open_runs(layout)
    if len(runs) > 1:
        raise AmbiguousRun(
            "Several runs are open, and none was named.",
            candidates=[run.run_id for run in runs],
            recovery="Name the run: the command takes its id, or a unique part of it.",
        )
    return runs[0] if runs else _none()


def open_runs(layout: Layout) -> list[Run]:
    """At most `MOST` runs that `latest` could mean, the most recently active first."""
    return list(islice(active_runs(layout), MOST))


def _none() -> NoReturn:
    raise RunNotFound("There is no active run.", run_id=LATEST)
