"""Events that are lost: named, never answered with a reset, and left behind only by a person."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from faber.context.recent_work import never_shown, recent_events
from faber.errors import FaberError, Notice
from faber.events.drafts import Draft
from faber.foreign.open_run import open_run
from faber.model import acceptance, commands
from faber.repair.doctor import examine_run
from faber.repair.repair import repair_run
from faber.store import log, strict_json
from faber.store.appending import Writer
from faber.store.commit import commit
from faber.store.create import NewRun, create_run
from faber.store.layout import Layout
from faber.store.load import load, read_frame, refold
from faber.store.sessions import check_summary, history, save_summary
from faber.store.store_errors import DamageUnrepairable, NewerSchema, StoreUnwritable
from support.copies import copy_tree
from support.logs import change_event

RUN = "acme/shop/1"
PERSON = Writer(None, "person")
PLAN: Any = {
    "schema_version": 1,
    "workflow_id": "w",
    "phases": [
        {"id": name, "name": name, "steps": [{"id": "s", "name": "s"}, {"id": "t", "name": "t"}]} for name in "abc"
    ],
}
SAID: Draft = {"type": "decision_point", "message": "Keep it"}
STEPS = [("a", "s"), ("a", "t"), ("b", "s"), ("b", "t")]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a run of 22 events whose first two phases are complete, and a summary in its middle."""
    root = tmp_path_factory.mktemp("lost")
    layout = Layout(str(root))
    create_run(layout, NewRun(RUN, PLAN, None, "Shop", "guarded", "test"))
    for phase, step in STEPS:
        commit(layout, RUN, lambda state, plan: commands.start_step(state, plan, phase, step))  # noqa: B023
        commit(layout, RUN, lambda state, plan: commands.complete_step(state, plan, phase, step, None, []))  # noqa: B023
    save_summary(layout, RUN, check_summary({"accomplished": ["Two phases"]}), head_commit=None)
    while load(layout, RUN).state["last_event_id"] < 22:
        commit(layout, RUN, lambda state, plan: acceptance.emit(state, plan, SAID), key=os.urandom(4).hex())
    return root


@pytest.fixture
def layout(made: Path, tmp_path: Path) -> Layout:
    """A copy of it to damage."""
    return Layout(str(copy_tree(made, tmp_path / "store")))


def run_dir(layout: Layout) -> Path:
    """The run's directory."""
    return Path(layout.run_dir(RUN))


def event(layout: Layout, number: int) -> Path:
    """The file of an event."""
    return next((run_dir(layout) / "events").glob(f"{number:06d}-*"))


def found(layout: Layout) -> dict[str, Notice]:
    """What the doctor says, by code; the last of each."""
    return {finding.code: finding for finding in examine_run(layout, RUN, open_run)}


def is_red(layout: Layout) -> bool:
    """True if `faber doctor` would fail."""
    return any(finding.severity.value in ("CRITICAL", "ERROR") for finding in examine_run(layout, RUN, open_run))


def files(layout: Layout) -> dict[str, bytes]:
    """Every file of the run but its lock."""
    return {
        str(path): path.read_bytes() for path in run_dir(layout).rglob("*") if path.is_file() and path.name != "lock"
    }


def cut(layout: Layout, keep: int) -> None:
    """Lose the events after `keep`."""
    for number in range(keep + 1, 23):
        event(layout, number).unlink()


def flip(path: Path) -> None:
    """Change a letter of an event's text."""
    path.write_bytes(path.read_bytes().replace(b"complete", b"complets").replace(b"Keep", b"Reep"))


