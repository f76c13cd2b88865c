"""The last lines of a failed job's log, as they may be shown: plain, short, and free of credentials.

A log is text from outside. Terminal sequences, the runner's commands and its timestamps are removed.
"""

import re
from collections.abc import Iterable

from faber.text.safe_text import inert, without

MOST_LINES = 60
MOST_CHARS = 4_000
LINE_CHARS = 300
# Of a log, from its end: what follows the failure is the runner's cleaning up.
READ_BYTES = 256 * 1024
_LONGEST = 2_000  # of a line, before anything is removed from it

_TIME = re.compile(r"\A\ufeff?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z ?", re.ASCII)
# CSI and OSC sequences, and other escapes of two characters.
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])|\x9b[0-?]*[ -/]*[@-~]")
_COMMAND = re.compile(r"\A\s*(?:##\[([a-z-]+)\]|::([a-z-]+)(?: [^\r\n]*?)?::)", re.ASCII)
_MARKS = re.compile(r"\A\s*(?:::|##\[)[:#\[\s]*", re.ASCII)
_FAILED = ("##[error]", "::error")
_SHOWN = frozenset({"error", "warning", "notice"})
_SILENT = frozenset({"endgroup", "add-mask", "stop-commands", "save-state", "set-output", "set-env", "add-path"})


def last_lines(log: str, secrets: Iterable[str] = ()) -> str:
    """The lines of a log up to the last error, at most `MOST_LINES` and `MOST_CHARS`."""
    lines = [_ESCAPE.sub("", _TIME.sub("", line)) for line in log.replace("\r\n", "\n").split("\n")]
    failed = [number for number, line in enumerate(lines) if line.lstrip().startswith(_FAILED)]
    lines = lines[: failed[-1] + 1] if failed else lines
    return plain_lines("\n".join(lines), secrets)


def plain_lines(text: str, secrets: Iterable[str] = ()) -> str:
    """The last lines of a text from outside, without terminal sequences and commands of the runner."""
    shown = inert("\n".join(line.rpartition("\r")[2][:_LONGEST] for line in _ESCAPE.sub("", text).split("\n")))
    said = (_said(line) for line in shown.split("\n"))
    whole = inert(without("\n".join(line for line in said if line is not None), secrets))
    kept: list[str] = []
    size = 0
    for line in reversed(whole.strip("\n").split("\n")[-MOST_LINES:]):
        line = line[:LINE_CHARS].rstrip()
        size += len(line) + 1
        if size > MOST_CHARS:
            break
        kept.append(line)
    return "\n".join(reversed(kept)).strip("\n")


def _said(line: str) -> str | None:
    """A line of the log without the runner's command at its beginning; None for a command that says nothing."""
    while found := _COMMAND.match(line):
        name = found[1] or found[2]
        if name in _SILENT:
            return None
        line = line[found.end() :]
        if name in _SHOWN:
            return f"{name}: {line}"
    return _MARKS.sub("", line)
