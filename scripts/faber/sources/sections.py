"""The meaning of a specification's headings, and the content of their sections. Pure."""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Mapping
from typing import NamedTuple

from faber.sources.markdown import Heading, Item, Outline, outline, split_front_matter
from faber.sources.spec_files import files
from faber.sources.specification_document import SpecificationParts, SpecifiedPhase, SpecifiedTask

_FILE_WORDS = (
    "to|be|and|or|create|created|modify|modified|change|changed|changes|update|updated|add|added|edit|touch|touched"
    "|delete|deleted|remove|removed|affected|involved|impacted"
)

# Patterns match a heading normalised by `_plain`; the first pattern that any heading matches wins.
_HEADINGS: dict[str, tuple[str, ...]] = {
    "summary": (
        r"(executive |project |feature )?(summary|overview)",
        r"(summary|overview) .*|abstract|tl ?dr|introduction|description|purpose",
    ),
    "goals": (
        r"((project|primary|key|main|business) )?(goals?|objectives?|aims?)( and (non goals|objectives|goals))?",
        r"what we want|desired outcomes?",
    ),
    "functional_requirements": (
        r"functional requirements?",
        r"((key|core|product|user|feature|main) )?requirements?",
    ),
    "acceptance_criteria": (
        r"((user )?acceptance criteri(a|on)|success criteri(a|on)|definition of done|acceptance tests?|done when)",
    ),
    "technical_approach": (
        r"(technical|implementation|solution|proposed|design|architectural) (approach|design|solution|architecture)",
        r"approach|(technical |implementation )?(architecture|design|strategy|details)|(proposed )?solution",
    ),
    "files_to_modify": (
        rf"((new|key|affected|modified|changed|relevant|impacted) )?files?( ({_FILE_WORDS}))*|file changes",
    ),
    "phases": (
        r"(implementation|development|delivery|execution|work|project) (phases?|plan|tasks?|steps|roadmap|checklist)",
        r"phases|tasks|task (list|breakdown)|plan|milestones|roadmap|implementation",
    ),
}

_PHASE = re.compile(r"(phase|stage|milestone|step|part) ([0-9]+|[ivx]+|[a-z])( .*)?")
_NUMBERING = re.compile(r"(?:\d+(?:\.\d+)*[.):]?|[ivx]+[.)]|[a-z][.)])\s+")
_FIELD = re.compile(r"^[ \t]*(?:[-*+][ \t]+)?(?:\*\*|__)?(Type|Status)(?:\*\*|__)?[ \t]*:(.+)$", re.I | re.M)
# Only this much of a heading is matched, so that no heading can make the patterns slow.
_TITLE = 200


class _Document(NamedTuple):
    """An outline with normalised headings, and the line of each item for bisecting."""

    outline: Outline
    plain: list[str]
    item_lines: list[int]

    def items(self, start: int, end: int) -> list[Item]:
        first, past = bisect_left(self.item_lines, start), bisect_left(self.item_lines, end)
        return [item for item in self.outline.items[first:past] if item.text]


def extract(text: str) -> tuple[SpecificationParts, str | None]:
    """`(the parts, the problem of the front matter or None)`."""
    front, body, problem = split_front_matter(text)
    parts = outline(body)
    document = _Document(parts, [plain(h.title) for h in parts.headings], [item.line for item in parts.items])
    found = {key: _sections(document, patterns) for key, patterns in _HEADINGS.items()}
    fields = _fields(parts)

    def section(key: str) -> str | None:
        return (parts.text(found[key][0]) or None) if found[key] else None

    return {
        "title": _plain_value(front, "title") or _first_title(parts),
        "type": _plain_value(front, "type") or fields.get("type"),
        "status": _plain_value(front, "status") or fields.get("status"),
        "summary": section("summary"),
        "goals": section("goals"),
        "functional_requirements": section("functional_requirements"),
        "acceptance_criteria": _criteria(document, found["acceptance_criteria"]),
        "technical_approach": section("technical_approach"),
        "files_to_modify": files(parts, found["files_to_modify"]),
        "phases": _phases(document, found["phases"], found["acceptance_criteria"]),
        "front_matter": front,
    }, problem