LOSSES: dict[str, tuple[Callable[[Layout], object], str, str, list[tuple[int, int]]]] = {
    "the last": (lambda x: cut(x, 21), "event_gap", "Event 22 is missing", [(22, 22)]),
    "at the end": (lambda x: cut(x, 15), "event_gap", "Events 16 to 22 are missing", [(16, 22)]),
    "all": (lambda x: cut(x, 0), "event_gap", "Events 1 to 22 are missing", [(1, 22)]),
    "the directory": (lambda x: shutil.rmtree(run_dir(x) / "events"), "event_gap", "Events 1 to 22 are", [(1, 22)]),
    "the first": (lambda x: event(x, 1).unlink(), "event_gap", "Event 1 is missing", [(1, 1)]),
    "in the middle": (lambda x: event(x, 9).unlink(), "event_gap", "Event 9 is missing", [(9, 9)]),
    "a flipped byte": (lambda x: flip(event(x, 22)), "event_unreadable", "does not match its checksum", [(22, 22)]),
    "another run's": (lambda x: change_event(event(x, 5), run_id="x"), "event_of_other_run", "run 'x'", [(5, 5)]),
    "one there twice": (
        lambda x: shutil.copy(event(x, 4), event(x, 4).with_name("000004-docs_update.json")),
        "duplicate_event",
        "Event 4 exists 2 times",
        [(4, 4)],
    ),
    "an edited plan": (
        lambda x: (run_dir(x) / "plan.json").write_text(json.dumps({**PLAN, "description": "less"})),
        "plan_differs",
        "not the plan",
        [],
    ),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_is_never_a_reset(layout: Layout, loss: str) -> None:
    """The doctor names it, repair changes nothing, and a person who accepts it keeps all that state.json knew."""
    before = load(layout, RUN).state
    state = (run_dir(layout) / "state.json").read_bytes()
    inflict, code, message, numbers = LOSSES[loss]
    inflict(layout)
    said = found(layout)[code]
    assert message in said.message
    assert "--accept-loss" in said.recovery
    damaged = files(layout)
    with pytest.raises(DamageUnrepairable) as refused:
        repair_run(layout, RUN)
    assert code in {loss["code"] for loss in refused.value.fields["losses"]}
    assert files(layout) == damaged
    assert is_red(layout)

    done = repair_run(layout, RUN, accept_loss=PERSON)
    assert done["lost"] == numbers
    assert (run_dir(layout) / str(done["kept"])).read_bytes() == state
    assert not is_red(layout)
    assert found(layout)["loss_accepted"].message.startswith(("Event", "The first plan"))
    run = load(layout, RUN)
    own = {"recent_events", "last_event_id", "updated_at"}
    assert {key: value for key, value in run.state.items() if key not in own} == {
        key: value for key, value in before.items() if key not in own
    }
    assert run.state["last_event_id"] == 23
    newest = log.read_event(run.directory, event(layout, 23).name)
    assert (newest["type"], newest["actor"]) == ("loss_accepted", "person")
    # The run continues, and its state is the fold of its events.
    commit(layout, RUN, lambda state, plan: commands.start_step(state, plan, "c", "s"))
    run = load(layout, RUN)
    assert run.state == refold(run.directory, run.metadata, run.plan)
    assert repair_run(layout, RUN)["actions"] == []


def test_a_context_counts_the_events_that_are_there(layout: Layout) -> None:
    """Of a log that an accepted loss left short, no event that is lost counts as left out of the context."""
    cut(layout, 3)
    repair_run(layout, RUN, accept_loss=PERSON)
    run = load(layout, RUN)
    shown, there = len(recent_events(run, [])), len(log.listing(run.directory))
    assert shown < there == 4
    assert [(each["kept"], each["of"]) for each in never_shown(run, shown)] == [(shown, there)]
    assert never_shown(run, there) == []


def test_what_is_kept_stays_with_the_damage(layout: Layout) -> None:
    """A file that was not trusted is in damaged/, and a summary whose event is lost is marked."""
    flip(event(layout, 22))
    bad = event(layout, 22).read_bytes()
    number = next(entry.event_id for entry in log.listing(str(run_dir(layout))) if entry.type == "session_end")
    event(layout, number).unlink()
    (moved,) = repair_run(layout, RUN, accept_loss=PERSON)["moved"]
    assert Path(moved).read_bytes() == bad
    assert "summary_without_event" in found(layout)
    (summary,), (notice,) = history(load(layout, RUN))
    assert summary["unrecorded"] is True
    assert notice.code == "session_unrecorded"


@pytest.mark.parametrize("state", ["", "{", None])
def test_without_a_state_the_summaries_know_of_lost_events(layout: Layout, state: str | None) -> None:
    """If state.json is lost too, summaries and keys say that there were events; a new run is not made of nothing."""
    cut(layout, 0)
    path = run_dir(layout) / "state.json"
    path.unlink() if state is None else path.write_text(state)
    assert "event_gap" in found(layout)
    with pytest.raises(DamageUnrepairable):
        repair_run(layout, RUN)
    assert repair_run(layout, RUN, accept_loss=PERSON)["kept"] is None
    assert not is_red(layout)


def test_a_hole_without_a_state_cannot_be_accepted(layout: Layout) -> None:
    """With state.json lost and an event missing in the middle nothing says what the state was."""
    event(layout, 9).unlink()
    (run_dir(layout) / "state.json").write_text("{")
    damaged = files(layout)
    with pytest.raises(DamageUnrepairable):
        repair_run(layout, RUN, accept_loss=PERSON)
    assert files(layout) == damaged


def test_a_state_behind_the_damage_is_brought_up_to_it(layout: Layout) -> None:
    """Events that state.json lacks are folded up to the first that is lost."""
    metadata, plan = read_frame(str(run_dir(layout)), RUN)
    behind = refold(str(run_dir(layout)), metadata, plan, last=20)
    (run_dir(layout) / "state.json").write_bytes(strict_json.dumps(behind))
    flip(event(layout, 22))
    assert repair_run(layout, RUN, accept_loss=PERSON)["lost"] == [(22, 22)]
    assert len(load(layout, RUN).state["decisions"]) == len(behind["decisions"]) + 1
    assert not is_red(layout)


def test_a_state_of_another_version_does_not_hide_a_loss(layout: Layout) -> None:
    """A state that has to be folded again, from a log that has lost events, is an error and not the shorter fold."""
    path = run_dir(layout) / "state.json"
    state = json.loads(path.read_text())
    path.write_text(json.dumps({**state, "reducer_version": state["reducer_version"] - 1}))
    assert load(layout, RUN).state["last_event_id"] == 22
    event(layout, 22).unlink()
    with pytest.raises(FaberError, match="counts 22 events"):
        load(layout, RUN)
    event(layout, 9).unlink()
    with pytest.raises(FaberError, match="Event 9 of run"):
        load(layout, RUN)


@pytest.mark.parametrize("call", range(24))
def test_accepting_a_loss_can_be_interrupted(layout: Layout, monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    """Stopped before any change of the store, the loss is still named, and accepting it again completes it."""
    flip(event(layout, 22))
    event(layout, 9).unlink()
    left = call

    def counted(name: str) -> None:
        real = getattr(os, name)

        def made(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(errno.EIO, "stopped")
            return real(*arguments, **options)

        monkeypatch.setattr(os, name, made)

    with monkeypatch.context():
        for name in ("replace", "link", "fsync", "mkdir"):
            counted(name)
        with suppress(StoreUnwritable):
            repair_run(layout, RUN, accept_loss=PERSON)
        monkeypatch.undo()
    if left < 0 and not list((run_dir(layout) / "events").glob("*-loss_accepted.json")):
        assert is_red(layout)
    repair_run(layout, RUN, accept_loss=PERSON)
    assert not is_red(layout)
    assert len(list((run_dir(layout) / "events").glob("*-loss_accepted.json"))) == 1
    assert load(layout, RUN).state["phases"]["b"]["status"] == "completed"


@pytest.mark.parametrize("newer", ["state.json", "metadata.json", "plan.json", "an event"])
def test_repair_never_rewrites_a_newer_run(layout: Layout, newer: str) -> None:
    """What a newer faber wrote is left byte for byte as it is, also if something beside it is damaged."""
    if newer == "an event":
        change_event(event(layout, 22), schema_version=99)
    else:
        path = run_dir(layout) / newer
        path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 99}))
    next((run_dir(layout) / "session-summaries").iterdir()).unlink()
    before = files(layout)
    with pytest.raises(NewerSchema):
        repair_run(layout, RUN, accept_loss=PERSON)
    assert files(layout) == before


def test_a_log_of_an_earlier_version_stays_readable(layout: Layout) -> None:
    """Events without checksum and without the plan's digest are in order, and repaired like any other."""
    for path in (run_dir(layout) / "events").iterdir():
        value = log.decode(path.read_bytes())
        value.pop("plan_digest", None)
        path.write_text(json.dumps(value))
    assert examine_run(layout, RUN, open_run) == []
    good = (run_dir(layout) / "state.json").read_bytes()
    (run_dir(layout) / "state.json").write_text("{")
    repair_run(layout, RUN)
    assert (run_dir(layout) / "state.json").read_bytes() == good


def test_reading_a_log_says_how_far_it_is(layout: Layout) -> None:
    """Doctor and repair tell how many events of how many they have read."""
    told: list[tuple[int, int]] = []
    examine_run(layout, RUN, open_run, lambda done, total: told.append((done, total)))
    repair_run(layout, RUN, progress=lambda done, total: told.append((done, total)))
    assert told == [(0, 22), (0, 22)]
