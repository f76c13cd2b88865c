"""How answers leave the command line."""

import json
import os
import sys
from typing import Any

from faber.errors import FaberError
from faber.model.text import inert, redact_json, visible


def print_json(value: Any) -> None:
    """One JSON object on stdout: one line for a program, indented for a person's terminal."""
    if sys.stdout is not None and sys.stdout.isatty():
        text = visible(json.dumps(value, ensure_ascii=False, indent=2))
    else:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    write(text + "\n")


def write(text: str) -> None:
    """`text` to stdout, whatever the encoding of the locale can hold."""
    if sys.stdout is None:  # closed by whoever started us: the answer has nowhere to go
        return
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))


def silence() -> None:
    """Say nothing more on stdout, and keep the interpreter from trying at its exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:
        pass


def say(text: str) -> None:
    """A line for a person on stderr, inert."""
    line = inert(text)
    try:
        print(line, file=sys.stderr)
    except UnicodeEncodeError:
        print(line.encode("ascii", "backslashreplace").decode(), file=sys.stderr)
    except OSError:
        pass


def print_error(error: FaberError) -> None:
    """`{"error": …}` on stdout and one line for a person on stderr, both without credentials."""
    shown = redact_json(error.as_dict())
    try:
        print_json({"error": shown})
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        silence()  # stdout is what failed; the words below still go out
    recovery = f" {shown['recovery']}" if shown["recovery"] else ""
    say(f"faber: {shown['message']}{recovery}")
