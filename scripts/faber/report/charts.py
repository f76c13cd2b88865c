"""Findings over cycles, and money and tokens by cause and by phase: tables with bars in them."""

from collections.abc import Container, Iterable, Mapping

from faber.events import event_types
from faber.events.drafts import Event
from faber.report.elements import Markup, element, together
from faber.report.facts import RunReport
from faber.report.wording import count, dollars, percent, share
from faber.view.causes import CAUSES, Cause
from faber.view.run_view import Money
from faber.view.tree_text import count_text

ROWS = 40  # phases in a table
CYCLES = 12


def findings_section(report: RunReport) -> Markup:
    """The open findings at the end of each cycle, phase by phase; what was approved is marked."""
    found = cycles_of(report.events)
    rows = {name: cycles for name, cycles in found.items() if len(cycles) > 1 or any(f for f, _ in cycles.values())}
    if not report.view.nebula:
        return element("p", "Only a nebula's phases are reviewed in cycles.")
    if not rows:
        said = "No reviewer found anything." if found else "No cycle has ended yet."
        return element("p", said)
    most = max(number for cycles in rows.values() for number, _ in cycles.values()) or 1
    last = min(CYCLES, max(max(cycles) for cycles in rows.values()))
    chosen = sorted(rows, key=lambda name: -len(rows[name]))[:ROWS]
    body = [
        element(
            "tr",
            element("th", name, scope="row"),
            *(_cell(rows[name].get(number), most) for number in range(1, last + 1)),
        )
        for name in rows
        if name in chosen
    ]
    heads = [element("th", str(number), scope="col", class_="number") for number in range(1, last + 1)]
    quiet = len(found) - len(rows)
    notes = [f"{count(quiet, 'more phase')} had no findings and one cycle." if quiet else ""]
    notes.append(f"Cycles after the {CYCLES}th are left out." if max(map(max, rows.values())) > CYCLES else "")
    notes.append(f"{count(len(rows) - len(chosen), 'more phase')} with fewer cycles." if len(rows) > ROWS else "")
    heads = [element("th", "Phase", scope="col"), *heads]
    table = data_table("Open findings after each cycle", heads, body, class_="narrow")
    return together([table, *(element("p", note, class_="aside") for note in notes if note)])


def cycles_of(events: Iterable[Event]) -> dict[str, dict[int, tuple[int, bool]]]:
    """By phase and cycle: how many findings were open at its end, and whether its work was approved."""
    found: dict[str, dict[int, tuple[int, bool]]] = {}
    for event in events:
        given = event.get("metadata") or {}
        if event["type"] not in (event_types.REVIEW, event_types.CYCLE_COMPLETE) or "phase" not in event:
            continue
        cycle, open_ones = given.get("cycle"), given.get("findings")
        if isinstance(cycle, int) and isinstance(open_ones, int):
            cycles = found.setdefault(event["phase"], {})
            approved = event.get("status") == "approved" or cycles.get(cycle, (0, False))[1]
            cycles[cycle] = (open_ones, approved)
    return found


def _cell(found: tuple[int, bool] | None, most: int) -> Markup:
    if found is None:
        return element("td", class_="number")
    number, approved = found
    high = round(18 * number / most)
    bar = element("rect", x=0, y=18 - high, width=10, height=high, class_="findings") if number else None
    picture = element("svg", bar, width=10, height=18, aria_hidden="true")
    said = (
        element("span", "✓", class_="good", title="approved", role="img", aria_label="approved") if approved else None
    )
    return element("td", picture, f" {number} ", said, class_="number")


# --- money -----------------------------------------------------------------------------------------


def money_section(report: RunReport) -> Markup:
    """What each cause cost, and each phase by cause."""
    if not report.view.nebula:
        text = "faber counts the agents that it starts itself. What a session costs, its client knows."
        return element("p", text)
    total, causes = report.spending.total, report.spending.by_cause()
    if not total.turns:
        return element("p", "No agent has worked yet.")
    rows = [
        element(
            "tr",
            element("th", _dot(cause), cause, scope="row"),
            element("td", CAUSES[cause]),
            *_figures(spent),
            element("td", _part(spent, total), class_="number"),
        )
        for cause, spent in causes.items()
    ]
    rows.append(element("tr", element("th", "all", scope="row"), element("td"), *_figures(total), element("td")))
    heads = ("Cause", "What it is", "Money", "Tokens in", "Tokens out", "Turns", "Share")
    by_cause = data_table("Money and tokens by cause", columns(heads, numbers=range(2, 9)), rows)
    return together([_bar(causes, total, total), by_cause, _by_phase(report)])


