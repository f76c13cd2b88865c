"""The parts of the page that are lists and tables: phases, decisions, answers, commits, what is unproven, the log."""

import re
from collections.abc import Iterable, Sequence

from faber.events.drafts import Event
from faber.events.event_types import COMMAND_REFUSED, TURNS_REFUSED, UnknownEventType, event_type
from faber.report.charts import columns, data_table
from faber.report.elements import Markup, element, together
from faber.report.facts import RunReport, notice_lines
from faber.report.wording import MARKS, count, day_and_time, dollars, lasted, status_word, tone
from faber.text.safe_text import one_line
from faber.view.run_record import CommitMade
from faber.view.run_view import PhaseView

PHASES = 200
ENTRIES = 300
FILES = 12
CHUNK = 100  # rows of the log that a browser lays out together
LONG = 100  # events of a log that is not printed
_TEXT = 600
_DIGEST = re.compile("[0-9a-f]{40,64}")
_KINDS = {"commit": "", "cycle": "a coder's cycle", "merge": "merge of the phase", "land": "landed"}
_UNPROVEN = {
    "missing": "Evidence is missing",
    "waived": "A person did without the evidence",
    "warning": "Completed with a warning",
    "not_healed": "Failed and not healed",
}


def phases_section(report: RunReport) -> Markup:
    """A row for each phase; a workflow's with its steps."""
    rows = together(_phase(phase, report) for phase in report.view.phases[:PHASES])
    nebula = report.view.nebula
    heads = ["Phase", "Status", "Took", *(["Cycles", "Findings", "Money"] if nebula else ["Attempts"]), "What it says"]
    table = data_table(
        "Phases and their results", columns(heads, numbers=range(2, len(heads) - 1)), [rows], class_="main"
    )
    more = len(report.view.phases) - PHASES
    note = element("p", f"{count(more, 'more phase')}: the log has them.", class_="aside") if more > 0 else None
    return together([table, note])


def _phase(phase: PhaseView, report: RunReport) -> Markup:
    title = report.titles.get(phase.id, phase.name)
    name = element("th", phase.id, scope="row")
    if title.casefold() != phase.id.casefold():
        name = element("th", phase.id, element("br"), element("span", title, class_="aside"), scope="row")
    said = phase.reason or phase.not_healed or ""
    said += f" → remedied by {phase.remediation}" if phase.remediation else ""
    said += f" remedies {phase.remedies}" if phase.remedies else ""
    if report.view.nebula:
        numbers = [str(phase.cycles_done or phase.cycle or "–"), str(phase.findings), dollars(phase.money.cost_usd)]
    else:
        numbers = [""]
    cells = [
        element("td", status_of(phase.status)),
        element("td", lasted(phase.elapsed_s), class_="number"),
        *(element("td", number, class_="number") for number in numbers),
        element("td", one_line(said, _TEXT)),
    ]
    steps = [
        element(
            "tr",
            element("th", step.name if step.name != step.id else step.id, scope="row", class_="step"),
            element("td", status_of(step.status)),
            element("td", lasted(step.elapsed_s), class_="number"),
            element("td", str(step.attempts or "–"), class_="number"),
            element("td", one_line(step.error or step.message or "", _TEXT)),
        )
        for step in phase.steps
    ]
    return together([element("tr", name, *cells, class_="phase" if steps else None), *steps])


def status_of(status: str) -> Markup:
    """A status with its mark."""
    mood = tone(status)
    return element("span", f"{MARKS[mood]} {status_word(status)}", class_=f"status {mood}")


# --- people ----------------------------------------------------------------------------------------


