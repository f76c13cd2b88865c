"""One run as a tree: what it is, who works on it, what it asks, its phases and steps, and what comes next. Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from faber.model.pauses import pause_text
from faber.text.columns import columns_of, fitted
from faber.view.run_view import PhaseView, Question, RunView, StepView
from faber.view.styled_lines import Span, Spans, below, clean, labelled, row
from faber.view.view_fold import DONE, elapsed

MARKS = {"pending": "·", "created": "·", "in_progress": "▶", "awaiting_feedback": "?", "failed": "✗", "skipped": "–"}
MARKS |= {"completed": "✓", "done": "✓", "decomposed": "⋔", "cancelled": "–", "healing": "▶"}
STYLES = {"in_progress": "now", "awaiting_feedback": "ask", "failed": "bad", "healing": "now"}
STYLES |= {"completed": "good", "done": "good", "decomposed": "good"}
LINES = 60  # of phases and steps, before the settled ones are counted instead
_AROUND = 3  # of the pending and the settled phases, those that are shown all the same
_EVENTS = 3
_NAME = 16  # columns that a name has at least
Spell = Callable[[str], str]


def tree(view: RunView, width: int, spell: Spell, *, whole: bool = False) -> list[Spans]:
    """The run in lines of at most `width` columns; only commands are longer, so that they can be copied.

    `spell` spells a command as the reader can run it. Of very many phases some are counted, unless `whole`.
    """
    return [
        *heading(view, width),
        *(line for asked in view.questions for line in question(asked, view.at, width, spell)),
        *phase_lines(view, width, whole=whole),
        *([[Span("Events", "dim")]] if view.events else []),
        *(event_row(view, number, width) for number in range(max(0, len(view.events) - _EVENTS), len(view.events))),
        *(labelled("Resume", resume_text(view), width) if view.resume else []),
        [Span(f"{'Next':8}", "dim"), Span(spell(view.next_command))],
    ]


def heading(view: RunView, width: int) -> Iterator[Spans]:
    """What the run is and how it stands, without its phases."""
    yield [Span(f"{'Run':8}", "dim"), Span(view.run_id, "now")]
    yield from labelled("Status", status_text(view), width, STYLES.get(view.status, ""))
    if view.error:
        yield from labelled("Error", view.error, width, "bad")
    if view.work_id:
        yield from labelled("Work", f"#{view.work_id}", width)
    if view.title:
        yield from labelled("Nebula" if view.nebula else "Task", view.title, width)
    if view.branch:
        yield from labelled("Branch", view.branch, width)
    if view.foreign:
        yield from labelled("Made by", "another tool", width)
    if said := working_text(view):
        yield from labelled("Now", said, width)
    if view.reopened:
        yield from labelled("Why", view.reopened, width, "ask")
    if view.paused:
        yield from labelled("Paused", pause_text(view.paused), width, "ask")


def status_text(view: RunView) -> str:
    """`in_progress at build:test · 4 of 11 steps · 8:19:00 · $1.20 of $5.00, $3.80 left · 1.2M tokens in, 30k out`."""
    at = ":".join(part for part in (view.current_phase, view.current_step) if part and not view.ended_at)
    parts = [f"{view.status} at {at}" if at else view.status, progress_text(view)]
    parts += [duration(view.elapsed_s)] if view.elapsed_s is not None else []
    parts += [money_text(view), tokens_text(view.money.tokens_in, view.money.tokens_out)]
    return " · ".join(part for part in parts if part)


def progress_text(view: RunView) -> str:
    """`4 of 11 steps`, with what failed and was skipped."""
    known = view.progress
    if not known.total:
        return ""
    more = [f"{count} {word}" for count, word in ((known.failed, "failed"), (known.skipped, "skipped")) if count]
    return ", ".join([f"{known.done} of {known.total} {'phases' if view.nebula else 'steps'}", *more])


def money_text(view: RunView) -> str:
    """`$1.20 of $5.00, $3.80 left`; empty where nothing was spent and nothing is limited."""
    allowed, spent = view.allowance, cost_text(view.money.cost_usd, view.unpriced_turns)
    if allowed.limit_usd is None or allowed.left_usd is None:
        return spent if view.money.cost_usd or view.unpriced_turns else ""
    kept = f" and ${allowed.reserve_left_usd:.2f} for healing" if allowed.reserve_left_usd else ""
    return f"{spent} of ${allowed.limit_usd:.2f}, ${allowed.left_usd:.2f} left{kept}"


def cost_text(cost: float, unpriced: int) -> str:
    """`$1.20`, and how many turns are not in it because nobody knows what they cost."""
    return f"${cost:.2f}" + (
        f" and {unpriced} turn{'s' * (unpriced > 1)} whose dollars are unknown" if unpriced else ""
    )


def tokens_text(into: int, out: int) -> str:
    """`1.2M tokens in, 30.1k out`; empty without any."""
    return f"{count_text(into)} tokens in, {count_text(out)} out" if into or out else ""


def count_text(number: int) -> str:
    """`999`, `12.3k`, `1.2M`."""
    if number < 1_000:
        return str(number)
    return f"{number / 1_000:.1f}k" if number < 999_950 else f"{number / 1_000_000:.1f}M"


def duration(seconds: float | None) -> str:
    """`0:42`, `12:03`, `3:04:05`; empty for None."""
    if seconds is None:
        return ""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def ago(since: str, now: str) -> str:
    """How long ago a time was: `40 s`, `5 min`, `3 h`, `12 days`; empty where that is unknown."""
    seconds = elapsed(since, now)
    if seconds is None:
        return ""
    for size, word in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {word}"
    return f"{int(seconds)} s"


def working_text(view: RunView) -> str:
    """Who works on the run, since when; that nobody does, where work is left; else nothing."""
    found = view.worker
    if found is None:
        return "" if view.ended_at or not view.nebula else "no process works on it"
    who = f"session {found.session_id}" if found.session_id else f"process {found.pid or 'unknown'}"
    who += f" of {found.client}" if found.client else ""
    since = f" since {found.since}" if found.since else ""
    seen = ago(found.seen, view.at)
    last = "; the session is over" if found.ended else f"; last event {seen} ago" if seen else ""
    return f"{who} works on it{since}{last}" if not found.ended else f"{who} worked on it{since}{last}"


def question(asked: Question, now: str, width: int, spell: Spell) -> Iterator[Spans]:
    """What a person is asked, since when, and the command that answers."""
    options = f" ({', '.join(asked.options)})" if asked.options else ""
    place = ":".join(part for part in (asked.phase, asked.step) if part)
    about = f" about {place}" if place else ""
    yield from labelled("Asks", f"{asked.prompt}{options}", width, "ask")
    waited = ago(asked.since, now)
    since = f"{asked.request_id}{about}, since {asked.since}{f' ({waited})' if waited else ''}"
    yield from below(since, width, 8, "dim")
    yield [Span(f"{'':8}{spell(asked.answer_with)}")]


def resume_text(view: RunView) -> str:
    """`build:implement, retry`."""
    point = view.resume
    if point is None:
        return ""
    place = ":".join(part for part in (point["phase"], point["step"]) if part)
    return ", ".join(part for part in (place, point["mode"].replace("_", " ")) if part)


def event_row(view: RunView, number: int, width: int) -> Spans:
    """One of the newest events: its time, type, place and what it says."""
    event = view.events[number]
    place = ":".join(part for part in (event.phase, event.step) if part)
    what = "  ".join(part for part in (event.type, place, event.text) if part)
    time = event.at[11:19] if event.at[:10] == view.at[:10] else event.at[:10]
    return row([Span(f"  {time:10}  ", "dim"), Span(what)], [], width)


# --- phases and steps ------------------------------------------------------------------------------


def phase_lines(view: RunView, width: int, *, whole: bool = False) -> Iterator[Spans]:
    """The phases with their steps."""
    chosen = _chosen(view.phases) if not whole and sum(1 + len(p.steps) for p in view.phases) > LINES else None
    asked = {each.phase for each in view.questions}
    left: dict[str, int] = {}
    for number, phase in enumerate(view.phases):
        if chosen is not None and number not in chosen:
            left[phase.status] = left.get(phase.status, 0) + 1
            continue
        yield from _counted(left, width)
        left = {}
        yield from phase_block(phase, width, asks=phase.id in asked, short=chosen is not None)
    yield from _counted(left, width)


def _chosen(phases: Sequence[PhaseView]) -> set[int]:
    """The numbers of the phases to show where there are too many: those that something happens in, and the nearest."""
    busy = [number for number, p in enumerate(phases) if p.status in ("in_progress", "failed") or p.request_id]
    settled = [number for number, p in enumerate(phases) if p.status in (*DONE, "skipped")]
    ahead = [number for number, p in enumerate(phases) if p.status in ("pending", "created")]
    return {*busy[: LINES // 4], *busy[-LINES // 4 :], *settled[-_AROUND:], *ahead[:_AROUND]}


def _counted(left: dict[str, int], width: int) -> Iterator[Spans]:
    if left:
        said = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in left.items())
        yield row([Span(f"  … {said} (--all shows them)", "dim")], [], width)


def phase_block(phase: PhaseView, width: int, *, asks: bool = False, short: bool = False) -> Iterator[Spans]:
    """A phase, why it failed, and its steps; `short`: only those steps that are not settled."""
    word = "awaiting_feedback" if asks else phase.stage if phase.stage == "healing" else phase.status
    notes = [f"cycle {phase.cycle}"] if phase.cycle else []
    notes += [phase.stage.replace("_", " ")] if phase.stage else []
    notes += [f"{phase.findings} open finding{'s' * (phase.findings != 1)}"] if phase.findings else []
    notes += [f"attempt {phase.attempts + 1}"] if phase.attempts else []
    notes += [f"remedies {phase.remedies}"] if phase.remedies else []
    notes += [tokens_text(phase.money.tokens_in, phase.money.tokens_out)] if width >= 72 else []
    cost = f"${phase.money.cost_usd:.2f}" if phase.money.cost_usd else ""
    yield _part(0, word, phase.id, notes, cost, phase.elapsed_s, width)
    steps = [step for step in phase.steps if not short or step.status in ("in_progress", "failed")]
    if phase.reason and not any(step.error for step in steps):
        yield from below(phase.reason, width, 4, "bad" if phase.status == "failed" else "")
    if phase.failing_filter and phase.status in ("in_progress", "failed"):
        yield from below(f"The filter {phase.failing_filter} failed last.", width, 4)
    if phase.remediation:
        yield from below(f"→ {phase.remediation} remedies it", width, 4)
    for step in steps:
        yield from step_block(step, width)


def step_block(step: StepView, width: int) -> Iterator[Spans]:
    """A step, and below it what it ended with, if that is more than success."""
    notes = [f"attempt {step.attempts}"] if step.attempts > 1 else []
    notes += ["evidence missing"] if step.blocked and step.status == "in_progress" else []
    notes += ["evidence waived"] if step.waived else []
    yield _part(4, step.status, step.id, notes, "", step.elapsed_s, width)
    if step.error:
        yield from below(step.error, width, 8, "bad")
    elif step.message and (step.warning or step.status == "skipped"):
        yield from below(step.message, width, 8)
    elif step.warning:
        yield from below("with a warning", width, 8)


def _part(
    indent: int, status: str, name: str, notes: Iterable[str], cost: str, seconds: float | None, width: int
) -> Spans:
    style = STYLES.get(status, "dim" if status in ("pending", "created") else "")
    said = ", ".join(note for note in notes if note)
    ends = [part for part in (cost, f"{duration(seconds):>8}" if seconds is not None else " " * 8) if part]
    end = " ".join(ends) if seconds is not None or cost else ""
    # Of a long name so much is cut that what is said of it can be read.
    room = max(_NAME, width - indent - 2 - columns_of(said) - 2 - (columns_of(end) + 1 if end else 0))
    shown = fitted(clean(name), room if said else width)
    left = [Span(f"{' ' * indent}{MARKS[status]} ", style), Span(shown, "dim" if style == "dim" else "")]
    return row([*left, Span(f"  {said}" if said else "", "dim")], [Span(end, "dim")] if end else [], width)