def plain(title: str) -> str:
    """A heading without numbering, markup, emoji, brackets and case: `2.1 🎯 *Goals* (draft):` is `goals`."""
    text = unicodedata.normalize("NFKC", title[:_TITLE]).casefold().replace("&", " and ")
    text = re.sub(r"\([^()]*\)", " ", text)
    text = "".join(c if c.isalnum() or c in ".):" else " " for c in text).lstrip(" .):")
    text = _NUMBERING.sub("", text + " ", count=1) if _NUMBERING.match(text + " ") else text
    return " ".join("".join(c if c.isalnum() else " " for c in text).split())


def _sections(document: _Document, patterns: tuple[str, ...]) -> list[Heading]:
    """The headings of the first pattern that matches any, without those inside another of them."""
    everything = slice(0, len(document.plain))
    return next((found for pattern in patterns if (found := _matching(document, everything, re.compile(pattern)))), [])


def _matching(document: _Document, among: slice, expression: re.Pattern[str]) -> list[Heading]:
    result: list[Heading] = []
    for heading, title in zip(document.outline.headings[among], document.plain[among], strict=True):
        if expression.fullmatch(title) and (not result or heading.line >= result[-1].end):
            result.append(heading)
    return result


def _first_title(parts: Outline) -> str | None:
    return next((heading.title for heading in parts.headings if heading.level == 1 and heading.title), None)


def _fields(parts: Outline) -> dict[str, str]:
    first = next((heading.line for heading in parts.headings if heading.level > 1), len(parts.lines))
    lines = "\n".join(parts.lines[:first])
    return {name.lower(): value.strip(" \t*_") for name, value in reversed(_FIELD.findall(lines))}


def _plain_value(front: Mapping[str, object], key: str) -> str | None:
    value = next((value for name, value in front.items() if name.lower() == key), None)
    return str(value) if isinstance(value, (str, int, float)) and str(value) else None


# --- the content of sections ------------------------------------------------------------------------


def _tasks(items: list[Item]) -> list[SpecifiedTask]:
    """The checkboxes among the items, at any depth; without checkboxes, the items at the top level.

    A bullet under a checkbox explains it; a checkbox under a checkbox is separate work.
    """
    boxes = [item for item in items if item.done is not None]
    return [
        {"text": item.text, "done": bool(item.done)} for item in boxes or [item for item in items if item.depth == 0]
    ]


def _criteria(document: _Document, sections: list[Heading]) -> list[SpecifiedTask]:
    lines = [line for line, _ in document.outline.paragraphs]
    criteria: list[SpecifiedTask] = []
    for section in sections:
        tasks = _tasks(document.items(section.body, section.end))
        first, past = bisect_left(lines, section.body), bisect_left(lines, section.end)
        criteria += tasks or [
            {"text": " ".join(text.split()), "done": False} for _, text in document.outline.paragraphs[first:past]
        ]
    return criteria


def _phases(document: _Document, plans: list[Heading], criteria: list[Heading]) -> list[SpecifiedPhase]:
    # The acceptance criteria of a phase are separated from its tasks, unless a plan is inside them.
    starts = [section.line for section in criteria]

    def is_criterion(item: Item, phase: Heading) -> bool:
        before = bisect_left(starts, item.line) - 1
        return before >= 0 and item.line < criteria[before].end and criteria[before].line > phase.line

    def as_phase(heading: Heading) -> SpecifiedPhase:
        items = document.items(heading.body, heading.end)
        tasks = _tasks([item for item in items if not is_criterion(item, heading)])
        return {
            "title": heading.title,
            "tasks": tasks,
            "done": sum(task["done"] for task in tasks),
            "total": len(tasks),
        }

    lines = [heading.line for heading in document.outline.headings]
    for plan in plans:
        among = slice(bisect_left(lines, plan.body), bisect_left(lines, plan.end))
        inside = document.outline.headings[among]
        level = min((heading.level for heading in inside), default=0)
        chosen = _matching(document, among, _PHASE) or [heading for heading in inside if heading.level == level]
        if chosen:
            return [as_phase(heading) for heading in chosen]
        if document.items(plan.body, plan.end):
            return [as_phase(plan)]
    return [as_phase(heading) for heading in _matching(document, slice(0, len(lines)), _PHASE)]
