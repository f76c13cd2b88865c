"""Fitting a context into a budget: long parts first, whole items, the least valuable first, every cut counted.

Four rounds over the rows of `ROWS`, from the least valuable to the most: in each round a row's items are shortened and
then dropped, as far as that round goes, until the context fits. What is left out or shortened is counted by comparing
what was there with what is left.
"""

import json
import re
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

from faber.context.context_document import ConsolidatedContext, Omission
from faber.text.program_word import command

DEFAULT_MAX_CHARS = 24_000
SMALLEST_MAX_CHARS = 4_000

# The parts of a context that `omitted` counts, and the command that shows one whole.
PARTS = {
    "spec": "faber context {} --part spec",
    "issue": "faber context {} --part issue",
    "branch": "faber context {} --part branch",
    "sessions": "faber context {} --part sessions",
    "events": "faber context {} --part events",
    "decisions": "faber context {} --part decisions",
    "errors": "faber context {} --part errors",
    "steps": "faber context {} --part steps",
    "answers": "faber feedback history {}",
    "warnings": "faber context {} --format text",
    "reopened": "faber next {}",
    "nebula": "faber status {} --format json",
    "run": "faber run show {}",
}
EVERYTHING = "context"

# Those that are shown alone, in pages.
PAGED = tuple(part for part, shown in PARTS.items() if shown.endswith(f" --part {part}"))

ALL = 1_000_000
Four = tuple[int, int, int, int]


class Row(NamedTuple):
    """A list, a text (its items are paragraphs and list entries) or an object that is cut.

    `keep` and `chars` say for each round how many items stay, and how long their texts may be. Items go from the front
    unless `from_end`; those that are `routine` go first. A `whole` row is one item; `fixed` entries of an object stay.
    """

    part: str
    path: str
    keep: Four
    chars: Four = (500, 200, 100, 60)
    from_end: bool = False
    routine: Callable[[Any], bool] | None = None
    whole: bool = False
    fixed: tuple[str, ...] = ()


class Left(NamedTuple):
    """How many items a path has left, and how many of these are shortened."""

    items: int
    shortened: int


# The least valuable first.
ROWS = (
    Row("spec", "spec.content", (0, 0, 0, 0), whole=True),
    Row("spec", "spec.front_matter", (0, 0, 0, 0), whole=True),
    Row("issue", "issue.comments", (10, 3, 0, 0)),
    Row("sessions", "session_history.all_summaries", (10, 3, 0, 0), (200, 100, 100, 60)),
    Row("sessions", "session_history.latest", (1, 1, 1, 0), whole=True),
    Row("events", "events", (10, 5, 0, 0), routine=lambda event: not event.get("notable")),
    Row("branch", "branch.files_changed", (20, 5, 0, 0), from_end=True),
    Row("branch", "branch.dirty_files", (20, 5, 0, 0), from_end=True),
    Row("branch", "branch.commits", (10, 3, 1, 0), from_end=True),
    Row("branch", "branch.commits_since_session", (10, 3, 0, 0), from_end=True),
    Row("answers", "answers", (5, 3, 0, 0)),
    Row("warnings", "warnings", (10, 5, 1, 0), from_end=True, routine=lambda warning: warning["severity"] == "INFO"),
    Row("run", "artifacts", (50, 10, 2, 0), fixed=("branch_name", "spec_path")),
    Row("sessions", "session_summary.files_changed", (20, 5, 0, 0), from_end=True),
    Row("spec", "spec.files_to_modify", (20, 5, 0, 0), from_end=True),
    Row("spec", "spec.phases", (10, 3, 0, 0), from_end=True),
    Row("spec", "spec.technical_approach", (10, 3, 1, 1), from_end=True),
    Row("issue", "issue.labels", (20, 5, 0, 0), from_end=True),
    Row("issue", "issue.description", (10, 3, 0, 0), from_end=True),
    Row("sessions", "session_summary.remaining_phases", (20, 5, 0, 0), from_end=True),
    Row("spec", "spec.functional_requirements", (20, 8, 1, 1), from_end=True),
    Row("spec", "spec.goals", (10, 3, 0, 0), from_end=True),
    Row("spec", "spec.summary", (10, 3, 1, 0), from_end=True),
    Row("spec", "spec.acceptance_criteria", (20, 8, 1, 0), from_end=True),
    Row("steps", "step_messages", (30, 8, 0, 0)),
    Row("sessions", "session_summary.accomplished", (20, 8, 1, 0)),
    Row("sessions", "session_summary.context_notes", (20, 5, 1, 0), from_end=True),
    Row("run", "next_steps.remaining", (20, 8, 1, 1), from_end=True),
    Row("nebula", "failures", (10, 5, 1, 0), from_end=True),
    Row("nebula", "nebula.phases", (20, 10, 1, 0), from_end=True),
    Row("errors", "overcome_errors", (5, 5, 3, 1)),
    Row("answers", "feedback_request.context", (1, 1, 0, 0), whole=True),
    Row("answers", "feedback", (5, 5, 1, 1)),
    Row("sessions", "session_summary.decisions", (ALL, ALL, 3, 1)),
    Row("reopened", "reopened.evidence", (5, 3, 2, 1), (4_000, 1_500, 500, 200), from_end=True),
    Row("errors", "unresolved_errors", (ALL, ALL, 5, 1)),
    Row("decisions", "decisions_made", (ALL, ALL, 10, 1)),
)
_ROUNDS = range(4)
# Where nothing may be dropped any more, and the rest is still too long: every text but these gets shorter.
_EXACT = frozenset(
    {
        "answer_with", "branch_name", "code", "command", "mode", "option", "phase", "request_id", "run_id", "severity",
        "show", "source", "spec_path", "status", "step", "switch_with", "what", "work_id",
    }
)  # fmt: skip
_SQUEEZED = (1_000, 500, 250, 120, 60, 30)