def people_section(report: RunReport) -> Markup:
    """Questions with their answers, and decisions, in the order of the log, with who gave them."""
    found: list[tuple[int, Markup]] = []
    for request in report.record.requests:
        answers = [
            element(
                "p",
                element("strong", answer["response"]),
                f" – {_responder(answer['responder'])}, {day_and_time(str(answer['at'] or ''))}",
                "" if answer["counted"] else " (came second, without effect)",
                element("br") if answer["comment"] else None,
                answer["comment"],
                class_="answer",
            )
            for answer in request["answers"]
        ]
        if not answers:
            answers = [element("p", status_of("open"), class_="answer")]
        asked = one_line(str(request["prompt"] or "The log does not have the question."), 1_000)
        head = element("p", element("span", day_and_time(str(request["asked_at"] or "")), class_="when"), asked)
        found.append((_number(request["event_id"]), element("li", head, *answers)))
    for made in report.record.decisions:
        where = ":".join(part for part in (made.phase, made.step) if part)
        said = element("p", element("span", day_and_time(made.at), class_="when"), one_line(made.what, 1_000))
        who = element("p", f"Decided by {made.by}" + (f" in {where}" if where else ""), class_="answer")
        found.append((made.event_id, element("li", said, who)))
    if not found:
        return element("p", "Nobody was asked, and no decision is recorded.")
    found.sort(key=lambda entry: entry[0])
    return _listed([entry for _, entry in found], "entries", class_="people")


def _responder(given: object) -> str:
    who = given if isinstance(given, dict) else {}
    name, source = who.get("name"), str(who.get("source") or "").replace("_", " ")
    return ", ".join(str(part) for part in (name or "a person", source) if part)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


# --- commits ---------------------------------------------------------------------------------------


def commits_section(report: RunReport) -> Markup:
    """Each commit with its files, where the repository has it."""
    made = {commit.sha: commit for commit in report.record.commits}
    if not made:
        return element("p", "No commit is recorded.")
    unknown = sum(sha not in report.commits for sha in made)
    note = f"{count(unknown, 'commit is', 'commits are')} not in this repository: their files are not known."
    entries = [_commit(report, commit) for commit in made.values()]
    return together(
        [_listed(entries, "commits", class_="commits"), element("p", note, class_="aside") if unknown else None]
    )


def _commit(report: RunReport, made: CommitMade) -> Markup:
    known = report.commits.get(made.sha)
    subject = (known.subject if known else made.message) or "(no message)"
    where = ":".join(part for part in (made.phase, made.step) if part)
    about = ", ".join(part for part in (where, _KINDS[made.kind], day_and_time(made.at)) if part)
    files: Markup | None = None
    if known and known.files:
        shown = [
            element("li", element("span", letter, class_="letter"), " ", one_line(path, 300))
            for letter, path in known.files[:FILES]
        ]
        more = len(known.files) - FILES
        shown += [element("li", f"and {count(more, 'more file')}", class_="aside")] if more > 0 else []
        files = element("ul", *shown, class_="files")
    head = element("p", element("code", made.sha[:10]), " ", one_line(subject, 300))
    return element("li", head, element("p", about, class_="aside"), files)


# --- unproven --------------------------------------------------------------------------------------


def unproven_section(report: RunReport) -> Markup:
    """What nothing proves, what was skipped and by whom, what is still open, and what could not be read."""
    record, found = report.record, []
    for each in record.unproven:
        where = ":".join(part for part in (each.phase, each.step) if part)
        said = one_line(each.what, _TEXT)
        found.append((where, _UNPROVEN.get(each.why, each.why) + (f": {said}" if said else "."), each.at))
    for skip in record.skipped:
        where = ":".join(part for part in (skip.phase, skip.step) if part)
        why = f": {one_line(skip.reason, _TEXT)}" if skip.reason else "; no reason was given"
        found.append(
            (where, f"Skipped by {skip.by if skip.event_id else 'somebody the log does not name'}{why}", skip.at)
        )
    for phase in report.view.phases:
        if phase.findings and tone(phase.status) == "good":
            found.append((phase.id, f"Done with {count(phase.findings, 'open finding')}.", phase.ended_at or ""))
        if phase.status == "failed" and not phase.remediation and not phase.not_healed:
            found.append(
                (phase.id, f"Failed: {one_line(phase.reason or 'no reason is recorded', _TEXT)}", phase.ended_at or "")
            )
        if phase.denials:
            found.append((phase.id, f"Its agents were denied {count(phase.denials, 'call')} of tools.", ""))
    found += [("the record", line, "") for line in notice_lines(report.notices)]
    if not found:
        return element("p", "Nothing was skipped, and nothing is unproven.")
    rows = [
        element(
            "tr", element("th", where, scope="row"), element("td", said), element("td", day_and_time(at), class_="when")
        )
        for where, said, at in found[:ENTRIES]
    ]
    return data_table(
        "Not proven, skipped, or not known", columns(("Where", "What", "When (UTC)")), rows, class_="main"
    )


