"""Reads what a phase's agents said and did, at once or as it comes, and shows it as text."""

import json
import os
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from faber.nebula.view.agent_log import MAX_FILE, OLDER, AgentLine, log_file
from faber.text.safe_text import cut, inert, redact

_KINDS = frozenset({"turn", "said", "called", "printed", "refused", "retries", "ended", "note"})
_SHOWN_LINES = 12  # of what a tool printed


def read_log(directory: str, phase: str) -> list[AgentLine]:
    """The lines of a phase's log, oldest first; those that are damaged are left out. Empty if there is none."""
    return LogTail(directory, phase).new()


class LogTail:
    """What is added to a phase's log: `new` has the lines since the last call, all of them at first."""

    def __init__(self, directory: str, phase: str) -> None:
        self._path = log_file(directory, phase)
        self._inode = 0
        self._read = 0

    def new(self) -> list[AgentLine]:
        """The lines that were added."""
        inode, data = _content(self._path)
        older = b""
        if inode != self._inode:  # the file is another one: what was not read of it may be in the older one
            before, older = _content(self._path + OLDER)
            older = older[self._read :] if before == self._inode else b"" if self._inode else older
            self._inode, self._read = inode, 0
        added = data[self._read : data.rfind(b"\n") + 1]
        self._read += len(added)
        return _parsed(older) + _parsed(added)


def log_text(lines: Sequence[AgentLine], width: int) -> str:
    """The lines as text of at most `width` columns, without colours."""
    return "".join(f"{each}\n" for line in lines for each in _shown(line, width))


def _shown(line: AgentLine, width: int) -> Iterator[str]:
    kind, text = line["kind"], redact(inert(line.get("text", "")))
    match kind:
        case "turn":
            cycle = f", cycle {line['cycle']}" if "cycle" in line else ""
            session = f"  session {line['session']}" if line.get("session") else ""
            yield ""
            yield cut(f"== {line.get('role', 'agent')}{cycle}  {_clock(line)}{session}", width)
        case "said":
            for each in text.splitlines():
                yield from textwrap.wrap(each, width) or [""]
        case "called":
            yield cut(f"> {text}", width)
        case "printed" | "refused":
            every = text.rstrip().splitlines()
            if len(every) > _SHOWN_LINES:
                every = [f"[… {len(every) - _SHOWN_LINES} lines before this]", *every[-_SHOWN_LINES:]]
            for each in every:
                yield cut(f"  {'!' if kind == 'refused' else '|'} {each}", width)
        case "retries":
            yield cut(f"-- {_clock(line)} the service refused the turn ({text}); the client tries again", width)
        case "ended":
            yield cut(f"-- {_clock(line)} the turn ended: {text}", width)
        case _:
            yield from textwrap.wrap(f"-- {_clock(line)} {text}", width, subsequent_indent="   ")


def _clock(line: AgentLine) -> str:
    return line["at"][11:19]


def _parsed(data: bytes) -> list[AgentLine]:
    found: list[AgentLine] = []
    for row in data.splitlines():
        try:
            line: Any = json.loads(row)
        except ValueError:
            continue
        if isinstance(line, dict) and line.get("kind") in _KINDS and isinstance(line.get("at"), str):
            texts = {key: line[key] for key in _TEXTS if isinstance(line.get(key), str)}
            cycle = {"cycle": line["cycle"]} if isinstance(line.get("cycle"), int) else {}
            made: Any = {**texts, **cycle}
            found.append(made)
    return found


_TEXTS = ("at", "kind", "role", "text", "session", "directory", "config", "client")


def _content(path: str) -> tuple[int, bytes]:
    """The inode of a file, and what is in it; 0 and nothing if there is none."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return os.fstat(file.fileno()).st_ino, file.read(2 * MAX_FILE)
    except OSError:
        return 0, b""
