"""The monitor: what it says to a session, what it keeps to itself, and when it ends."""

import os
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest

from faber.context import session_record
from faber.context.session_record import SessionRecord
from faber.events.drafts import Draft
from faber.feedback.requests import NewRequest, open_request, respond
from faber.hooks.follow import SessionMonitor
from faber.hooks.session_memory import client_process, machine
from faber.model import commands
from faber.store.appending import Writer
from faber.store.commit import commit
from faber.store.create import NewRun, create_run
from faber.store.layout import Layout
from faber.workflows.definitions import load_plan

FABER = Path(__file__).resolve().parents[2] / "bin" / "faber"
RUN = "org/project/one"
OWN = Writer("mine", "agent", client="claude-code")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A store with a run whose first step the session `mine` has started."""
    (tmp_path / "project").mkdir()
    layout = Layout(str(tmp_path / "project"))
    create_run(layout, NewRun(RUN, load_plan(layout, "default"), "7", None, "guarded", "person"))
    commit(layout, RUN, lambda state, plan: commands.start_step(state, plan, "frame", "fetch-work"), OWN)
    return layout


@pytest.fixture
def follower(layout: Layout) -> SessionMonitor:
    """The monitor of the session, which has looked once."""
    made = SessionMonitor(layout, 0, "mine")
    made.settled = 0.0
    assert made.look("faber") == []
    return made


def record(layout: Layout, draft: Draft, by: Writer) -> None:
    """Append one event."""
    commit(layout, RUN, lambda state, plan: [draft], by)


def ask_and_answer(layout: Layout, *, typed_here: bool) -> None:
    """The run asks something; a person answers in a client or elsewhere."""
    asked = NewRequest("fr-1", "approval", "May I?")
    commit(layout, RUN, lambda state, plan: open_request(state, plan, asked), OWN)
    commit(
        layout,
        RUN,
        lambda state, plan: respond(state, plan, request_id="fr-1", response="approve", comment="a secret remark"),
        Writer(None, "person", client="claude-code" if typed_here else None),
    )


def test_an_answer_given_elsewhere_is_one_line_with_what_to_do(layout: Layout, follower: SessionMonitor) -> None:
    """An answer from elsewhere is told once, without the person's words, and with the next command."""
    ask_and_answer(layout, typed_here=False)
    (said,) = follower.look("faber")
    assert said.startswith(f"faber: run {RUN}: 5 feedback_received")
    assert said.endswith(f"faber next {RUN}")
    assert "secret" not in said
    assert "\n" not in said
    assert follower.look("faber") == []


def test_an_answer_is_not_told_while_another_is_awaited(layout: Layout, follower: SessionMonitor) -> None:
    """The session is not woken as long as a person still has to answer."""
    other = NewRequest("fr-2", "approval", "And this?")
    commit(layout, RUN, lambda state, plan: open_request(state, plan, other), OWN)
    ask_and_answer(layout, typed_here=False)
    assert follower.look("faber") == []


def test_an_answer_typed_in_the_session_is_not_told_to_it(layout: Layout, follower: SessionMonitor) -> None:
    """The hook that took the answer has told the session."""
    ask_and_answer(layout, typed_here=True)
    assert follower.look("faber") == []


def test_what_the_session_did_is_not_told_to_it(layout: Layout, follower: SessionMonitor) -> None:
    """Neither its own events nor those that follow from them, such as the end of the phase, wake the session."""
    for step in load_plan(layout, "default")["phases"][0]["steps"]:
        start = partial(commands.start_step, phase="frame", step=step["id"])
        done = partial(commands.complete_step, phase="frame", step=step["id"], message=None, artifacts=[])
        commit(layout, RUN, start, OWN)
        commit(layout, RUN, done, OWN)
    assert any("phase_complete" in name for name in os.listdir(Path(layout.run_dir(RUN)) / "events"))
    assert follower.look("faber") == []


def test_a_phase_that_a_worker_group_ended_is_told(layout: Layout, follower: SessionMonitor) -> None:
    """A phase's end in a process that the session started in the background is told, right after its own event."""
    record(layout, {"type": "checkpoint"}, OWN)
    record(layout, {"type": "phase_error", "phase": "frame", "error": {"message": "no tests"}}, Writer(None, "agent"))
    assert ["phase_error frame: no tests" in said for said in follower.look("faber")] == [True]


def test_the_newest_session_of_the_client_is_followed(layout: Layout) -> None:
    """After a /clear, which gives the client another session, the monitor follows that session's run."""
    made = SessionMonitor(layout, client_process(), "before")
    made.settled = 0.0
    assert made.look("faber") == []
    session_record.write(layout, "after", SessionRecord(RUN, 1, (), "", client_process(), machine()))
    assert made.look("faber") == []
    assert made.run_id == RUN
    record(layout, {"type": "phase_error", "phase": "frame", "error": {"message": "no tests"}}, Writer(None, "agent"))
    assert len(made.look("faber")) == 1


def test_a_look_without_news_opens_nothing(follower: SessionMonitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle monitor reads no file and lists no directory."""

    def refuse(*_: object, **__: object) -> int:
        raise AssertionError("opened a file")

    for name in ("open", "listdir", "scandir"):
        monkeypatch.setattr(os, name, refuse)
    for _ in range(3):
        assert follower.look("faber") == []


@pytest.mark.parametrize("store", [True, False])
def test_the_monitor_ends_with_what_started_it(layout: Layout, tmp_path: Path, store: bool) -> None:
    """The process ends by itself soon after its parent was killed; without a store it ends at once."""
    place = layout.root if store else str(tmp_path)
    command = f'"{FABER}" hook follow </dev/null & echo $!; wait'
    environment = {**os.environ, "CLAUDE_CODE_SESSION_ID": "mine"}
    shell = subprocess.Popen(["sh", "-c", command], cwd=place, env=environment, stdout=subprocess.PIPE, text=True)
    assert shell.stdout
    pid = int(shell.stdout.readline())
    if store:
        time.sleep(0.5)
        assert session_record.alive(pid)
        shell.send_signal(signal.SIGKILL)
    shell.wait(10)
    end = time.monotonic() + 20
    while session_record.alive(pid):
        assert time.monotonic() < end
        time.sleep(0.05)
    shell.stdout.close()
