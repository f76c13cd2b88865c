"""`faber watch` on a terminal and elsewhere, and `faber status` as a person's eyes and a program get it."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from faber.events import nebula_events, workflow_events
from faber.events.drafts import Draft
from faber.store.commit import commit
from faber.store.create import NewRun, create_run
from faber.store.layout import Layout
from support.terminals import MAIN, on_terminal

Faber = Callable[..., Any]
ENTER_SCREEN, LEAVE_SCREEN, SHOW_CURSOR = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"
TERMINAL = {"TERM": "xterm-256color", "NO_COLOR": ""}


def record(project: Path, *drafts: Draft) -> None:
    """Append events to the run `r`, as another process does."""
    commit(Layout(str(project)), "r", lambda state, plan: list(drafts))


@pytest.fixture
def nebula(project: Path) -> Path:
    """A project with the nebula's run `r`: phase a is worked on, b waits."""
    plan: Any = {"schema_version": 1, "workflow_id": "nebula/n", "phases": []}
    create_run(Layout(str(project)), NewRun("r", plan, None, "Export the reports", "autonomous", "person"))
    record(
        project,
        nebula_events.nebula_start("exports", {"a": "", "b": ""}, directory="plan"),
        workflow_events.workflow_start({"max_workers": 2, "max_budget_usd": 5.0, "reserve_usd": 1.0}),
        nebula_events.nebula_phase_start("a", branch="x", base="0", digest=None),
    )
    return project


class Watcher:
    """`faber watch` on a terminal of 80 × 24."""

    def __init__(self, project: Path, *arguments: str, environment: Mapping[str, str] = TERMINAL) -> None:
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(project)
            words = [sys.executable, "-I", "-X", "utf8", str(MAIN), "watch", *arguments]
            os.execve(sys.executable, words, {**os.environ, **environment})
        self.modes = termios.tcgetattr(self.terminal)
        self.shown = ""
        self.resize(80, 24)

    def resize(self, width: int, height: int) -> None:
        """Give the terminal another size."""
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def types(self, keys: str) -> None:
        """Press these keys."""
        os.write(self.terminal, keys.encode())

    def sees(self, expected: str, seconds: float = 30) -> None:
        """Wait until this appears."""
        end, begin = time.monotonic() + seconds, len(self.shown)
        while expected not in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.shown[begin:]):
            ready, _, _ = select.select([self.terminal], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"{expected!r} did not appear: {self.shown[-800:]!r}"
            self.shown += os.read(self.terminal, 65536).decode(errors="replace")

    def ends(self) -> int:
        """Read to the end; the exit status, negative for a signal. The terminal is as it was."""
        while True:
            try:
                self.shown += os.read(self.terminal, 65536).decode(errors="replace")
            except OSError:
                break
        _, status = os.waitpid(self.pid, 0)
        assert self.shown.count(ENTER_SCREEN) == self.shown.count(LEAVE_SCREEN) > 0
        assert self.shown.rindex(LEAVE_SCREEN) > self.shown.rindex(ENTER_SCREEN)
        assert self.shown.rindex(SHOW_CURSOR) > self.shown.rindex(ENTER_SCREEN)
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(status)


def test_a_run_is_watched_answered_and_seen_to_its_end(nebula: Path) -> None:
    """What another process records appears, `r` asks as `feedback respond` does, another size is used, and the end of
    the run ends it."""
    watcher = Watcher(nebula)
    watcher.sees("0 of 2 phases")
    ask: Draft = {
        "type": "feedback_request", "phase": "b",
        "metadata": {"request_id": "q1", "prompt": "Merge b?", "options": ["yes"], "context": {"nebula_phase": "b"}},
    }  # fmt: skip
    record(nebula, ask)
    watcher.sees("Merge b?")
    watcher.resize(50, 20)
    watcher.types("\x1b[B")
    watcher.sees("r respond")
    watcher.types("r")
    watcher.sees("Your answer: ")
    watcher.types("yes\n")
    watcher.sees("feedback_received")
    record(nebula, nebula_events.nebula_phase_complete("a", "It exports."))
    watcher.sees("1 of 2 phases")
    record(nebula, nebula_events.nebula_phase_complete("b", "It lists."), workflow_events.workflow_complete())
    assert watcher.ends() == 0
    last = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", watcher.shown[watcher.shown.rindex(LEAVE_SCREEN) :])
    assert "✓ b" in last


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (lambda watcher: watcher.types("q"), 0),
        (lambda watcher: watcher.types("\x03"), 130),
        (lambda watcher: os.kill(watcher.pid, signal.SIGTERM), -signal.SIGTERM),
    ],
    ids=["q", "Ctrl-C", "SIGTERM"],
)
def test_the_terminal_is_as_it_was(nebula: Path, end: Callable[[Watcher], None], status: int) -> None:
    """However watching ends, the terminal shows its first screen and its cursor, and echoes what is typed."""
    watcher = Watcher(nebula, *(["--all"] if status == 0 else []))
    watcher.sees("0 of 2 phases")
    assert not termios.tcgetattr(watcher.terminal)[3] & termios.ECHO
    held = os.open(os.ttyname(watcher.terminal) if os.isatty(watcher.terminal) else os.devnull, os.O_RDWR | os.O_NOCTTY)
    end(watcher)
    _wait(watcher)
    assert termios.tcgetattr(watcher.terminal)[3] & termios.ECHO
    os.close(held)
    assert watcher.ends() == status


