"""The lines of a TOML document's keys, which `tomllib` does not report."""

import re
from bisect import bisect_right
from collections.abc import Iterator

Keys = tuple[str | int, ...]

_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BLANK = re.compile(r"[ \t]*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_STRING = re.compile(
    r'"""(?:[^"\\]|\\[\s\S]|"(?!""))*"{3,5}'
    r"|'''(?:[^']|'(?!''))*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
)
_PLAIN = re.compile(r"[^,\]}#\n]*")


def toml_lines(text: str) -> dict[Keys, int]:
    """The line, from 1, of every key and list entry of a document that `strict.toml_value` accepted.

    Keys are paths, `("filter", 0, "command")`; the empty one is the document, on line 1. Keys that the scan
    does not understand are left out, so a caller looks up the longest path present.
    """
    found: dict[Keys, int] = {(): 1}
    scan = _Scan(text)
    try:
        scan.document(found)
    except (AttributeError, IndexError, ValueError, RecursionError):  # not TOML: the lines found so far are right
        pass
    return found


class _Scan:
    def __init__(self, text: str) -> None:
        self.text = text
        self.breaks = [match.start() for match in re.finditer("\n", text)]
        self.at = 0
        # How many tables each array of tables has so far, by its path.
        self.counts: dict[Keys, int] = {}

    def line(self) -> int:
        return bisect_right(self.breaks, self.at - 1) + 1

    def skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        assert match is not None or pattern in (_KEY, _STRING)
        if match is None:
            raise IndexError
        self.at = match.end()
        return match[0]

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def document(self, found: dict[Keys, int]) -> None:
        table: Keys = ()
        while True:
            self.skip(_SPACE)
            if not self.peek():
                return
            line = self.line()
            if self.peek() == "[":
                table = self.header()
                found.setdefault(table, line)
            else:
                path = self.resolved(table, self.keys())
                found.setdefault(path, line)
                self.at += 1  # the equals sign
                self.value(path, found)

    def header(self) -> Keys:
        self.at += 1
        is_array = self.peek() == "["
        self.at += is_array
        keys = list(self.keys())
        self.at += 1 + is_array
        if not is_array:
            return self.resolved((), keys)
        path = (*self.resolved((), keys[:-1]), keys[-1])
        number = self.counts.get(path, 0)
        self.counts[path] = number + 1
        return (*path, number)

    def resolved(self, table: Keys, keys: Iterator[str] | list[str]) -> Keys:
        """`keys` below `table`; where one names an array of tables, its newest table is meant."""
        path = table
        for key in keys:
            path = (*path, key)
            if path in self.counts:
                path = (*path, self.counts[path] - 1)
        return path

    def keys(self) -> Iterator[str]:
        """The parts of a dotted key."""
        while True:
            self.skip(_BLANK)
            yield _plain(self.skip(_KEY))
            self.skip(_BLANK)
            if self.peek() != ".":
                return
            self.at += 1

    def value(self, path: Keys, found: dict[Keys, int]) -> None:
        self.skip(_BLANK)
        first = self.peek()
        if first == "[":
            self.at += 1
            number = 0
            while self.skip(_SPACE) is not None and self.peek() not in ("]", ""):
                found[*path, number] = self.line()
                before = self.at
                self.value((*path, number), found)
                number += 1
                self.skip(_SPACE)
                self.at += self.peek() == ","
                if self.at == before:
                    raise IndexError  # an entry without a value, as in `[}`
            self.at += 1
        elif first == "{":
            self.at += 1
            while self.skip(_SPACE) is not None and self.peek() not in ("}", ""):
                inner = path
                line = self.line()
                for key in self.keys():
                    inner = (*inner, key)
                found[inner] = line
                self.at += 1
                self.value(inner, found)
                self.skip(_SPACE)
                self.at += self.peek() == ","
            self.at += 1
        elif first in ("'", '"'):
            self.skip(_STRING)
        else:
            self.skip(_PLAIN)


def _plain(key: str) -> str:
    if key[:1] == "'":
        return key[1:-1]
    if key[:1] == '"':
        import tomllib

        return str(tomllib.loads(f"x = {key}")["x"])
    return key
