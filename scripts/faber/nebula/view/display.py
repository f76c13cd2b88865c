"""Showing a run of a nebula: plain lines, or a live table on a terminal."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Self

from faber.errors import Notice, Severity
from faber.model.documents import State, nebula_phases
from faber.model.nebula_documents import NebulaPhase
from faber.model.state_parts import Pause
from faber.nebula.view.status_view import elapsed_of
from faber.store.clock import utc_now
from faber.text.safe_text import inert, redact, shorten
from faber.view.tree_text import duration
from faber.view.view_fold import NEW, stage_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDTH = 200
NAME = 40
Look = Callable[[], State | None]


def safe_line(text: str) -> str:
    """`text` as one bounded line, inert and without credentials."""
    return shorten(redact(inert(text)).replace("\n", " "), WIDTH * 4)


def noticed(notice: Notice) -> str:
    """A notice as a line."""
    mark = "" if notice.severity is Severity.INFO else f"{notice.severity.value}: "
    return f"{mark}{notice.message}"


class PlainDisplay:
    """Prints a line for everything that happens to a phase."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()

    def show(self, phase: str, what: str) -> None:
        """Print what happens to a phase."""
        self.line(f"{phase}: {what}")

    def notice(self, notice: Notice) -> None:
        """Print a notice."""
        self.line(noticed(notice))

    def heard(self, phase: str, role: str, event: Mapping[str, object]) -> None:
        """Events of an agent's stream are not shown."""

    def line(self, text: str) -> None:
        """Print one line."""
        with self._lock:
            self._say("faber: " + safe_line(text))

    def follow(self, look: Look) -> None:
        """Lines are printed without the state of the run."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Nothing was opened."""


@dataclass
class _Row:
    what: str = ""
    doing: str = ""
    stage: str = ""
    since: float = 0.0
    ended: bool = False


class LiveDisplay:
    """Prints lines, and below them a live table with one row per phase: its cycle, its cost, and what it does."""

    def __init__(self, console: "Console") -> None:
        from rich.live import Live

        self._console = console
        self._lock = threading.Lock()
        self._rows: dict[str, _Row] = {}
        self._look: Look = lambda: None
        self._live = Live(console=console, get_renderable=self.table, refresh_per_second=4, transient=True)

    def show(self, phase: str, what: str) -> None:
        """Update the phase's row, and print what happens."""
        row = self._row(phase)
        row.what, row.doing = what, ""
        row.ended = what.startswith(("done", "failed", "not healed", "skipped", "stopped"))
        self.line(f"{phase}: {what}")

    def notice(self, notice: Notice) -> None:
        """Print a notice."""
        self.line(noticed(notice))

    def heard(self, phase: str, role: str, event: Mapping[str, object]) -> None:
        """Show the tool that the agent uses."""
        message = event.get("message")
        content = message.get("content") if isinstance(message, Mapping) else None
        for block in content if isinstance(content, list) else ():
            if isinstance(block, Mapping) and block.get("type") == "tool_use":
                row = self._row(phase)
                row.doing, row.stage = f"{role}: {block.get('name')}", stage_of(self._phases().get(phase, NEW)) or ""

    def line(self, text: str) -> None:
        """Print one line above the table."""
        from rich.text import Text

        with self._lock:
            self._console.print(Text(safe_line(text)))

    def follow(self, look: Look) -> None:
        """Take the rows' cycles, costs and stages, and the pause, from the state that `look` returns."""
        self._look = look

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.stop()

    def table(self) -> "Table":
        """The rows of the phases at work, and a clock while the service is waited for."""
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        phases = self._phases()
        for name, row in list(self._rows.items()):
            if row.ended:
                continue
            known = phases.get(name, NEW)
            cycle = f"cycle {known['cycle']}" if "cycle" in known else ""
            stage = stage_of(known) or ""
            # The coder's last tool is not what the reviewer does now.
            doing = row.doing if row.doing and row.stage == stage else stage.replace("_", " ") or row.what
            elapsed = elapsed_of(known, utc_now()) if "started_at" in known else time.monotonic() - row.since
            cells = (shorten(name, NAME), cycle, f"${known.get('cost', 0.0):.2f}", duration(elapsed or 0.0), doing)
            table.add_row(*(Text(redact(inert(cell)), overflow="ellipsis", no_wrap=True) for cell in cells))
        done = sum(phase["status"] == "done" for phase in phases.values())
        table.add_row(Text(f"{done} of {len(phases)} phases done"))
        state = self._look()
        if state is not None and (left := seconds_left(state.get("paused"))) > 0:
            table.add_row(Text(f"waits for the service: {duration(left)} left"))
        return table

    def _phases(self) -> Mapping[str, NebulaPhase]:
        state = self._look()
        return nebula_phases(state) if state is not None else {}

    def _row(self, phase: str) -> _Row:
        return self._rows.setdefault(phase, _Row(since=time.monotonic()))


def seconds_left(paused: Pause | None) -> int:
    """The seconds that the run still waits; 0 if it does not wait for a time."""
    until = paused and paused["waiting_until"]
    return max(0, int(datetime.fromisoformat(until).timestamp() - time.time())) if until else 0