_printed = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
# Room in an entry of `omitted` for larger numbers.
_GROWTH = 40


def size(value: object) -> int:
    """Characters of `value` as it is printed."""
    return len(_printed(value))


def fit(context: ConsolidatedContext, max_chars: int | None, program: str = "faber") -> ConsolidatedContext:
    """`context` cut to a line of `max_chars` characters (None: no limit), with `omitted` filled; itself not changed.

    `program` is how the commands in `omitted` call faber.
    """
    if max_chars is None or size(context) < max_chars:  # a newline ends the line
        return context
    cutting = _Cutting(context, program)
    for number, row in product(_ROUNDS, ROWS):
        over = cutting.size + 1 - max_chars
        if over <= 0:
            break
        cutting.cut(row, number, over)
    for limit in _SQUEEZED:
        if cutting.size < max_chars:
            break
        cutting.squeeze(limit)
    if cutting.size >= max_chars:
        cutting.sum_up()
    return cutting.context


def squeeze(value: Any, limit: int) -> Any:
    """`value` with every text in it shortened to `limit` characters, but ids and commands."""
    if isinstance(value, str):
        return value if len(value) <= limit else value[: limit - 1].rstrip() + "…"
    if isinstance(value, list):
        return [squeeze(item, limit) for item in value]
    if isinstance(value, dict):
        return {key: entry if key in _EXACT else squeeze(entry, limit) for key, entry in value.items()}
    return value


# --- items -----------------------------------------------------------------------------------------

_LISTED = r"\s{0,3}(?:[-*+]|\d{1,3}[.)])\s"


def items_of(text: str) -> list[str]:
    """The paragraphs and list entries of a text, each with the blank lines after it; joined by newlines, the text."""
    found: list[str] = []
    ended = False
    for line in text.split("\n"):
        blank = not line.strip()
        if not found or (not blank and found[-1].strip() and (ended or re.match(_LISTED, line))):
            found.append(line)
        else:
            found[-1] += "\n" + line
        ended = blank
    return found


def _holder(context: Any, path: str) -> tuple[Any, str]:
    *parents, last = path.split(".")
    for name in parents:
        context = context.get(name) if isinstance(context, dict) else None
    return (context if isinstance(context, dict) else {}), last


def _value(context: Any, row: Row) -> Any:
    holder, key = _holder(context, row.path)
    return holder.get(key)


def _items(context: Any, row: Row) -> list[Any]:
    """The items of a row that may be cut."""
    value = _value(context, row)
    if not value or (isinstance(value, str) and not value.strip()):
        return []
    if row.whole:
        return [value]
    if isinstance(value, str):
        return items_of(value)
    if isinstance(value, dict):
        return [{name: value[name]} for name in value if name not in row.fixed]
    return list(value)


def _put(context: Any, row: Row, items: Sequence[Any]) -> None:
    holder, key = _holder(context, row.path)
    value = holder[key]
    if row.whole:
        holder[key] = items[0] if items else None
    elif isinstance(value, str):
        holder[key] = "\n".join(items).rstrip("\n") if items else None
    elif isinstance(value, dict):
        holder[key] = {name: value[name] for name in row.fixed if name in value}
        for item in items:
            holder[key] |= item
    else:
        holder[key] = list(items)


