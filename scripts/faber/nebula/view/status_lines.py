"""The status of a nebula as text. Pure; it prints what `status_view` computed, and computes nothing."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from faber.model.pauses import pause_text
from faber.nebula.plan.draw import resume_line
from faber.text.safe_text import cut, inert
from faber.view.tree_text import duration, tokens_text

_MARKS = {
    "pending": "·",
    "created": "·",
    "in_progress": "▶",
    "done": "✓",
    "failed": "✗",
    "skipped": "–",
    "decomposed": "⋔",
}
_FILTER_LINES = 8
_NAMED = 5


def status_text(status: Mapping[str, Any], width: int) -> str:
    """The status in lines of at most `width` columns, without colours: the run, then each phase."""
    lines = list(_run(status, width))
    statuses = {phase["id"]: phase["status"] for phase in status["phases"]}
    for phase in status["phases"]:
        lines += _phase(phase, statuses, width)
    healing = [cut(inert(line), width) for line in (status.get("healing") or "").splitlines()]
    return "".join(f"{line}\n" for line in [*lines, *healing])


def _run(status: Mapping[str, Any], width: int) -> Iterator[str]:
    counts = ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in sorted(status["counts"].items()))
    yield from _wrapped(f"{status['name']}: {counts}", width)
    run = status["run"]
    if run is None:
        return
    if run["run_id"]:
        yield from _named("run", run["run_id"], width)
    working = status["working"]
    if working:
        since = f" since {working['since']}" if working.get("since") else ""
        yield from _named("now", f"process {working.get('pid', 'unknown')} works on it{since}", width)
    elif any(count for word, count in status["counts"].items() if word not in ("done", "decomposed")):
        yield from _named("now", "no process works on it", width)
    if status["paused"]:
        yield from _named("pause", pause_text(status["paused"]), width)
    yield from _asks(status["request"], width)
    yield from _named("spent", _money(status), width)
    for name, text in outlook_texts(status["queue"], status["estimate"]):
        yield from _named(name, text, width)
    yield from _named("next", resume_line(status), width)


def outlook_texts(queue: Mapping[str, Any], estimate: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """What may start next, and how long the rest may take: each a name and a text."""
    more = f" and {len(queue['ready']) - _NAMED} more" if len(queue["ready"]) > _NAMED else ""
    named = ", ".join(queue["ready"][:_NAMED]) + more
    if said := "; ".join(filter(None, [named, _waiting(queue) if queue["waiting"] else ""])):
        yield "queue", said
    if estimate:
        about = f"about {duration(estimate['seconds'])} and ${estimate['cost_usd']:.2f}"
        by = f"{estimate['by']} finished phase{'s' if estimate['by'] > 1 else ''}"
        yield "left", f"{about} for {estimate['phases']}, going by {by}"


def _waiting(queue: Mapping[str, Any]) -> str:
    return f"{queue['waiting']} wait{'s' * (queue['waiting'] == 1)} for others"


def _money(status: Mapping[str, Any]) -> str:
    budget, said = status["budget"], f"${status['cost_usd']:.2f}"
    if budget["limit_usd"] is not None:
        said += f" of ${budget['limit_usd']:.2f}, ${budget['left_usd']:.2f} left"
        if budget["reserve_left_usd"]:
            said += f" and ${budget['reserve_left_usd']:.2f} for healing"
    earlier = (status["run"] or {}).get("earlier_cost_usd")
    before = f"${earlier:.2f} before this run" if earlier else ""
    return "; ".join(filter(None, [said, before, tokens_text(status["tokens_in"], status["tokens_out"])]))


def _phase(phase: Mapping[str, Any], statuses: Mapping[str, str], width: int) -> Iterator[str]:
    stage = phase["stage"]
    mark = "▶" if stage == "healing" else _MARKS[phase["status"]]
    word = (stage or phase["status"]).replace("_", " ")
    notes = [phase["failure"]] if phase["failure"] else []
    if phase["cycle"]:
        notes.append(f"cycle {phase['cycle']} of {max(phase['max_cycles'], phase['cycle'])}")
    notes += [duration(phase["elapsed_s"])] if phase["elapsed_s"] is not None else []
    notes += [f"${phase['cost_usd']:.2f}"] if phase["cost_usd"] else []
    notes += [tokens_text(phase["tokens_in"], phase["tokens_out"])]
    notes += [f"{phase['findings']} open finding{'s' if phase['findings'] > 1 else ''}"] if phase["findings"] else []
    yield from _wrapped(f"{mark} {phase['id']}  {', '.join(filter(None, [word, *notes]))}", width)
    if phase["reason"]:
        yield from _below(phase["reason"], width)
    check = phase["failing_filter"]
    if check:
        yield from _below(f"The filter {check['name']} failed last.", width)
        yield from (cut(f"    | {inert(line)}", width) for line in check["output"][-_FILTER_LINES:])
    if phase["denials"]:
        named = f": {'; '.join(phase['denied'])}" if phase["denied"] else ""
        yield from _below(f"Denied {phase['denials']} call{'s' if phase['denials'] > 1 else ''}{named}", width)
    yield from _asks(phase["request"], width)
    if phase["remediation"]:
        became = statuses.get(phase["remediation"], "pending").replace("_", " ")
        yield from _below(f"→ {phase['remediation']} ({'queued' if became == 'pending' else became})", width)
    if phase["what_to_do"]:
        yield from _below(f"Not healed: {phase['what_to_do']}", width)


def _asks(request: Mapping[str, Any] | None, width: int) -> Iterator[str]:
    if request:
        yield from _below(f"Waits for a person, request {request['request_id']}:", width)
        yield f"    {request['answer_with']}"  # whole, so that it can be copied


def _named(name: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(inert(text), width, initial_indent=f"{name:6}", subsequent_indent=" " * 6) or [name]


def _below(text: str, width: int) -> list[str]:
    return textwrap.wrap(inert(text), width, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(inert(text), width, subsequent_indent="    ", break_on_hyphens=False, replace_whitespace=True)
