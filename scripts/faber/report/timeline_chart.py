"""The timeline as rows of SVG, to scale: every length is a share of the width, so that it fits any page."""

from collections.abc import Iterable, Iterator, Sequence

from faber.report.charts import columns, data_table
from faber.report.elements import Markup, element, together
from faber.report.facts import RunReport
from faber.report.wording import count, day_and_time, lasted, percent, status_word
from faber.text.safe_text import one_line
from faber.view.timeline import FailureMark, Timeline, TimeSpan

ROWS = 40  # phases with a row of their own; of more, those that do not overlap share one, without failed checks
LEAST = 2_000  # shorter than this part of the whole is not drawn inside a shared row
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)
WORDS = 200  # waits and failures that are listed
_WAITS = {"person": "waited for a person", "limit": "waited for the service"}
_HEIGHT = 24


def timeline_section(report: RunReport) -> Markup:
    """The axis, then a row for sessions, waits, limits and each phase."""
    line = report.timeline
    if not line.spans:
        return element("p", "Nothing has happened yet.")
    rows = [*_common(line), *_phases(report)]
    return together([element("div", _axis(line), *rows, class_="timeline"), _legend(report), _in_words(line)])


def _in_words(line: Timeline) -> Markup | None:
    """What happened beside the work, for those who do not see the picture, and for its texts."""
    found = [
        (span.start, span.label, lasted(span.end - span.start), _WAITS[span.kind])
        for span in line.of("person", "limit")
    ]
    found += [
        (m.at, m.label, "", f"{m.phase or 'the run'} failed" if m.grave else f"check of {m.phase}") for m in line.marks
    ]
    if not found:
        return None
    rows = [
        element(
            "tr",
            element("td", day_and_time(at), class_="when"),
            element("th", what, scope="row"),
            element("td", one_line(said, 300)),
            element("td", took, class_="number"),
        )
        for at, said, took, what in sorted(found)[:WORDS]
    ]
    more = len(found) - WORDS
    note = element("p", f"{count(more, 'later entry', 'later entries')}: the log has them.", class_="aside")
    heads = columns(("When (UTC)", "What", "What was said", "Lasted"), numbers=(3,))
    table = data_table("Waits and failures", heads, rows, class_="main")
    summary = element("summary", f"Waits and failures in words ({len(found):,})")
    return element("details", summary, table, note if more > 0 else None)


def _common(line: Timeline) -> Iterator[Markup]:
    for kind, name in (("session", "Sessions"), ("person", "Waits for people"), ("limit", "Waits for the service")):
        spans = line.of(kind)  # type: ignore[arg-type]
        if not spans:
            continue
        total = lasted(line.seconds(kind))  # type: ignore[arg-type]
        for number, lane in enumerate(_lanes(spans)):
            yield _row(name if number == 0 else "", f"{total}" if number == 0 else "", line, lane, ())
    loose = [mark for mark in line.marks if mark.phase is None]
    if loose:
        yield _row("Failures of the run", str(len(loose)), line, (), loose)


def _phases(report: RunReport) -> Iterator[Markup]:
    line = report.timeline
    names = list(dict.fromkeys(span.phase for span in line.of("phase") if span.phase is not None))
    inside: dict[str, list[TimeSpan]] = {name: [] for name in names}
    for span in line.of("phase", "step", "cycle"):
        inside.setdefault(span.phase or "", []).append(span)
    marks: dict[str, list[FailureMark]] = {}
    for mark in line.marks:
        marks.setdefault(mark.phase or "", []).append(mark)
    if len(names) <= ROWS:
        took = {phase.id: lasted(phase.elapsed_s) for phase in report.view.phases}
        yield from (_row(name, took.get(name, ""), line, inside[name], marks.get(name, ())) for name in names)
        return
    for number, lane in enumerate(_lanes(line.of("phase"))):
        held = list(dict.fromkeys(span.phase or "" for span in lane))
        least = (line.end - line.start) / LEAST
        spans = [*lane, *(s for n in held for s in inside[n] if s.kind != "phase" and s.end - s.start > least)]
        label = count(len(held), "phase")
        grave = [mark for name in held for mark in marks.get(name, ()) if mark.grave]
        yield _row(f"Lane {number + 1}", label, line, spans, grave)


def _lanes(spans: Sequence[TimeSpan]) -> list[list[TimeSpan]]:
    """The spans in as few rows as they need not to overlap; where that is more than `ROWS`, some do."""
    lanes: list[list[TimeSpan]] = []
    for span in spans:
        free = next((lane for lane in lanes if lane[-1].end <= span.start), None)
        if free is None and len(lanes) < ROWS:
            lanes.append([span])
        else:
            (free or min(lanes, key=lambda lane: lane[-1].end)).append(span)
    return lanes


