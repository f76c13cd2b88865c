"""The runs of nebulas that left something in a repository, and what of it may be removed."""

import os
from collections.abc import Iterator
from typing import NamedTuple

from faber.errors import FaberError
from faber.foreign.open_run import open_run
from faber.git.programs import Git
from faber.model.documents import CLOSED, State, nebula_of, nebula_phases
from faber.model.ids import is_run_id
from faber.nebula.plan.names import Names, names_of, part
from faber.store.layout import Layout

_MERGED = "refs/faber/merged/"
_CLAIMS = ".claims"


class LeftRun(NamedTuple):
    """A run that may have left something. `busy` are the phases in progress, as parts of refs; `closed`: nobody can
    resume it; `merged` are the phases that were merged. `problem` says why nothing is known about it."""

    names: Names
    busy: frozenset[str] = frozenset()
    closed: bool = True
    merged: frozenset[str] = frozenset()
    problem: str = ""


def left_runs(layout: Layout, git: Git, nebula: str | None = None) -> list[LeftRun]:
    """The runs with worktrees in this store, or with merges in this repository; with `nebula` only those of the nebula
    with that name."""
    refs = git.line("for-each-ref", "--format=%(refname)", _MERGED, "refs/heads/faber/").splitlines()
    run_ids = {ref.removeprefix(_MERGED).rpartition("/")[0] for ref in refs if ref.startswith(_MERGED)}
    run_ids |= set(_with_worktrees(layout.worktrees))
    branches = [ref.split("/") for ref in refs if not ref.startswith(_MERGED)]
    slugs = {words[4]: words[3] for words in branches if len(words) > 5}
    found = [_look(layout, run_id, slugs) for run_id in sorted(run_ids) if is_run_id(run_id)]
    return [run for run in found if nebula is None or run.names.nebula == part(nebula)]


def _look(layout: Layout, run_id: str, slugs: dict[str, str]) -> LeftRun:
    names = names_of("nebula", run_id)
    names = names._replace(nebula=slugs.get(names.short, names.nebula))
    try:
        state: State | None = open_run(layout, run_id).state if layout.find_run_dir(run_id) else None
    except FaberError as error:
        return LeftRun(names, problem=error.message)
    nebula = nebula_of(state) if state is not None else None
    if state is None or nebula is None:
        return LeftRun(names)
    phases = nebula_phases(state)
    return LeftRun(
        names._replace(nebula=str(nebula["branch"] or names.prefix).split("/")[1]),
        busy=frozenset(part(name) for name, phase in phases.items() if phase["status"] == "in_progress"),
        closed=state["status"] in CLOSED,
        merged=frozenset(
            part(name) for name, phase in phases.items() if phase["status"] == "done" and "merged" in phase
        ),
    )


def _with_worktrees(top: str) -> Iterator[str]:
    for directory, inner, _ in os.walk(top):
        if _CLAIMS in inner:
            inner.clear()
            yield os.path.relpath(directory, top).replace(os.sep, "/")
        inner[:] = [name for name in inner if not name.startswith(".")]
