"""Read a TOML table field by field. A value of the wrong type or out of bounds becomes a problem with its line, and the
field gets its default, so that one pass finds every problem."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from faber.errors import Severity
from faber.nebula.plan.agent_choice import AgentChoice, InClient, UnknownClient, agent_choice, in_client
from faber.nebula.plan.problems import NebulaProblem
from faber.store.strict import Malformed, toml_value
from faber.store.toml_lines import Keys, toml_lines

T = TypeVar("T")
MAX_TEXT = 2_000
MAX_ENTRIES = 1_000
_AT = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)\Z")
_KINDS = {str: "text", bool: "true or false", int: "a whole number", float: "a number", list: "a list", dict: "a table"}


class Source(NamedTuple):
    """A TOML document in a file: its value, and the line of each key in that file."""

    file: str
    value: dict[str, Any]
    lines: dict[Keys, int]

    def line(self, at: Keys) -> int | None:
        """The line of the innermost key of `at` that exists."""
        return next((self.lines[at[:end]] for end in range(len(at), -1, -1) if at[:end] in self.lines), None)


def read_source(file: str, text: str, limit: int, problems: list[NebulaProblem], before: int = 0) -> Source:
    """The TOML document `text`, which starts `before` lines into `file`; empty, and a problem, if it is not TOML."""
    try:
        value = toml_value(text, limit)
    except Malformed as error:
        said = _AT.search(error.problem)
        last = text.count("\n") + (not text.endswith("\n"))
        line = before + (int(said[1]) if said and said[1] else last or 1) if said else before + 1
        message = f"Not TOML: {_AT.sub('', error.problem)}."
        problems.append(NebulaProblem("bad_toml", Severity.ERROR, file, line, message, "Correct the line named."))
        return Source(file, {}, {(): before + 1})
    return Source(file, value, {keys: line + before for keys, line in toml_lines(text.replace("\r\n", "\n")).items()})


class TomlTable:
    """One table of a `Source`. Each reading method returns a default and notes a problem if the value is invalid;
    `rest` returns the keys that were not read."""

    def __init__(
        self, source: Source, at: Keys, value: Mapping[str, object], problems: list[NebulaProblem], phase: str | None
    ):
        self.source, self.at, self.value, self.problems, self.phase = source, at, value, problems, phase
        self.asked: set[str] = set()

    def note(self, category: str, at: str | Keys, message: str, fix: str, severity: Severity = Severity.ERROR) -> None:
        """Note a problem at a key of this table, or at a path below it."""
        path = (*self.at, at) if isinstance(at, str) else (*self.at, *at)
        problem = NebulaProblem(category, severity, self.source.file, self.source.line(path), message, fix, self.phase)
        self.problems.append(problem)

    def given(self, key: str, *kinds: type) -> Any:
        """The value of `key` if it is one of `kinds`, else None."""
        self.asked.add(key)
        value = self.value.get(key)
        if value is None:
            return None
        if isinstance(value, kinds) and (not isinstance(value, bool) or bool in kinds):
            return value
        if float in kinds and isinstance(value, int) and not isinstance(value, bool):
            return value
        if int in kinds and isinstance(value, float) and value.is_integer():
            return int(value)
        names = " or ".join(_KINDS[kind] for kind in kinds)
        self.note("wrong_type", key, f"{key} is {_kind(value)}; expected {names}.", f"Give {key} as {names}.")
        return None

    def text(self, key: str, limit: int = MAX_TEXT) -> str | None:
        """Text of at most `limit` characters, or None."""
        value: str | None = self.given(key, str)
        if value is not None and len(value) > limit:
            message = f"{key} has {len(value)} characters; the limit is {limit}."
            self.note("bounds", key, message, "Shorten it.")
            return None
        return value

    def texts(self, key: str) -> tuple[str, ...] | None:
        """A list of texts, or None."""
        value = self.given(key, list)
        if value is None:
            return None
        if len(value) > MAX_ENTRIES:
            message = f"{key} has {len(value)} entries; the limit is {MAX_ENTRIES}."
            self.note("bounds", key, message, "Shorten the list.")
            return None
        for number, item in enumerate(value):
            if not isinstance(item, str):
                message = f"An entry of {key} is {_kind(item)}; expected text."
                self.note("wrong_type", (key, number), message, "Quote the entry.")
            elif len(item) > MAX_TEXT:
                message = f"An entry of {key} has {len(item)} characters; the limit is {MAX_TEXT}."
                self.note("bounds", (key, number), message, "Shorten it.")
        return tuple(item for item in value if isinstance(item, str) and len(item) <= MAX_TEXT)

    def integer(self, key: str, low: int, high: int, *, unset: int | None = None) -> int | None:
        """A whole number from `low` to `high`, or None; the value `unset` counts as not given."""
        value = self.given(key, int)
        return int(value) if self._within(key, value, low, high, unset) else None

    def number(self, key: str, high: float, *, zero: bool = False) -> float | None:
        """A number above 0 (with `zero`, from 0) up to `high`, or None. Without `zero`, 0 counts as not given."""
        value = self.given(key, float)
        return float(value) if self._within(key, value, 0, high, None if zero else 0) else None

    def _within(self, key: str, value: float | None, low: float, high: float, unset: float | None) -> bool:
        if value is None or value == unset:
            return False
        if not low <= value <= high:
            message = f"{key} is {value:g}; the limits are {low:g} and {high:g}."
            self.note("bounds", key, message, "Use a number within the limits.")
            return False
        return True

    def flag(self, key: str) -> bool | None:
        """True, false, or None."""
        value: bool | None = self.given(key, bool)
        return value

    def choice(self, key: str, known: Iterable[str], category: str) -> str | None:
        """One of `known`, or None; empty text counts as not given."""
        value: str | None = self.given(key, str)
        if not value:
            return None
        if value not in known:
            names = ", ".join(known)
            self.note(category, key, f"{key} is {value[:60]!a}; expected one of {names}.", f"Use one of {names}.")
            return None
        return value

    def client(self, key: str) -> InClient | None:
        """A client, perhaps with its model, or None."""
        value = self.text(key)
        return self._named(key, lambda: in_client(value)) if value else None

    def agents(self, key: str) -> AgentChoice | None:
        """The clients of the roles: one text for all, or a table; or None."""
        value = self.given(key, str, dict)
        return self._named(key, lambda: agent_choice(value)) if value else None

    def _named(self, key: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except UnknownClient as error:
            fix = f'Write {key} = "codex" or, for agents, {{ coder = "claude", reviewer = "codex" }}.'
            self.note("unknown_client", key, f"{key} is {error}.", fix)
            return None

    def command(self, key: str) -> str | tuple[str, ...] | None:
        """A shell line, or a program with its arguments; None if it is neither, or empty."""
        value = self.given(key, str, list)
        if isinstance(value, list):
            words = self.texts(key)
            if words is None or len(words) != len(value):
                return None
            if not words or not words[0].strip():
                self.note("missing_key", key, f"{key} names no program.", "Start the list with the program.")
                return None
            found: str | tuple[str, ...] = words
        elif value is None or not value.strip():
            return None
        else:
            found = value
        if "\0" in "".join(found):
            self.note("bounds", key, f"{key} contains a NUL character.", "Remove it.")
            return None
        return found

    def table(self, key: str) -> "TomlTable":
        """The table under `key`, empty if there is none."""
        return TomlTable(self.source, (*self.at, key), self.given(key, dict) or {}, self.problems, self.phase)

    def tables(self, key: str) -> list["TomlTable"]:
        """The tables of the list under `key`."""
        found = []
        for number, item in enumerate(self.given(key, list) or []):
            if isinstance(item, dict):
                found.append(TomlTable(self.source, (*self.at, key, number), item, self.problems, self.phase))
            else:
                message = f"An entry of {key} is {_kind(item)}; expected a table."
                self.note("wrong_type", (key, number), message, f"Write [[{key}]].")
        return found

    def rest(self) -> dict[str, object]:
        """The keys that were not read; each is reported as kept."""
        left = {key: value for key, value in self.value.items() if key not in self.asked}
        for key in left:
            message = f"faber does not know the key {key[:60]!a}; it is kept."
            fix = "No action needed, unless it is misspelled."
            self.note("unknown_key", key, message, fix, Severity.INFO)
        return left


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), type(value).__name__)
