"""The text of a run's pull request, for a reviewer in a hurry: what and why first, then what people have to judge, then
the evidence, folded. Pure.

Every text from elsewhere passes through `prose`, `code` or `quoted`; `body` removes credentials from the whole.
"""

import re
from collections.abc import Iterable, Sequence

from faber.feedback.feedback_history import PastAnswer, PastRequest
from faber.github.posting import code, commands, hidden
from faber.github.pull_request_reviews import ANSWERED
from faber.pull_request.pr_facts import Proof, PullRequestFacts
from faber.pull_request.prose import paragraphs, prose
from faber.text.safe_text import cut, one_line, redact, shorten
from faber.view.run_record import Unproven
from faber.view.tree_text import cost_text, duration, tokens_text

MAX_TITLE = 120
_SUMMARY, _LINE = 2_000, 300
_PROMPT = 160
_MOST = 30  # entries of a list
_MERGE = re.compile(r"merge ([A-Za-z0-9][A-Za-z0-9._-]*): (.+)")
_WHY = {"missing": "evidence is missing", "waived": "a person waived the evidence", "warning": "with a warning"}


def title_of(facts: PullRequestFacts) -> str:
    """The title: the specification's, else what was asked."""
    spec = facts.specification
    title = (spec.get("title") if spec else None) or facts.view.title or facts.asked_for or facts.view.run_id
    return redact(one_line(str(title), MAX_TITLE))


def body(facts: PullRequestFacts, secrets: Iterable[str], room: int) -> str:
    """faber's part of the body, in at most `room` characters: of a longer one the last sections are left out."""
    parts = [part for part in (*_top(facts), *_judged(facts), _folded(facts), _how(facts), _foot(facts)) if part]
    kept = list(secrets)
    left_out = 0
    while True:
        note = [f"_Left out for their length: {left_out} of the parts._"] if left_out else []
        text = hidden("\n\n".join([*parts, *note]), kept)
        if len(text) <= room or len(parts) == 1:
            return shorten(text, room)
        longest = max(range(1, len(parts)), key=lambda number: len(parts[number]))
        del parts[longest]
        left_out += 1


# --- what it is ------------------------------------------------------------------------------------


def _top(facts: PullRequestFacts) -> list[str]:
    spec = facts.specification
    told = paragraphs(str((spec or {}).get("summary") or ""), _SUMMARY)
    parts = [part for part in (told, _merged_phases(facts) if facts.view.nebula else "") if part]
    parts = parts or [prose(facts.view.title, _LINE)]
    if facts.closes:
        parts.append(f"Closes #{facts.closes}.")
    if facts.waits:
        parts.append("\n".join(["> **Not ready to merge:**", *(f"> - {reason}" for reason in facts.waits)]))
        parts += _asks(facts)
    return parts


def _merged_phases(facts: PullRequestFacts) -> str:
    """The phases of a nebula that its branch has, by the titles that their merges have."""
    found = (_MERGE.fullmatch(subject) for _, subject in reversed(facts.branch.commits))
    return _listed([f"- {code(merge[1])}: {prose(merge[2], _LINE)}" for merge in found if merge])


# --- what a reviewer judges ------------------------------------------------------------------------


def _judged(facts: PullRequestFacts) -> list[str]:
    return [_criteria(facts), _findings(facts), _answers(facts), _decisions(facts)]


def _criteria(facts: PullRequestFacts) -> str:
    spec = facts.specification
    criteria = spec.get("acceptance_criteria") if spec else None
    if not spec or not criteria:
        return ""
    marked = any(each["done"] for each in criteria)
    met = sum(bool(each["done"]) for each in criteria)
    where = code(str(spec["path"]))
    said = (
        f"{met} of {len(criteria)} are marked as met in {where}."
        if marked
        else f"From {where}, which marks none of them as met."
    )
    rows = [f"- {'✓' if each['done'] else '○'} {prose(each['text'], _LINE)}" for each in criteria]
    return _section("Acceptance criteria", said, _listed(rows))


def _findings(facts: PullRequestFacts) -> str:
    """What was checked and found, and what nothing proves."""
    view, record = facts.view, facts.record
    rows: list[str] = []
    if view.nebula:
        rows += [
            f"- {code(phase.id)}: {phase.findings} open finding{'s' * (phase.findings != 1)} after "
            f"{phase.cycles_done} cycle{'s' * (phase.cycles_done != 1)}"
            for phase in view.phases
            if phase.findings
        ]
        healed = {failed: remedy for failed, remedy, status in view.healing if status == "done"}
        rows += [
            f"- {code(phase.id)} failed{f', and {code(healed[phase.id])} healed it' if phase.id in healed else ''}: "
            f"{prose(phase.reason or '', _LINE)}"
            for phase in view.phases
            if phase.status == "failed"
        ]
    else:
        rows += [
            f"- {'⚠ ' if proof.warning else ''}{code(proof.place)}: {prose(proof.message, _LINE)}"
            for proof in facts.reviews
        ]
    rows += [
        f"- {code(back)} was repeated after {code(failed)} failed: {prose(why or '', _LINE)}"
        for failed, back, why in view.loops
    ]
    shown = {proof.place for proof in facts.reviews}
    rows += [_unproven(each) for each in record.unproven if f"{each.phase}:{each.step}" not in shown]
    rows += [
        f"- ⚠ {code(':'.join(filter(None, (each.phase, each.step))))} was skipped: "
        f"{prose(each.reason or 'no reason was given', _LINE)} ({prose(str(each.by), 100)})"
        for each in record.skipped
    ]
    return _section("Review", _listed(rows)) if rows else ""


