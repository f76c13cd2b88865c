"""The graph of a run's phases: what waits for what, what remedies what, and what was repeated; as SVG."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from faber.report.elements import Markup, element, together
from faber.report.facts import RunReport
from faber.report.wording import MARKS, status_word, tone
from faber.text.safe_text import cut
from faber.view.run_view import PhaseView

MOST, SOME = 120, 40  # phases; of more, those that failed or are in progress, and their neighbours
_WIDE, _HIGH, _ACROSS, _DOWN = 168, 44, 56, 16
_NAME = 21


class _Place(NamedTuple):
    x: int
    y: int


def graph_section(report: RunReport) -> Markup:
    """The graph, and what its lines mean."""
    phases = {phase.id: phase for phase in report.view.phases}
    if not phases:
        return element("p", "The run has no phases yet.")
    needs = _needs(report)
    remedies = [(phase.id, phase.remediation) for phase in phases.values() if phase.remediation in phases]
    loops = [(failed, back) for failed, back, _ in report.view.loops if failed in phases and back in phases]
    shown = _shown(phases, needs, [*remedies, *loops])
    left_out = len(phases) - len(shown)
    needs |= direct_needs(shown, needs)
    places = _places(shown, needs, remedies)
    lines = [
        *(_edge(places[other], places[name], "needs") for name in shown for other in needs[name] if other in places),
        *(_edge(places[a], places[b], "remedies") for a, b in remedies if a in places and b in places),
        *(_back(places[a], places[b]) for a, b in dict.fromkeys(loops) if a in places and b in places),
    ]
    wide = max(place.x for place in places.values()) + _WIDE + 2
    high = max(place.y for place in places.values()) + _HIGH + (28 if loops else 2)
    picture = element(
        "svg",
        _arrows(),
        *lines,
        *(_box(phases[name], places[name]) for name in shown),
        width=wide,
        height=high,
        viewBox=f"0 0 {wide} {high}",
        role="img",
        aria_label=f"Graph of {len(shown)} phases, from left to right",
        class_="graph",
    )
    said = [element("li", _key("needs"), "waits for")]
    said += [element("li", _key("remedies"), "is remedied by")] if remedies else []
    said += [element("li", _key("repeats"), "went back to")] if loops else []
    note = (
        element("p", f"{left_out:,} more phases are left out: they have no failed or working neighbour.")
        if left_out
        else None
    )
    if report.view.nebula and not report.waits_for:
        note = element("p", "The nebula's files are gone: what its phases wait for is not known.")
    box = element("div", picture, class_="scroll", tabindex=0, role="region", aria_label="Graph of the phases")
    return together([box, element("ul", *said, class_="legend"), note])


def _needs(report: RunReport) -> dict[str, list[str]]:
    """What each phase waits for: a workflow's the one before it; a nebula's as its files say, the last remediation
    instead of a failed phase."""
    names = [phase.id for phase in report.view.phases]
    known = set(names)  # the files may have been changed since, and have others
    if not report.view.nebula:
        return {name: names[number - 1 : number] if number else [] for number, name in enumerate(names)}
    instead = {phase.id: phase.remediation for phase in report.view.phases if phase.remediation in known}
    found = {}
    for name in names:
        needed = []
        for other in (each for each in report.waits_for.get(name, ()) if each in known):
            seen = {other}
            while (following := instead.get(other)) is not None and following not in seen and following != name:
                other = following
                seen.add(other)
            needed.append(other)
        found[name] = list(dict.fromkeys(needed))
    return found


def direct_needs(shown: Sequence[str], needs: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The same without what follows from the rest: a phase that another one of them waits for."""
    bits = {name: 1 << number for number, name in enumerate(needs)}
    behind: dict[str, int] = {}  # sets of phases as numbers: a chain of thousands has millions of pairs
    stack = list(shown)
    while stack:
        name = stack[-1]
        missing = [other for other in needs[name] if other not in behind and other not in stack]
        if missing:
            stack.append(missing[0])
        else:
            behind.setdefault(name, 0)
            for other in needs[name]:
                behind[name] |= bits[other] | behind.get(other, 0)
            stack.pop()
    return {
        name: [o for o in needs[name] if not any(bits[o] & behind[other] for other in needs[name] if other != o)]
        for name in shown
    }