def _by_phase(report: RunReport) -> Markup:
    phases = report.spending.by_phase()
    sums = {name: _added(found.values()) for name, found in phases.items()}
    dearest = sorted(phases, key=lambda name: (-sums[name].cost_usd, -sums[name].turns))
    shown = set(dearest[:ROWS])
    most = max(sums.values(), key=_size)
    rows = [
        _phase_row(name or "phases that are gone", phases[name], sums[name], most) for name in phases if name in shown
    ]
    rest = [name for name in phases if name not in shown]
    if rest:
        found = {cause: _added(phases[n][cause] for n in rest if cause in phases[n]) for cause in CAUSES}
        found = {cause: spent for cause, spent in found.items() if spent.turns}
        rows.append(_phase_row(f"{len(rest)} cheaper phases", found, _added(found.values()), None))
    heads = ("Phase", "By cause", "Money", "Tokens in", "Tokens out", "Turns")
    return data_table("Money and tokens by phase", columns(heads, numbers=range(2, 9)), rows)


def _phase_row(name: str, found: Mapping[Cause, Money], spent: Money, most: Money | None) -> Markup:
    bar = _bar(found, spent, most) if most is not None else None
    return element("tr", element("th", name, scope="row"), element("td", bar, class_="wide"), *_figures(spent))


def _bar(found: Mapping[Cause, Money], spent: Money, most: Money) -> Markup:
    """The causes one after the other, by money; by tokens or turns where there is none."""
    whole, at, parts = _size(most), 0.0, []
    for cause, part in found.items():
        size = _size(part)[0 if most.cost_usd else 1]
        full = whole[0 if most.cost_usd else 1] or 1
        title = element("title", f"{cause}: {dollars(part.cost_usd)}, {count(part.turns, 'turn')}")
        place = {"x": percent(at, full), "width": percent(size, full)}
        parts.append(element("rect", title, y=0, height=14, class_=f"cause {cause}", **place))
        at += size
    said = ", ".join(f"{cause} {share(part.cost_usd, spent.cost_usd)}" for cause, part in found.items())
    return element("svg", *parts, width="100%", height=14, role="img", aria_label=said, class_="bars")


def _size(money: Money) -> tuple[float, float]:
    return money.cost_usd, float(money.tokens_in + money.tokens_out or money.turns)


def _added(found: Iterable[Money]) -> Money:
    sums = [sum(column) for column in zip(*found, strict=True)] or [0, 0, 0, 0]
    return Money(round(sums[0], 6), int(sums[1]), int(sums[2]), int(sums[3]))


def _part(spent: Money, total: Money) -> str:
    if total.cost_usd:
        return share(spent.cost_usd, total.cost_usd)
    return share(_size(spent)[1], _size(total)[1])


def _figures(spent: Money) -> list[Markup]:
    said = (dollars(spent.cost_usd), count_text(spent.tokens_in), count_text(spent.tokens_out), f"{spent.turns:,}")
    return [element("td", text, class_="number") for text in said]


def _dot(cause: Cause) -> Markup:
    rect = element("rect", x=0, y=0, width=10, height=10, rx=2, class_=f"cause {cause}")
    return element("svg", rect, width=14, height=10, aria_hidden="true")


def columns(names: Iterable[str], *, numbers: Container[int] = ()) -> list[Markup]:
    """The heads of columns, of which those at `numbers` hold numbers."""
    return [
        element("th", name, scope="col", class_="number" if place in numbers else None)
        for place, name in enumerate(names)
    ]


def data_table(caption: str, heads: Iterable[Markup], rows: Iterable[Markup], class_: str | None = None) -> Markup:
    """A table that scrolls by itself where the page is too narrow; `caption` is its name."""
    table = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *heads)),
        element("tbody", *rows),
        class_=class_,
    )
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=caption)
