"""What was asked and what came of it, in ten lines that a manager reads. Pure."""

from typing import NamedTuple

from faber.events.event_types import REVIEW
from faber.report.facts import RunReport
from faber.report.wording import count, day_and_time, dollars, lasted, share, status_word
from faber.text.safe_text import one_line, sentence
from faber.view.causes import CAUSES
from faber.view.tree_text import count_text

_TEXT = 280


class SummaryLine(NamedTuple):
    """One line: its name and what it says."""

    name: str
    text: str


def summary_of(report: RunReport) -> list[SummaryLine]:
    """At most ten lines, the most important first."""
    lines = [
        SummaryLine("Asked", _asked(report)),
        SummaryLine("Result", _result(report)),
        SummaryLine("Progress", _progress(report)),
        SummaryLine("Time", _time(report)),
        SummaryLine("Money", _money(report)),
        SummaryLine("Reviews", _reviews(report)),
        SummaryLine("Failures", _failures(report)),
        SummaryLine("People", _people(report)),
        SummaryLine("Changes", _changes(report)),
        SummaryLine("Not proven", _unproven(report)),
    ]
    return [line for line in lines if line.text]


def _asked(report: RunReport) -> str:
    asked, title = report.asked, one_line(report.asked.title, _TEXT)
    named = f"{title} ({asked.source})" if asked.source and asked.source != title else title
    return f"{sentence(named)} {one_line(asked.text, _TEXT)}".rstrip()


def _result(report: RunReport) -> str:
    view = report.view
    if view.status == "completed":
        landed = any(made.kind == "land" for made in report.record.commits)
        return "Completed." + (" Its work is landed." if landed else "")
    if view.questions:
        asked = view.questions[0]
        more = f" and {len(view.questions) - 1} more" if len(view.questions) > 1 else ""
        since = day_and_time(asked.since)
        return f"Waits for a person since {since}: {sentence(one_line(asked.prompt, _TEXT))}{more}"
    if view.paused is not None:
        until = view.paused["waiting_until"]
        over = f" until {day_and_time(until)}" if until else ""
        return f"Waits for the service{over}: {sentence(one_line(view.paused['message'], _TEXT))}"
    word = status_word(view.status).capitalize()
    return f"{word}: {sentence(one_line(view.error, _TEXT))}" if view.error else f"{word}."


def _progress(report: RunReport) -> str:
    found, things = report.view.progress, "phases" if report.view.nebula else "steps"
    said = f"{found.done} of {count(found.total, things[:-1])} done"
    rest = [(found.running, "in progress"), (found.failed, "failed"), (found.skipped, "skipped")]
    return ", ".join([said, *(f"{number} {word}" for number, word in rest if number)]) + "."


def _time(report: RunReport) -> str:
    view, line = report.view, report.timeline
    if view.started_at is None:
        return "It has not started."
    begun, ended = day_and_time(view.started_at), day_and_time(view.ended_at)
    said = f"{lasted(view.elapsed_s)} from {begun}"
    said += f" to {ended[11:] if ended[:11] == begun[:11] else ended}" if view.ended_at else ""
    waits = [(line.seconds("person"), "people"), (line.seconds("limit"), "the service")]
    named = [f"{lasted(seconds)} for {whom}" for seconds, whom in waits if seconds >= 0.5]
    return f"{said} (UTC)" + (f"; waited {' and '.join(named)}." if named else ".")


def _money(report: RunReport) -> str:
    view = report.view
    if not view.nebula:
        return "Not measured: the session's client bills it, and faber is not told."
    spent = view.money
    said = f"{dollars(spent.cost_usd)}"
    said += f" and {count(view.unpriced_turns, 'turn')} whose dollars are unknown" if view.unpriced_turns else ""
    if view.allowance.limit_usd is not None:
        said += f" of {dollars(view.allowance.limit_usd)}"
    said += f", {count(spent.turns, 'turn')} of agents"
    if spent.tokens_in or spent.tokens_out:
        said += f", {count_text(spent.tokens_in)} tokens in, {count_text(spent.tokens_out)} out"
    causes = report.spending.by_cause()
    named = [
        f"{share(found.cost_usd, spent.cost_usd)} {cause}"
        for cause in CAUSES
        if cause != "work" and (found := causes.get(cause)) and found.cost_usd
    ]
    return f"{said}; {', '.join(named)}." if named else f"{said}."


def _reviews(report: RunReport) -> str:
    view = report.view
    if not view.nebula:
        return ""
    cycles = sum(phase.cycles_done for phase in view.phases)
    reviews = [event.get("status") for event in report.events if event["type"] == REVIEW]
    found = sum(phase.findings for phase in view.phases if phase.remediation is None)
    said = f"{count(cycles, 'cycle')}, {count(len(reviews), 'review')}, {reviews.count('approved')} approved"
    return f"{said}; {count(found, 'finding is', 'findings are')} still open."


def _failures(report: RunReport) -> str:
    grave = [mark for mark in report.timeline.marks if mark.grave]
    small = len(report.timeline.marks) - len(grave)
    if not grave and not small:
        return "None."
    said = count(len(grave), "failure") + (f", {count(small, 'failed check')}" if small else "")
    healed = sum(status in ("done", "completed") for _, _, status in report.view.healing)
    if report.view.healing:
        said += f"; {healed} of {len(report.view.healing)} healed"
    if report.view.loops:
        said += f"; {count(len(report.view.loops), 'return')} to an earlier phase"
    return f"{said}."


def _people(report: RunReport) -> str:
    asked = report.record.requests
    open_ones = len(report.view.questions)
    answered = sum(bool(request["answers"]) for request in asked)
    decided = len(report.record.decisions)
    if not asked and not decided:
        return "Nobody was asked."
    said = f"Asked {count(len(asked), 'time')}, {answered} answered" if asked else "Nobody was asked"
    said += f", {open_ones} open" if open_ones else ""
    return f"{said}; {count(decided, 'decision')} recorded."


def _changes(report: RunReport) -> str:
    made = {commit.sha for commit in report.record.commits}
    files = {path for found in report.commits.values() for _, path in found.files}
    if not made:
        return "No commit is recorded."
    said = count(len(made), "commit") + (f", {count(len(files), 'file')}" if files else "")
    return f"{said}, on {one_line(report.view.branch, 100)}." if report.view.branch else f"{said}."


def _unproven(report: RunReport) -> str:
    record = report.record
    parts = [
        count(len(record.unproven), "part is not proven", "parts are not proven") if record.unproven else "",
        count(len(record.skipped), "was skipped", "were skipped") if record.skipped else "",
        count(len(report.notices), "problem") + " in the record" if report.notices else "",
    ]
    named = [part for part in parts if part]
    return f"{', '.join(named)}: see below." if named else "Nothing was skipped, and nothing is unproven."