def _shown(phases: Mapping[str, PhaseView], needs: Mapping[str, Sequence[str]], pairs: Sequence[object]) -> list[str]:
    if len(phases) <= MOST:
        return list(phases)
    odd = {name for name, phase in phases.items() if tone(phase.status) not in ("good", "none")}
    odd |= {name for pair in pairs for name in pair}  # type: ignore[attr-defined]
    near = {other for name in odd for other in needs[name]} | {n for n in phases if odd & set(needs[n])}
    kept = [name for name in phases if name in odd] + [name for name in phases if name in near - odd]
    return kept[:SOME] or list(phases)[:SOME]


def _places(
    shown: Sequence[str], needs: Mapping[str, Sequence[str]], remedies: Sequence[tuple[str, str | None]]
) -> dict[str, _Place]:
    """Each phase right of those that it waits for, and a remediation right of what it remedies."""
    before = {name: [other for other in needs[name] if other in set(shown)] for name in shown}
    for failed, new in remedies:
        if new in before and failed in before:
            before[str(new)].append(failed)
    column: dict[str, int] = {}

    def place(name: str) -> int:
        stack = [name]
        while stack:
            top = stack[-1]
            missing = [other for other in before[top] if other not in column and other not in stack]
            if missing:
                stack.append(missing[0])
            else:
                column[top] = 1 + max((column.get(other, -1) for other in before[top]), default=-1)
                stack.pop()
        return column[name]

    rows: dict[int, list[str]] = {}
    for name in shown:
        rows.setdefault(column[name] if name in column else place(name), []).append(name)
    rows = {at: [name for name in shown if column[name] == at] for at in sorted(set(column.values()))}
    order: dict[str, float] = {}
    found: dict[str, _Place] = {}
    tallest = max(len(names) for names in rows.values())
    for at, names in rows.items():
        # Next to what it waits for, so that lines cross rarely.
        names.sort(key=lambda name: sum(order[o] for o in before[name] if o in order) / max(1, len(before[name])))
        indent = (tallest - len(names)) * (_HIGH + _DOWN) // 2
        for row, name in enumerate(names):
            found[name] = _Place(1 + at * (_WIDE + _ACROSS), 1 + indent + row * (_HIGH + _DOWN))
            order[name] = found[name].y
    return found


def _box(phase: PhaseView, place: _Place) -> Markup:
    mood = tone(phase.status)
    said = f"{MARKS[mood]} {status_word(phase.stage or phase.status)}"
    if phase.cycle:
        said += f", cycle {phase.cycle}"
    return element(
        "g",
        element("title", f"{phase.name}: {said}"),
        element("rect", x=place.x, y=place.y, width=_WIDE, height=_HIGH, rx=6, class_=f"node {mood}"),
        element("text", cut(phase.id, _NAME), x=place.x + 12, y=place.y + 19, class_="id"),
        element("text", cut(said, _NAME + 3), x=place.x + 12, y=place.y + 35, class_=f"said {mood}"),
    )


def _edge(start: _Place, end: _Place, kind: str) -> Markup:
    x1, y1, x2, y2 = start.x + _WIDE, start.y + _HIGH // 2, end.x, end.y + _HIGH // 2
    bend = max(24, (x2 - x1) // 2)
    if x2 <= x1:  # in the same column or before it
        x1, x2, bend = start.x + _WIDE // 2, end.x + _WIDE // 2, 0
        y1, y2 = (start.y + _HIGH, end.y) if end.y > start.y else (start.y, end.y + _HIGH)
    path = f"M{x1} {y1} C{x1 + bend} {y1} {x2 - bend} {y2} {x2 - 5} {y2}"
    return element("path", d=path, class_=f"edge {kind}", marker_end=f"url(#to-{kind})")


def _back(start: _Place, end: _Place) -> Markup:
    """A loop below the boxes."""
    x1, x2, y = start.x + _WIDE // 2, end.x + _WIDE // 2, max(start.y, end.y) + _HIGH
    if start == end:
        x1, x2 = x1 + 24, x2 - 24
    path = f"M{x1} {y} C{x1} {y + 26} {x2} {y + 26} {x2} {y + 6}"
    return element("path", d=path, class_="edge repeats", marker_end="url(#to-repeats)")


def _arrows() -> Markup:
    heads = [
        element(
            "marker",
            element("path", d="M0 0L8 4L0 8z", class_=f"head {kind}"),
            id=f"to-{kind}",
            viewBox="0 0 8 8",
            refX=6,
            refY=4,
            markerWidth=7,
            markerHeight=7,
            orient="auto",
        )
        for kind in ("needs", "remedies", "repeats")
    ]
    return element("defs", *heads)


def _key(kind: str) -> Markup:
    line = element("path", d="M0 5 L24 5", class_=f"edge {kind}")
    return element("svg", line, width=24, height=10, aria_hidden="true")
