"""Printing: one JSON object or text on stdout, messages for people on stderr."""

import json
import os
import sys
from collections.abc import Callable
from typing import TypeVar

from faber.errors import FaberError
from faber.model import program_word
from faber.model.text import inert, redact_json, visible

T = TypeVar("T")
_calls_faber = [program_word.PERSONS]


def address(program: str) -> None:
    """From now on commands in the output are spelled with `program`."""
    _calls_faber[0] = program


def spelled(text: str) -> str:
    """faber's own prose, its commands as whoever reads it can run them."""
    return program_word.prose(text, _calls_faber[0])


def print_answer(answer: T, form: str, text: Callable[[T], str]) -> None:
    """Print `answer` as `--format` says: as JSON, or as the inert text that `text` makes of it."""
    if form == "text":
        write(inert(text(program_word.respelled(answer, _calls_faber[0]))))
    else:
        print_json(answer)


def print_json(value: object) -> None:
    """Print one JSON object: on one line for a program, indented on a terminal."""
    value = program_word.respelled(value, _calls_faber[0])
    if sys.stdout is not None and sys.stdout.isatty():
        text = visible(json.dumps(value, ensure_ascii=False, indent=2))
    else:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    write(text + "\n")


def write(text: str) -> None:
    """Write `text` to stdout, escaping what the locale's encoding cannot hold."""
    if sys.stdout is None:  # closed by the parent process
        return
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))


def silence() -> None:
    """Discard further output, and keep the interpreter from flushing stdout at its exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:
        pass


def say(text: str) -> None:
    """Print an inert line for a person on stderr."""
    line = inert(text)
    try:
        print(line, file=sys.stderr)
    except UnicodeEncodeError:
        print(line.encode("ascii", "backslashreplace").decode(), file=sys.stderr)
    except OSError:
        pass


def print_error(error: FaberError) -> None:
    """Print `{"error": …}` on stdout and one line on stderr, both without credentials."""
    shown = redact_json(error.as_dict())
    try:
        print_json({"error": shown})
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        silence()  # stdout itself failed; the message below still goes out
    recovery = f" {spelled(shown['recovery'])}" if shown["recovery"] else ""
    say(f"faber: {shown['message']}{recovery}")
