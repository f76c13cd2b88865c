"""Many runs, a few lines each, and one run in one line. Pure."""

from collections.abc import Iterator, Sequence

from faber.foreign.run_rows import DamagedRow, FoundRuns
from faber.model.documents import CLOSED
from faber.model.pauses import pause_text
from faber.text.columns import columns_of, fitted
from faber.text.safe_text import one_line
from faber.view.run_view import RunView
from faber.view.styled_lines import Span, Spans, below, clean
from faber.view.tree_text import MARKS, STYLES, Spell, ago, duration, money_text, progress_text, working_text

SEPARATOR = " · "
_PROMPT = 200  # characters of a question


def board(views: Sequence[RunView], damaged: Sequence[DamagedRow], width: int, spell: Spell) -> list[Spans]:
    """Each run's id alone on its line, to be selected whole, and what there is to know about it below.

    `spell` spells the commands in faber's own prose.
    """
    lines: list[Spans] = []
    if not views and not damaged:
        lines.append([Span(spell("No run is open. `faber run init` creates one."))])
    for view in views:
        lines += entry(view, width, spell)
    for row in damaged:
        lines.append([Span(row["run_id"], "now")])
        said = f"damaged: {row['error']['code']}; see `faber doctor {row['run_id']}`"
        lines.append([Span(spell(f"  {said}"), "bad")])  # whole, so that it can be copied
    return lines


def left_out(found: FoundRuns) -> Iterator[Spans]:
    """How many runs a list does not show."""
    if found.more:
        shown = max(len(found.runs), len(found.damaged))
        yield [Span(f"({found.more} more; --limit {shown + found.more} shows them)", "dim")]
    if found.hidden:
        yield [Span(f"({found.hidden} completed or cancelled; --all shows them)", "dim")]


def entry(view: RunView, width: int, spell: Spell) -> Iterator[Spans]:
    """One run of the board."""
    at = ":".join(part for part in (view.current_phase, view.current_step) if part and not view.ended_at)
    about = [progress_text(view) if view.started_at else "", duration(view.elapsed_s), money_text(view)]
    about += [f"work item {view.work_id}" if view.work_id else ""]
    if view.title and (view.nebula or not view.work_id):
        about.append(f"nebula {view.title}" if view.nebula else view.title)
    about += [f"branch {view.branch}" if view.branch else ""]
    yield [Span(view.run_id, "now")]
    yield from _packed(f"{view.status} at {at}" if at else view.status, STYLES.get(view.status, ""), about, width)
    if view.worker and not view.worker.ended:
        yield from below(working_text(view), width, 2, "dim")
    if view.foreign and view.status not in CLOSED:
        yield [Span(spell(f"  made by another tool; first `faber run adopt {view.run_id}`"))]
    for asked in view.questions[:1]:
        options = f" ({', '.join(map(clean, asked.options))})" if asked.options else ""
        yield from below(f"waits for a person: {one_line(asked.prompt, _PROMPT)}{options}", width, 2, "ask")
        more = f"; {len(view.questions) - 1} more" if len(view.questions) > 1 else ""
        yield from below(f"asked {ago(asked.since, view.at) or 'some time'} ago{more}", width, 2, "dim")
    if view.paused:
        yield from below(f"paused: {pause_text(view.paused)}", width, 2, "ask")


def _packed(status: str, style: str, parts: Sequence[str], width: int) -> Iterator[Spans]:
    """The parts in indented lines, as many in each as fit; one that fits in none is cut."""
    line, taken = [Span("  "), Span(status, style)], 2 + columns_of(status)
    for part in map(clean, filter(None, parts)):
        part = fitted(part, width - 2)
        more = columns_of(part)
        if taken + len(SEPARATOR) + more > width:
            yield line
            line, taken = [Span(f"  {part}")], 2 + more
        else:
            line, taken = [*line, Span(f"{SEPARATOR}{part}")], taken + len(SEPARATOR) + more
    yield line


def one_row(view: RunView, others: int = 0) -> str:
    """The run in one line without a length limit, for a prompt or a status line: `▶ build:test 4/11 8:19:00 $1.20`.

    What waits for a person comes first. `others` counts the other open runs.
    """
    known = view.progress
    at = ":".join(part for part in (view.current_phase, view.current_step) if part and not view.ended_at)
    waits = [f"asks: {one_line(view.questions[0].prompt, 60)}"] if view.questions else []
    waits += (
        ["paused" + (f" until {view.paused['waiting_until']}" if view.paused["waiting_until"] else "")]
        if (view.paused)
        else []
    )
    mark = MARKS["awaiting_feedback"] if view.questions else MARKS[view.status]
    name = view.title if view.nebula else at or (f"#{view.work_id}" if view.work_id else view.run_id)
    parts = [*waits, one_line(name, 60), f"{known.done}/{known.total}" if known.total else ""]
    parts += [view.status.replace("_", " ") if view.status not in ("in_progress", "awaiting_feedback") else ""]
    parts += [duration(view.elapsed_s), f"${view.money.cost_usd:.2f}" if view.money.cost_usd else ""]
    more = f"(+{others})" if others else ""
    return " ".join([mark, SEPARATOR.join(filter(None, parts)), more]).rstrip()
