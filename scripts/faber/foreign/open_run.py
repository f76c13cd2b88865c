"""Reads any run, whichever tool made it."""

from faber.store.layout import Layout
from faber.store.load import ForeignFiles, Run, look


def open_run(layout: Layout, run_id: str) -> Run:
    """Read a run: one of faber's own, or a normalised view of another tool's run.

    Raises what `store.load.load` raises, but never `ForeignRun`.
    """
    found = look(layout, run_id)
    if not isinstance(found, ForeignFiles):
        return found
    from faber.foreign.normalise import normalise

    view = normalise(layout, run_id, found)
    return Run(layout, run_id, found.directory, view.metadata, view.plan, view.state, True, 0, view.notices)
