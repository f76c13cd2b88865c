"""What `faber watch` shows: the picture of one moment in lines, and what a key changes. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from faber.foreign.run_rows import DamagedRow
from faber.model.documents import CLOSED
from faber.model.pauses import pause_text
from faber.view.board_text import board, entry
from faber.view.run_view import PhaseView, Question, RunView
from faber.view.styled_lines import Span, Spans, labelled, row
from faber.view.tree_text import (
    STYLES,
    Spell,
    duration,
    event_row,
    money_text,
    phase_block,
    progress_text,
    question,
    tokens_text,
    working_text,
)

UP, DOWN, ENTER, BACK, RESPOND, QUIT = "up", "down", "enter", "back", "respond", "quit"
_BAR = 16
_EVENTS = 4
_FULL, _EMPTY = "█", "░"


class Watching(NamedTuple):
    """What a person looks at: the number of the selected phase or run, whether its details are shown, and the run that
    was opened from the board (empty: the board, or the only run)."""

    selected: int = 0
    details: bool = False
    opened: str = ""


class Scene(NamedTuple):
    """What there is to see: one run (`views` has one, `board` is false) or all; `outlook` is what is said of the queue
    and the time that is left, each a name and a text."""

    views: Sequence[RunView]
    board: bool = False
    damaged: Sequence[DamagedRow] = ()
    outlook: Sequence[tuple[str, str]] = ()
    notice: str = ""


def shown_run(scene: Scene, at: Watching) -> RunView | None:
    """The run that fills the screen; None where the board does."""
    if not scene.board:
        return scene.views[0] if scene.views else None
    return next((view for view in scene.views if view.run_id == at.opened), None)


def pressed(key: str, at: Watching, scene: Scene) -> Watching:
    """What is looked at after a key."""
    view = shown_run(scene, at)
    many = len(view.phases) if view else len(scene.views)
    selected = min(max(0, at.selected), max(0, many - 1))
    if key in (UP, DOWN):
        return at._replace(selected=min(max(0, selected + (1 if key == DOWN else -1)), max(0, many - 1)))
    if key == ENTER and view is None and many:
        return Watching(0, False, scene.views[selected].run_id)
    if key == ENTER:
        return at._replace(selected=selected, details=not at.details)
    if key == BACK:
        return at._replace(details=False) if at.details else Watching()
    return at._replace(selected=selected)


def asked_of(scene: Scene, at: Watching) -> tuple[str, Question] | None:
    """The run and the request that `r` answers: that of the selected phase or run, else the oldest."""
    view = shown_run(scene, at)
    if view is None and scene.views:
        view = scene.views[min(at.selected, len(scene.views) - 1)]
    if view is None or not view.questions:
        return None
    about = view.phases[at.selected].id if at.selected < len(view.phases) and shown_run(scene, at) else None
    return view.run_id, next((each for each in view.questions if each.phase == about), view.questions[0])


def frame(scene: Scene, at: Watching, width: int, height: int, spell: Spell) -> list[Spans]:
    """The picture in at most `height` lines of at most `width` columns."""
    view = shown_run(scene, at)
    lines = _board(scene, at, width, height - 1, spell) if view is None else _run(view, scene, at, width, height - 1)
    keys = "r respond  " if asked_of(scene, at) else ""
    keys += "q quit  ↑↓ select  Enter details" + ("  Esc back" if at.details or (scene.board and view) else "")
    return [*lines[: height - 1], row([Span(scene.notice or keys, "ask" if scene.notice else "dim")], [], width)]


def _board(scene: Scene, at: Watching, width: int, room: int, spell: Spell) -> list[Spans]:
    blocks = [list(entry(view, width, spell)) for view in scene.views]
    selected = min(at.selected, max(0, len(blocks) - 1))
    if blocks:
        head, *rest = blocks[selected]
        blocks[selected] = [[Span(span.text, "chosen") for span in head], *rest]
    if not blocks or scene.damaged:
        blocks.append(board([], scene.damaged, width, spell))
    return _window(blocks, selected, room, width)


def _run(view: RunView, scene: Scene, at: Watching, width: int, room: int) -> list[Spans]:
    lines: list[Spans] = [_title(view, width)]
    lines += labelled("Error", view.error, width, "bad") if view.error else []
    lines += labelled("Why", view.reopened, width, "ask") if view.reopened else []
    lines += labelled("Paused", pause_text(view.paused), width, "ask") if view.paused else []
    for asked in view.questions[: 1 if room < 30 else 3]:
        told = [*question(asked, view.at, width, str)][:-1]  # a key stands for the command, which is too long
        lines += told if room >= 30 else told[: max(2, room // 5)]
    lines += _bars(view, width)
    lines += [line for name, text in scene.outlook for line in labelled(name.capitalize(), text, width)]
    events = view.events[-(_EVENTS if room >= 16 else 1) :] if room >= 10 else ()
    first = len(view.events) - len(events)
    tail = [event_row(view, number, width) for number in range(first, len(view.events))]
    middle = max(1, room - len(lines) - len(tail))
    selected = min(at.selected, max(0, len(view.phases) - 1))
    if at.details and view.phases:
        blocks = [_details(view.phases[selected], width)]
        return [*lines, *_window(blocks, 0, middle, width), *tail]
    # Every phase in one line, so that a thousand cost no more than those that fit.
    begin = _begin(len(view.phases), selected, middle)
    blocks = []
    for number, phase in enumerate(view.phases[begin : begin + middle], begin):
        line, *_ = phase_block(phase, width, asks=phase.request_id is not None)
        blocks.append([[Span(span.text, "chosen") for span in line]] if number == selected else [line])
    shown = [line for block in blocks for line in block]
    return [*lines, *shown, *([[Span("")]] * (middle - len(shown))), *tail]


def _title(view: RunView, width: int) -> Spans:
    name = view.title or (f"#{view.work_id}" if view.work_id else view.run_id)
    ending = f"{view.status.replace('_', ' ')}  {duration(view.elapsed_s)}".rstrip()
    return row([Span(name, "now")], [Span(ending, STYLES.get(view.status, ""))], width)


def _bars(view: RunView, width: int) -> list[Spans]:
    """How far the run is, and its budget."""
    known, allowed = view.progress, view.allowance
    lines: list[Spans] = []
    if known.total:
        lines.append(_bar("Done", (known.done + known.skipped) / known.total, progress_text(view), width))
    money, tokens = money_text(view), tokens_text(view.money.tokens_in, view.money.tokens_out)
    if allowed.limit_usd:
        lines.append(_bar("Budget", view.money.cost_usd / allowed.limit_usd, money, width))
        money = ""
    if said := " · ".join(filter(None, [money, tokens])):
        lines += labelled("Spent", said, width)
    if said := working_text(view):
        lines += labelled("Now", said, width)
    return lines


def _bar(label: str, part: float, text: str, width: int) -> Spans:
    full = min(_BAR, max(0, round(part * _BAR))) if width >= 50 else 0
    bar = f"{_FULL * full}{_EMPTY * (_BAR - full)}  " if width >= 50 else ""
    return row([Span(f"{label:8}", "dim"), Span(bar), Span(text)], [], width)


def _details(phase: PhaseView, width: int) -> list[Spans]:
    """All that is known of one phase."""
    known = {
        "Started": phase.started_at,
        "Ended": phase.ended_at,
        "Cycles": f"{phase.cycles_done} done" if phase.cycles_done else None,
        "Tokens": tokens_text(phase.money.tokens_in, phase.money.tokens_out),
        "Turns": str(phase.money.turns) if phase.money.turns else None,
        "Denied": f"{phase.denials} calls" if phase.denials else None,
        "Failure": phase.failure,
        "Healing": phase.not_healed,
        "Commit": phase.merged or phase.commit,
    }
    return [
        *phase_block(phase, width, asks=phase.request_id is not None),
        *(line for label, text in known.items() if text for line in labelled(label, text, width)),
    ]


def _begin(many: int, selected: int, room: int) -> int:
    """The first of `many` lines to show, so that the selected one is in sight."""
    return max(0, min(selected - room // 2, many - room))


def _window(blocks: Sequence[Sequence[Spans]], selected: int, room: int, width: int) -> list[Spans]:
    """As many whole blocks around the selected one as fit, filled up with empty lines."""
    first = last = selected
    used = len(blocks[selected]) if blocks else 0
    while blocks:
        if last + 1 < len(blocks) and used + len(blocks[last + 1]) <= room:
            last += 1
            used += len(blocks[last])
        elif first > 0 and used + len(blocks[first - 1]) <= room:
            first -= 1
            used += len(blocks[first])
        else:
            break
    shown = [line for block in blocks[first : last + 1] for line in block][:room]
    return [*shown, *([[Span("")]] * (room - len(shown)))]


def over(view: RunView) -> bool:
    """True if watching ends: the run has ended, or waits for a person."""
    return view.status in CLOSED or view.status in ("failed", "awaiting_feedback")