def _wait(watcher: Watcher) -> None:
    """Read until it has given the terminal back."""
    watcher_end = time.monotonic() + 30
    while LEAVE_SCREEN not in watcher.shown:
        ready, _, _ = select.select([watcher.terminal], [], [], max(0.0, watcher_end - time.monotonic()))
        assert ready
        watcher.shown += os.read(watcher.terminal, 65536).decode(errors="replace")
    while not termios.tcgetattr(watcher.terminal)[3] & termios.ECHO and time.monotonic() < watcher_end:
        time.sleep(0.01)


def test_a_closed_terminal_ends_it(nebula: Path) -> None:
    """Where the terminal is gone there is nobody to watch."""
    watcher = Watcher(nebula)
    watcher.sees("0 of 2 phases")
    os.close(watcher.terminal)
    _, status = os.waitpid(watcher.pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGHUP


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], None]]]:
    """What happens while a watch without a terminal sleeps, one entry a time."""
    found: list[Callable[[], None]] = []
    monkeypatch.setattr(time, "sleep", lambda _: found.pop(0)())
    yield found
    assert not found


def test_elsewhere_each_event_is_a_line(nebula: Path, faber: Faber, ticks: list[Callable[[], None]]) -> None:
    """A pipe gets how the run stands, a line an event once it is there, and at the end how it stands then."""
    ticks += [
        lambda: None,
        lambda: record(nebula, nebula_events.nebula_phase_error("a", "It\x1b[2J broke.", code="x")),
        lambda: record(nebula, workflow_events.workflow_error("1 phase failed.")),
    ]
    answer = faber("watch", "r")
    first, second, third, last = answer.out.splitlines()
    assert (answer.status, first) == (5, first if first.startswith("r  ▶ exports · 0/2 · ") else "")
    assert second.endswith("  phase_error  a  It[2J broke.")
    assert third.endswith("  workflow_error  1 phase failed.")
    assert last.startswith("r  ✗ exports · 0/2 · failed")


@pytest.mark.parametrize(
    ("last", "status"),
    [
        (workflow_events.workflow_complete(), 0),
        (workflow_events.workflow_cancelled("enough"), 5),
        ({"type": "feedback_request", "metadata": {"request_id": "q1", "prompt": "Go on?"}}, 3),
    ],
)
def test_how_a_run_ended_is_the_exit_status(nebula: Path, faber: Faber, last: Draft, status: int) -> None:
    """0 completed, 5 failed or cancelled, 3 waiting for a person; a run that is over is said once."""
    record(nebula, nebula_events.nebula_phase_complete("a", "done"), last)
    answer = faber("watch", "r")
    assert (answer.status, len(answer.out.splitlines())) == (status, 1)


def test_watch_is_about_one_run_or_all(project: Path, faber: Faber) -> None:
    """RUN and --all exclude each other, and there must be a run."""
    assert faber("watch", "r", "--all").code == "usage"
    assert faber("watch").code == "run_not_found"


@pytest.mark.parametrize(
    ("environment", "colours"),
    [(TERMINAL, True), ({**TERMINAL, "NO_COLOR": "1"}, False), ({**TERMINAL, "TERM": "dumb"}, False)],
)
def test_colours_are_for_terminals_that_want_them(nebula: Path, environment: dict[str, str], colours: bool) -> None:
    """Colours on a terminal, unless NO_COLOR or a terminal without them; the text is the same."""
    screen = on_terminal(nebula, "status", "r", environment={**os.environ, **environment})
    assert (screen.status, "\x1b[" in screen.text) == (0, colours)
    assert "Nebula  exports" in re.sub(r"\x1b\[[0-9;]*m", "", screen.text)


STATES: list[tuple[tuple[str, ...], str, str]] = [
    ((), "", "no open run"),
    (("run init --run-id r --target Export",), "Status  pending", "· r · 0/10 · pending"),
    (
        ("run init --run-id r --work-id 7", "step start r frame:fetch-work"),
        "▶ frame\n    ▶ fetch-work", "▶ frame:fetch-work · 0/10 ·",
    ),
    (
        ("run init --run-id r", "step start r frame:fetch-work", "feedback request r --prompt Ship?"),
        "Asks    Ship? (approve, reject)", "? asks: Ship? · frame:fetch-work · 0/10",
    ),
    (
        ("run init --run-id r", "step start r frame:fetch-work", "step fail r frame:fetch-work --error Boom"),
        "    ✗ fetch-work", "✗ frame:fetch-work · 0/10 · failed",
    ),
    (("run init --run-id r", "run cancel r --reason x"), "Status  cancelled", "no open run"),
]  # fmt: skip


@pytest.mark.parametrize(("commands", "tree", "line"), STATES)
def test_status_in_every_state(faber: Faber, project: Path, commands: tuple[str, ...], tree: str, line: str) -> None:
    """The tree of a run, and the one line for a prompt, in each state; piped both are plain text."""
    for command in commands:
        assert faber(*command.split()).status == 0
    assert faber("status", "--line").out.startswith(line)
    if tree:
        shown = faber("status", "r").out
        assert tree in re.sub(r" +\d:\d\d$", "", shown, flags=re.MULTILINE)
        assert "\x1b" not in shown
        assert all(len(text) <= 80 for text in shown.splitlines() if not text.startswith(("Next", " " * 8 + "faber")))
        assert faber("status", "r", "--line", "--format", "json").json["line"]
