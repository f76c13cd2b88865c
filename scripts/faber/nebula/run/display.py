"""The two runners of a nebula's phases: plain lines, and a live view on a terminal. Both work through `PhaseWork`."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from faber.errors import Notice, Severity
from faber.model.documents import nebula_phases
from faber.model.text import inert, redact, shorten
from faber.nebula.phase.checkpoint import Checkpoint
from faber.nebula.plan.specs import PhaseSpec
from faber.nebula.run.phase_worker import PhaseWork, Start, Workshop

WIDTH = 200
NAME = 40


class PlainRunner:
    """Says a line for each thing that happens to a phase. `shop` is set before the first phase runs."""

    shop: Workshop

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()

    def run(self, spec: PhaseSpec, start: Start) -> PhaseWork:
        """The work on a phase from its beginning."""
        return PhaseWork(self.shop, spec, start)

    def run_from_checkpoint(self, checkpoint: Checkpoint, spec: PhaseSpec, start: Start) -> PhaseWork:
        """The work on a phase from the stage after `checkpoint`."""
        return PhaseWork(self.shop, spec, replace(start, checkpoint=checkpoint))

    def show(self, phase: str, what: str, notice: Notice | None = None) -> None:
        """One line on what happens to a phase."""
        self.line(f"{phase}: {what}")

    def notice(self, notice: Notice) -> None:
        """A notice that a person should see."""
        mark = "" if notice.severity is Severity.INFO else f"{notice.severity.value}: "
        self.line(f"{mark}{notice.message}")

    def heard(self, phase: str, role: str, event: Mapping[str, Any]) -> None:
        """An event of an agent's stream: nothing is said of it here."""

    def line(self, text: str) -> None:
        """Print one line, inert and without credentials."""
        with self._lock:
            self._say("faber: " + shorten(redact(inert(text)).replace("\n", " "), WIDTH * 4))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing was opened."""


@dataclass
class _Row:
    what: str = ""
    doing: str = ""
    stage: str = ""
    since: float = 0.0
    ended: bool = False


class LiveRunner(PlainRunner):
    """The same with one line per phase that is kept up to date below what was said: its cycle, its cost, and what it
    is doing."""

    def __init__(self, say: Callable[[str], None], console: Any) -> None:
        super().__init__(say)
        from rich.live import Live

        self._console = console
        self._rows: dict[str, _Row] = {}
        self._live = Live(console=console, get_renderable=self._table, refresh_per_second=4, transient=True)

    def show(self, phase: str, what: str, notice: Notice | None = None) -> None:
        """Change the phase's line, and say what stays."""
        self._rows.setdefault(phase, _Row(since=time.monotonic())).what = what
        self._rows[phase].doing = ""
        self._rows[phase].ended = what.startswith(("done", "failed", "not healed", "skipped", "stopped"))
        self.line(f"{phase}: {what}")

    def heard(self, phase: str, role: str, event: Mapping[str, Any]) -> None:
        """Show which tool the agent uses."""
        message = event.get("message")
        content = message.get("content") if isinstance(message, Mapping) else None
        for block in content if isinstance(content, list) else ():
            if isinstance(block, Mapping) and block.get("type") == "tool_use":
                row = self._rows.setdefault(phase, _Row(since=time.monotonic()))
                row.doing, row.stage = f"{role}: {block.get('name')}", self._stage(phase)

    def line(self, text: str) -> None:
        """Print one line above the table."""
        from rich.text import Text

        with self._lock:
            self._console.print(Text(shorten(redact(inert(text)).replace("\n", " "), WIDTH * 4)))

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def _stage(self, phase: str) -> str:
        phases = nebula_phases(self.shop.journal.state) if hasattr(self, "shop") else {}
        known = phases.get(phase, {"status": "pending"})
        return "healing" if "healing" in known else str(known.get("stage", ""))

    def _table(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        phases = nebula_phases(self.shop.journal.state) if hasattr(self, "shop") else {}
        for name, row in list(self._rows.items()):
            known = phases.get(name, {"status": "pending"})
            if row.ended:
                continue
            cycle = f"cycle {known['cycle']}" if "cycle" in known else ""
            stage = self._stage(name)
            # What the coder did last is not what the reviewer does now.
            doing = row.doing if row.doing and row.stage == stage else stage.replace("_", " ") or row.what
            minutes, seconds = divmod(int(time.monotonic() - row.since), 60)
            cells = (shorten(name, NAME), cycle, f"${known.get('cost', 0.0):.2f}", f"{minutes}:{seconds:02}", doing)
            table.add_row(*(Text(redact(inert(cell)), overflow="ellipsis", no_wrap=True) for cell in cells))
        done = sum(phase["status"] == "done" for phase in phases.values())
        table.add_row(Text(f"{done} of {len(phases)} phases done"))
        return table