class _Cutting:
    """A context while it is cut; `omitted` and `size` are true after every cut."""

    def __init__(self, context: ConsolidatedContext, program: str) -> None:
        self.context: ConsolidatedContext = json.loads(json.dumps(context))
        self.size = size(context)
        self.program = program
        self.before = {row.path: _items(context, row) for row in ROWS}
        # Of each path, how many items are left, and how many of these are shortened.
        self.left = {path: Left(len(items), 0) for path, items in self.before.items()}
        self.whole: dict[str, set[str]] = {}  # items before the first cut
        # What never was in the context.
        self.more = {entry["what"]: entry["of"] - entry["kept"] for entry in context["omitted"]}

    def cut(self, row: Row, number: int, over: int) -> None:
        """Save about `over` characters of a row: its items are shortened, then dropped, as far as the round goes."""
        items = _items(self.context, row)
        if not items:
            return
        listed = any(entry["what"] == row.part for entry in self.context["omitted"])
        over += _GROWTH if listed else _GROWTH + size(self._omission(row.part))
        left = _cut(items, row, number, over)
        if left == items:
            return
        self.size -= size(_value(self.context, row)) + size(self.context["omitted"])
        _put(self.context, row, left)
        self._count(row, left)
        self.size += size(_value(self.context, row)) + size(self.context["omitted"])

    def squeeze(self, limit: int) -> None:
        """Shorten every text that is left to `limit` characters, but ids and commands."""
        self.context = squeeze(self.context, limit)
        for row in ROWS:
            self._count(row, _items(self.context, row))
        self.size = size(self.context)

    def sum_up(self) -> None:
        """One entry of `omitted` for all parts: with long ids and paths, the entries alone are most of a budget."""
        entries = self.context["omitted"]
        kept, of = sum(entry["kept"] for entry in entries), sum(entry["of"] for entry in entries)
        self.context["omitted"] = [omission(EVERYTHING, kept, of, self.context["run_id"], self.program)]

    def _count(self, row: Row, items: list[Any]) -> None:
        """Bring `omitted` up to date: `items` is what is left of the row."""
        if row.path not in self.whole:
            self.whole[row.path] = {_text(item) for item in self.before[row.path]}
        shortened = sum(_text(item) not in self.whole[row.path] for item in items)
        self.left[row.path] = Left(len(items), shortened)
        entry = self._omission(row.part)
        entries = {each["what"]: each for each in self.context["omitted"]}
        if entry["kept"] < entry["of"] or shortened:
            entries[row.part] = entry
        self.context["omitted"] = [entries[part] for part in PARTS if part in entries]

    def _omission(self, part: str) -> Omission:
        paths = [row.path for row in ROWS if row.part == part]
        total = sum(len(self.before[path]) for path in paths) + self.more.get(part, 0)
        kept = sum(self.left[path].items for path in paths)
        entry = omission(part, kept, total, self.context["run_id"], self.program)
        if shortened := sum(self.left[path].shortened for path in paths):
            entry["shortened"] = shortened
        return entry


def _cut(items: list[Any], row: Row, number: int, over: int) -> list[Any]:
    order = list(range(len(items)))
    if row.from_end:
        order.reverse()
    if row.routine:
        routine = [row.routine(item) for item in items]
        order.sort(key=lambda index: not routine[index])
    saved, left = 0, dict(enumerate(items))
    for index in order if not row.whole else ():
        if saved >= over:
            break
        left[index] = _shortened(items[index], row.chars[number])
        saved += size(items[index]) - size(left[index])
    for index in order:
        if saved >= over or len(left) <= row.keep[number]:
            break
        saved += size(left.pop(index)) - 2  # the quotes or braces are not always saved
    return [left[index] for index in sorted(left)]


def _shortened(item: Any, limit: int) -> Any:
    """An item with its texts shortened; a paragraph keeps the blank lines that part it from the next."""
    made = squeeze(item, limit)
    return made.rstrip("\n") + item[len(item.rstrip("\n")) :] if isinstance(item, str) else made


def _text(item: Any) -> str:
    """What tells an item from a shortened one."""
    return item.rstrip() if isinstance(item, str) else _printed(item)


def omission(part: str, kept: int, total: int, run_id: str, program: str = "faber") -> Omission:
    """The entry of `omitted` for a part of which `kept` of `total` items are left."""
    shown = command(PARTS.get(part, f"faber context {{}} --max-chars {DEFAULT_MAX_CHARS}").format(run_id), program)
    return {"what": part, "kept": kept, "of": total, "unit": "items", "command": shown}
