"""A picture that fills the terminal and is drawn again and again, and the keys that a person presses meanwhile.

rich draws it, on the terminal's second screen. What was on the terminal comes back whatever ends the program, as far as
a program can see it: keys, signals, an error, a terminal that is gone.
"""

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Self

from faber.view.live_frame import BACK, DOWN, ENTER, QUIT, RESPOND, UP
from faber.view.styled_lines import Spans, clean

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.segment import Segment

KEYS = {"\x1b[A": UP, "\x1bOA": UP, "k": UP, "\x1b[B": DOWN, "\x1bOB": DOWN, "j": DOWN, "\r": ENTER, "\n": ENTER}
KEYS |= {"\x1b": BACK, "\x7f": BACK, "\x1b[D": BACK, "\x1bOD": BACK, "r": RESPOND, "q": QUIT, "\x04": QUIT}
_STYLES = {"good": "green", "bad": "red", "ask": "bold magenta", "now": "bold", "dim": "dim", "chosen": "reverse"}
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_WATCHED = (*_ENDING, signal.SIGWINCH, signal.SIGTSTP)


class Picture:
    """Styled lines for rich, which need no more layout."""

    def __init__(self, lines: Sequence[Spans]) -> None:
        self._lines = lines

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[Segment]":
        from rich.segment import Segment

        for number, line in enumerate(self._lines):
            if number:
                yield Segment.line()
            for span in line:
                yield Segment(clean(span.text), console.get_style(_STYLES.get(span.style, "none")))


class LiveScreen:
    """The terminal, taken for pictures; a context manager that gives it back."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self.console = Console(file=sys.stdout, highlight=False, markup=False, no_color=_no_colour())
        self._live = Live(
            console=self.console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._keyboard = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
        self.ended = 0  # the signal that asks for the end
        self._stop = False

    def __enter__(self) -> Self:
        self._ends, self._writes = os.pipe()
        os.set_blocking(self._ends, False)
        os.set_blocking(self._writes, False)
        self.take()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.give_back()
        os.close(self._ends)
        os.close(self._writes)

    def take(self) -> None:
        """Show the second screen, and get keys and signals as they come."""
        self._before = {number: signal.signal(number, self._noticed) for number in _WATCHED}
        self._wakeup = signal.set_wakeup_fd(self._writes, warn_on_full_buffer=False)
        if self._keyboard is not None:
            self._cooked = termios.tcgetattr(self._keyboard)
            tty.setcbreak(self._keyboard, termios.TCSADRAIN)
        self._live.start()

    def give_back(self) -> None:
        """Show the terminal as it was, and leave signals to others. A terminal that is gone needs nothing."""
        try:
            self._live.stop()
        except OSError:
            pass
        if self._keyboard is not None:
            try:
                termios.tcsetattr(self._keyboard, termios.TCSADRAIN, self._cooked)
            except (OSError, termios.error):
                pass
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        width, height = self.console.size
        return max(20, width), max(4, height)

    def draw(self, lines: Sequence[Spans]) -> None:
        """Show these lines; raises `OSError` where the terminal is gone."""
        self._live.update(Picture(lines), refresh=True)

    def keys(self, seconds: float) -> list[str]:
        """The keys that are pressed within that time; returns at once after one, a signal or another size."""
        if self.ended:
            return []
        watched = [self._ends, *([self._keyboard] if self._keyboard is not None else [])]
        ready, _, _ = select.select(watched, [], [], seconds)
        if self._ends in ready:
            os.read(self._ends, 4096)
        if self._stop:
            self._suspend()
        if self._keyboard in ready and self._keyboard is not None:
            typed = os.read(self._keyboard, 1024)
            if not typed:
                self.ended = signal.SIGHUP
            return [*keys_in(typed.decode(errors="replace"))]
        return []

    def _suspend(self) -> None:
        """What Ctrl-Z does, with the terminal as it was meanwhile."""
        self._stop = False
        self.give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self.take()

    def _noticed(self, number: int, _: FrameType | None) -> None:
        if number in _ENDING:
            self.ended = number
        elif number == signal.SIGTSTP:
            self._stop = True


def keys_in(typed: str) -> Iterator[str]:
    """The keys of `KEYS` in what a terminal sent; everything else is left out."""
    while typed:
        length = 3 if typed[:2] in ("\x1b[", "\x1bO") else 1
        key = KEYS.get(typed[:length])
        if key:
            yield key
        typed = typed[length:]


def _no_colour() -> bool:
    return bool(os.environ.get("NO_COLOR"))