def _unproven(each: Unproven) -> str:
    place = code(":".join(filter(None, (each.phase, each.step))))
    return f"- ⚠ {place}: {_WHY.get(each.why, each.why.replace('_', ' '))}. {prose(each.what, _LINE)}".rstrip()


def _answers(facts: PullRequestFacts) -> str:
    rows = [row for request in facts.asked for row in _answered(request)]
    return _section("Questions to people", _listed(rows)) if rows else ""


def _answered(request: PastRequest) -> list[str]:
    counted = next((answer for answer in request["answers"] if answer["counted"]), None)
    if counted is None:
        return []
    said = prose(counted["response"].replace("_", " "), _LINE)
    remark = f": {prose(str(counted['comment']), _LINE)}" if counted["comment"] else ""
    prompt = cut(str(request["prompt"] or "A question"), _PROMPT)
    return [f"- {prose(prompt, _LINE)} — **{said}**{remark} ({_who(counted)})"]


def _who(answer: PastAnswer) -> str:
    found = answer["responder"]
    who = found if isinstance(found, dict) else {}
    channel = str(who.get("source") or "").replace("_", " ")
    return ", ".join(part for part in (prose(str(who.get("name") or "somebody"), 100), channel) if part)


def _decisions(facts: PullRequestFacts) -> str:
    rows = [f"- {prose(each.what, 500)}" for each in facts.record.decisions]
    return _section("Decisions", _listed(rows)) if rows else ""


# --- the evidence ----------------------------------------------------------------------------------


def _folded(facts: PullRequestFacts) -> str:
    parts = [
        part for part in (_phase_table(facts) if facts.view.nebula else _step_table(facts), _commits(facts)) if part
    ]
    if not parts:
        return ""
    view = facts.view
    done = view.progress.done if view.nebula else len(facts.proofs)
    thing = "phase" if view.nebula else "step"
    counted = [
        f"{done} {thing}{'s' * (done != 1)} done",
        f"{facts.branch.total} commit{'s' * (facts.branch.total != 1)}" if facts.branch.total else "",
    ]
    counted.append(facts.branch.changed)
    summary = ", ".join(part for part in counted if part)
    return "\n\n".join([f"<details><summary><b>Evidence</b>: {summary}</summary>", *parts, "</details>"])


def _step_table(facts: PullRequestFacts) -> str:
    shown = [proof for proof in facts.proofs if proof.message or proof.evidence]
    if not shown:
        return ""
    rows = ["| step | what was done | evidence |", "|---|---|---|"]
    rows += [f"| {code(p.place)} | {prose(p.message, 200)} | {_proof(p)} |" for p in shown[-2 * _MOST :]]
    return "\n".join(rows)


def _proof(proof: Proof) -> str:
    shown = []
    for each in proof.evidence[:5]:
        kind, value, detail = (str(each.get(key) or "") for key in ("kind", "value", "detail"))
        if kind == "command" and each.get("met"):
            shown.append(f"{code(value)} passed")
        elif kind == "file" and each.get("met"):
            shown.append(f"file {code(value)}")
        else:
            shown.append(prose(detail, 200))
    return "<br>".join(shown) or "–"


def _phase_table(facts: PullRequestFacts) -> str:
    rows = ["| phase | result | cycles | open findings | cost |", "|---|---|---|---|---|"]
    rows += [
        f"| {code(phase.id)} | {phase.status.replace('_', ' ')} | {phase.cycles_done} | {phase.findings} "
        f"| ${phase.money.cost_usd:.2f} |"
        for phase in facts.view.phases[: 4 * _MOST]
    ]
    return "\n".join(rows)


def _commits(facts: PullRequestFacts) -> str:
    rows = [f"- {short} {prose(subject, 120)}" for short, subject in reversed(facts.branch.commits)]
    return "\n".join(["Commits, oldest first:", "", _listed(rows)]) if rows else ""


# --- how to answer, and what it cost ---------------------------------------------------------------


def _how(facts: PullRequestFacts) -> str:
    if facts.mention is None:
        return ""
    return _section(
        "How to answer",
        "Review it as any other pull request. **Request changes** sends the work back with your words and your "
        "comments on lines. Only what people with write access to this repository say counts.",
    )


def _asks(facts: PullRequestFacts) -> list[str]:
    """How to answer the question that waits longest, here."""
    if facts.mention is None or not facts.state["feedback_queue"]:
        return []
    asked = facts.state["feedback_queue"][0]
    changes = " or request changes" if "request_changes" in asked["options"] else ""
    how = f"Approve{changes} in a review, or write" if asked["type"] in ANSWERED else "To answer, write"
    lines = [f"```text\n{line}\n```" for line in commands(asked, facts.mention)]
    return [f"{how} a comment that starts with one of these lines:", *lines]


def _foot(facts: PullRequestFacts) -> str:
    view, record = facts.view, facts.record
    own = [session for session in record.sessions if session.role is None]
    parts = [f"Run {code(view.run_id)}"]
    parts += [f"{len(own)} session{'s' * (len(own) != 1)}, billed by their client"] if own else []
    parts += [duration(view.elapsed_s)] if view.elapsed_s else []
    if view.nebula:
        parts.append(cost_text(view.money.cost_usd, view.unpriced_turns))
        parts.append(tokens_text(view.money.tokens_in, view.money.tokens_out))
    kept = "faber rewrites only this part; what you write above or below it stays."
    return f"---\n\n<sub>{' · '.join(part for part in parts if part)} · {kept}</sub>"


# --- pieces ----------------------------------------------------------------------------------------


def _section(title: str, *parts: str) -> str:
    return "\n\n".join([f"### {title}", *parts])


def _listed(rows: Sequence[str]) -> str:
    more = len(rows) - _MOST
    return "\n".join([*rows[:_MOST], f"- and {more} more" if more > 0 else ""]).rstrip()