def _row(name: str, aside: str, line: Timeline, spans: Iterable[TimeSpan], marks: Iterable[FailureMark]) -> Markup:
    spans, marks = list(spans), list(marks)
    inner = {"step", "cycle"} & {span.kind for span in spans}
    drawn = [_bar(line, span, bool(inner)) for span in spans]
    said = f"{name}: {count(len(spans), 'span')}" + (f", {count(len(marks), 'failure')}" if marks else "")
    return element(
        "div",
        element("div", element("span", name, class_="name"), element("span", aside, class_="aside"), class_="label"),
        element(
            "svg",
            _grid(line),
            *drawn,
            *(_failure(line, mark) for mark in marks),
            class_="track",
            width="100%",
            height=_HEIGHT,
            role="img",
            aria_label=said,
        ),
        class_="row",
    )


def _bar(line: Timeline, span: TimeSpan, inner: bool) -> Markup:
    whole = line.end - line.start
    back = span.kind == "phase" and inner
    height = 18 if back else 10
    took = lasted(span.end - span.start)
    title = f"{one_line(span.label, 120)}: {day_and_time(span.start)}, {took}, {status_word(span.outcome)}"
    return element(
        "rect",
        element("title", title),
        x=percent(span.start - line.start, whole),
        y=(_HEIGHT - height) // 2,
        width=percent(span.end - span.start, whole),
        height=height,
        rx=2,
        class_=f"bar {span.kind} {span.outcome}{' back' if back else ''}",
    )


def _failure(line: Timeline, mark: FailureMark) -> Markup:
    return element(
        "text",
        "✕" if mark.grave else "!",
        element("title", f"{day_and_time(mark.at)}: {one_line(mark.label, 200)}"),
        x=percent(mark.at - line.start, line.end - line.start),
        y=16,
        text_anchor="middle",
        class_=f"mark {'grave' if mark.grave else 'check'}",
    )


# --- the axis --------------------------------------------------------------------------------------


def _ticks(line: Timeline) -> list[float]:
    """Three to seven round times."""
    whole = line.end - line.start
    step = next((each for each in _STEPS if whole / each <= 6), max(_STEPS[-1], whole / 6))
    first = -(-line.start // step) * step
    return [first + number * step for number in range(7) if first + number * step <= line.end] if whole else []


def _grid(line: Timeline) -> Markup:
    whole = line.end - line.start
    places = [percent(tick - line.start, whole) for tick in _ticks(line)]
    return together(element("line", x1=at, x2=at, y1=0, y2=_HEIGHT, class_="grid") for at in places)


def _axis(line: Timeline) -> Markup:
    whole = line.end - line.start
    by_second, by_day = whole < 600, whole > 86_400
    labels, shown = [], ""
    for tick in _ticks(line):
        at = day_and_time(tick)
        day, _, clock = at.partition(" ")
        clock += f":{int(tick) % 60:02}" if by_second else ""
        text = clock if not by_day else day[5:] if clock == "00:00" else f"{day[5:]} {clock}" if day != shown else clock
        shown = day
        place = (tick - line.start) / whole
        anchor = "start" if place < 0.05 else "end" if place > 0.95 else "middle"
        labels.append(element("text", text, x=percent(place, 1), y=15, text_anchor=anchor, class_="tick"))
    day = day_and_time(line.start).partition(" ")[0]
    return element(
        "div",
        element("div", element("span", f"{day}, UTC", class_="aside"), class_="label"),
        element("svg", *labels, class_="track", width="100%", height=_HEIGHT, aria_hidden="true"),
        class_="row axis",
    )


def _legend(report: RunReport) -> Markup:
    inner = ("cycle", "cycle") if report.view.nebula else ("step", "step")
    kinds = {span.kind for span in report.timeline.spans}
    items = [
        ("session", "session"),
        ("phase back", "phase"),
        inner,
        ("person", "wait for a person"),
        ("limit", "wait for the service"),
    ]
    shown = [(style, text) for style, text in items if style.split(" ")[0] in kinds]
    keys = [element("li", _swatch(f"bar {style}"), text) for style, text in shown]
    if any(span.outcome == "interrupted" for span in report.timeline.spans):
        keys.append(element("li", _swatch("bar cycle interrupted"), "interrupted"))
    if any(mark.grave for mark in report.timeline.marks):
        keys.append(element("li", element("span", "✕", class_="mark grave", aria_hidden="true"), "failure"))
    if len(report.view.phases) <= ROWS and not all(mark.grave for mark in report.timeline.marks):
        keys.append(element("li", element("span", "!", class_="mark check", aria_hidden="true"), "failed check"))
    return element("ul", *keys, class_="legend")


def _swatch(style: str) -> Markup:
    rect = element("rect", x=0, y=0, width=14, height=10, rx=2, class_=style)
    return element("svg", rect, width=14, height=10, aria_hidden="true")
