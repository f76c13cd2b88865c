"""What a command says of its event when a write is refused: the truth, so that nothing is recorded twice."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from faber.events.drafts import Draft
from faber.model import acceptance, commands
from faber.store import log
from faber.store.commit import commit
from faber.store.create import NewRun, create_run
from faber.store.layout import Layout
from faber.store.load import load
from faber.store.store_errors import StoreUnwritable

PLAN: Any = {
    "schema_version": 1,
    "workflow_id": "w",
    "phases": [{"id": "a", "name": "a", "steps": [{"id": "s", "name": "s"}]}],
}
SAID: Draft = {"type": "docs_update", "message": "Once"}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A store with the run `r`."""
    made = Layout(str(tmp_path))
    create_run(made, NewRun("r", PLAN, None, None, "guarded", "test"))
    commit(made, "r", lambda state, plan: commands.start_step(state, plan, "a", "s"))
    return made


def full_at(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Make the disk full whenever a file of that name would appear."""
    real = os.replace

    def replace(source: str, target: str) -> None:
        if os.path.basename(target).endswith(name):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize(
    ("file", "there"), [("docs_update.json", False), ("state.json", True)], ids=["at the event", "at the state"]
)
def test_a_full_disk_says_whether_the_event_is_there(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, file: str, there: bool, key: str | None
) -> None:
    """`committed` is true exactly if the event is in the log; whoever follows it records it once."""
    before = load(layout, "r").state["last_event_id"]
    with monkeypatch.context() as patched:
        full_at(patched, file)
        with pytest.raises(StoreUnwritable) as refused:
            commit(layout, "r", lambda state, plan: acceptance.emit(state, plan, SAID), key=key)
    error = refused.value
    assert (error.fields["committed"], error.fields["recorded"]) == (there, [before + 1] if there else [])
    assert ("do not repeat" in error.recovery) == (there and key is None)
    if not there or key is not None:
        commit(layout, "r", lambda state, plan: acceptance.emit(state, plan, SAID), key=key)
    entries = [entry.type for entry in log.listing(layout.run_dir("r"))]
    assert entries.count("docs_update") == 1
    assert load(layout, "r").state["last_event_id"] == before + 1


def test_a_consequence_that_is_refused_does_not_hide_the_step(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step whose phase could not be completed with it is recorded; the next command completes the phase."""
    with monkeypatch.context() as patched:
        full_at(patched, "phase_complete.json")
        with pytest.raises(StoreUnwritable) as refused:
            commit(layout, "r", lambda state, plan: commands.complete_step(state, plan, "a", "s", None, []))
    assert refused.value.fields["committed"] is True
    commit(layout, "r", lambda state, plan: acceptance.emit(state, plan, SAID))
    types = [entry.type for entry in log.listing(layout.run_dir("r"))]
    assert types.count("step_complete") == types.count("phase_complete") == 1
