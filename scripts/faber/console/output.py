"""Printing: one JSON object or text on stdout, messages for people on stderr."""

import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

import click

from faber.errors import FaberError
from faber.processes.stdout import write as write  # the commands print with it
from faber.text import program_word
from faber.text.safe_text import inert, redact_json, visible

if TYPE_CHECKING:
    from faber.view.styled_lines import Spans

T = TypeVar("T")
FORMAT = "faber.format"  # where a command's context keeps its `--format`
_calls_faber = [program_word.PERSONS]


def address(program: str) -> None:
    """From now on commands in the output are spelled with `program`."""
    _calls_faber[0] = program


def spelled(text: str) -> str:
    """faber's own prose, its commands as whoever reads it can run them."""
    return program_word.prose(text, _calls_faber[0])


def spelled_command(command: str) -> str:
    """One whole command as whoever reads it can run it."""
    return program_word.command(command, _calls_faber[0])


def write_lines(lines: "Iterable[Spans]") -> None:
    """Print styled lines: in colours on a terminal that shows them, else as plain text."""
    from faber.view.styled_lines import coloured, plain_text

    write(coloured(lines) if shows_colours() else plain_text(lines))


def shows_colours() -> bool:
    """True on a terminal that shows colours, unless NO_COLOR says that nobody wants them."""
    return on_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in (None, "", "dumb")


def print_answer(answer: T, form: str, text: Callable[[T], str]) -> None:
    """Print `answer` as `--format` says: as JSON, or as the inert text that `text` makes of it."""
    if form == "text":
        write(inert(text(program_word.respelled(answer, _calls_faber[0]))))
    else:
        print_json(answer)


def keep_format(ctx: click.Context, _: click.Parameter, form: str) -> None:
    """Make `print_json` print what `--format` says; the callback of the option, for commands without their own text."""
    ctx.meta[FORMAT] = form


def print_json(value: object) -> None:
    """Print one JSON object: on one line for a program, indented on a terminal; with `--format text`, plain lines."""
    value = program_word.respelled(value, _calls_faber[0])
    ctx = click.get_current_context(silent=True)
    if ctx is not None and ctx.meta.get(FORMAT) == "text":
        from faber.console.plain import plain

        write(inert(plain(value)))
        return
    if on_terminal():
        text = visible(json.dumps(value, ensure_ascii=False, indent=2))
    else:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    write(text + "\n")


def on_terminal() -> bool:
    """True if stdout is a terminal, so that a person reads it."""
    return sys.stdout is not None and sys.stdout.isatty()


def columns() -> int:
    """How wide a line for a person may be: as the terminal is, else 80."""
    try:
        return max(40, os.get_terminal_size(1).columns) if on_terminal() else 80
    except OSError:
        return 80


def silence() -> None:
    """Discard further output, and keep the interpreter from flushing stdout at its exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:
        pass


def say(text: str) -> None:
    """Print inert text for a person on stderr."""
    shown = inert(text)
    try:
        print(shown, file=sys.stderr)
    except UnicodeEncodeError:
        print(shown.encode("ascii", "backslashreplace").decode(), file=sys.stderr)
    except OSError:
        pass


def print_error(error: FaberError, run: str | None = None) -> None:
    """Print `{"error": …}` on stdout and one line on stderr, both without credentials; RUN in its recovery is `run`.

    On a terminal both would be shown, so there it is text alone: message, recovery, and the lists among the fields.
    """
    shown = redact_json(error.as_dict())
    if run is not None:
        shown["recovery"] = program_word.prose(shown["recovery"], program_word.PERSONS, run)
    if on_terminal():
        from faber.console.plain import plain

        lists = {name: value for name, value in shown.items() if value and isinstance(value, list | dict)}
        details = [spelled(shown["recovery"]), *(plain(lists).splitlines() if lists else [])]
        say("\n  ".join([f"faber: {shown['message']}", *filter(None, details)]))
        return
    try:
        print_json({"error": shown})
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        silence()  # stdout itself failed; the message below still goes out
    recovery = f" {spelled(shown['recovery'])}" if shown["recovery"] else ""
    say(f"faber: {shown['message']}{recovery}")