def _listed(entries: Sequence[Markup], things: str, class_: str) -> Markup:
    more = len(entries) - ENTRIES
    note = (
        element("p", f"{more:,} earlier {things} are left out: the log has them.", class_="aside") if more > 0 else None
    )
    return together([note, element("ol", *entries[-ENTRIES:], class_=class_)])


# --- the log ---------------------------------------------------------------------------------------


def log_section(report: RunReport) -> Markup:
    """The controls, which need the script, and every event."""
    events = report.events
    if not events:
        return element("p", "The log is empty.")
    types = sorted({event["type"] for event in events})
    phases = list(dict.fromkeys(event["phase"] for event in events if event.get("phase")))
    controls = element(
        "form",
        element(
            "label", "Search", element("input", type="search", id="search", autocomplete="off", spellcheck="false")
        ),
        element("label", "Type", _choice("type", [("", "all"), ("!", "notable"), *((t, t) for t in types)])),
        element("label", "Phase", _choice("phase", [("", "all"), *((p, one_line(p, 60)) for p in phases)])),
        element("output", f"{len(events):,} events", id="shown", for_="search type phase", aria_live="polite"),
        id="filter",
        role="search",
        hidden=True,
    )
    chunks = [
        element("ol", *(_event(event) for event in events[at : at + CHUNK])) for at in range(0, len(events), CHUNK)
    ]
    long = len(events) > LONG
    note = element("p", f"The log of {len(events):,} events is not printed.", class_="print-only") if long else None
    body = element("div", *chunks, id="events", class_="log screen-only" if long else "log")
    none = element("p", "No event matches.", id="none", hidden=True)
    return together([controls, note, none, body])


def _choice(name: str, options: Iterable[tuple[str, str]]) -> Markup:
    return element("select", *(element("option", text, value=value) for value, text in options), id=name)


def _event(event: Event) -> Markup:
    place = ":".join(part for part in (event.get("phase"), event.get("step")) if part)
    where = " · ".join(part for part in (place, event.get("actor")) if part)
    said = said_by(event)
    return element(
        "li",
        event.get("timestamp", "")[:19].replace("T", " "),
        element("b", event["type"]),
        where,
        element("p", said) if said else None,
        value=event["event_id"],
        class_=_mood(event),
        data_p=event.get("phase"),
    )


def said_by(event: Event) -> str:
    """What an event says, in one text: its message or error, its status, and its metadata."""
    error = event.get("error")
    parts = [event.get("message"), error.get("message") if isinstance(error, dict) else None, event.get("status")]
    given = event.get("metadata")
    if isinstance(given, dict):
        told = list(parts)
        parts += [f"{key}: {_value(value)}" for key, value in given.items() if _worth(value) and value not in told]
    return one_line(" · ".join(str(part)[: 4 * _TEXT] for part in parts if part), _TEXT)


def _worth(value: object) -> bool:
    if isinstance(value, list):
        return 0 < len(value) <= 20
    return isinstance(value, str | int | float) and value != ""


def _value(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(_value(each)[:200] for each in value)
    text = str(value)[: 4 * _TEXT]
    return text[:10] if _DIGEST.fullmatch(text) else text


def _mood(event: Event) -> str | None:
    kind = event["type"]
    if "error" in kind or event.get("status") == "failed" or kind in (TURNS_REFUSED, COMMAND_REFUSED):
        return "n bad"
    try:
        return "n" if event_type(kind).notable else None
    except UnknownEventType:
        return None
