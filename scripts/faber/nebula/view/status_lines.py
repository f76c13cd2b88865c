"""The status of a nebula as text. Pure; it prints what `status_view` computed, and computes nothing."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from faber.model.pauses import pause_text
from faber.nebula.plan.draw import resume_line
from faber.text.safe_text import cut, inert

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


def duration(seconds: float) -> str:
    """`0:42`, `12:03`, `3:04:05`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _run(status: Mapping[str, Any], width: int) -> Iterator[str]:
    counts = ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in sorted(status["counts"].items()))
    yield from _wrapped(f"{status['name']}: {counts}", width)
    run = status["run"]
    if run is None:
        return
    if run["run_id"]:
        yield from _named("run", run["run_id"], width)
    working, queue, estimate = status["working"], status["queue"], status["estimate"]
    if working:
        since = f" since {working['since']}" if working.get("since") else ""
        yield from _named("now", f"process {working.get('pid', 'unknown')} works on it{since}", width)
    elif any(count for word, count in status["counts"].items() if word not in ("done", "decomposed")):
        yield from _named("now", "no process works on it", width)
    if status["paused"]:
        yield from _named("pause", pause_text(status["paused"]), width)
    yield from _asks(status["request"], width)
    yield from _named("spent", _money(status), width)
    if queue["ready"]:
        named = ", ".join(queue["ready"][:_NAMED])
        more = f" and {len(queue['ready']) - _NAMED} more" if len(queue["ready"]) > _NAMED else ""
        yield from _named("queue", f"{named}{more}" + (f"; {_waiting(queue)}" if queue["waiting"] else ""), width)
    elif queue["waiting"]:
        yield from _named("queue", _waiting(queue), width)
    if estimate:
        about = f"about {duration(estimate['seconds'])} and ${estimate['cost_usd']:.2f}"
        by = f"{estimate['by']} finished phase{'s' if estimate['by'] > 1 else ''}"
        yield from _named("left", f"{about} for {estimate['phases']}, going by {by}", width)
    yield from _named("next", resume_line(status), width)


def _waiting(queue: Mapping[str, Any]) -> str:
    return f"{queue['waiting']} wait{'s' * (queue['waiting'] == 1)} for others"


def _money(status: Mapping[str, Any]) -> str:
    budget, said, unknown = status["budget"], f"${status['cost_usd']:.2f}", status["unpriced_turns"]
    if unknown:
        said += f" and {unknown} turn{'s' * (unknown > 1)} whose dollars are unknown"
    if budget["limit_usd"] is not None:
        said += f" of ${budget['limit_usd']:.2f}, ${budget['left_usd']:.2f} left"
        if budget["reserve_left_usd"]:
            said += f" and ${budget['reserve_left_usd']:.2f} for healing"
    earlier = (status["run"] or {}).get("earlier_cost_usd")
    return said + (f"; ${earlier:.2f} before this run" if earlier else "") + _tokens(status, "; ")


def _tokens(shown: Mapping[str, Any], before: str) -> str:
    into, out = shown["tokens_in"], shown["tokens_out"]
    return f"{before}{_count(into)} tokens in, {_count(out)} out" if into or out else ""


def _count(number: int) -> str:
    if number < 1_000:
        return str(number)
    return f"{number / 1_000:.1f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"


def _phase(phase: Mapping[str, Any], statuses: Mapping[str, str], width: int) -> Iterator[str]:
    stage = phase["stage"]
    mark = "▶" if stage == "healing" else _MARKS[phase["status"]]
    word = (stage or phase["status"]).replace("_", " ")
    notes = [phase["failure"]] if phase["failure"] else []
    if phase["cycle"]:
        notes.append(f"cycle {phase['cycle']} of {max(phase['max_cycles'], phase['cycle'])}")
    notes += [duration(phase["elapsed_s"])] if phase["elapsed_s"] is not None else []
    notes += [f"${phase['cost_usd']:.2f}"] if phase["cost_usd"] else []
    notes += [_tokens(phase, "")] if phase["tokens_in"] or phase["tokens_out"] else []
    notes += [f"{phase['findings']} open finding{'s' if phase['findings'] > 1 else ''}"] if phase["findings"] else []
    yield from _wrapped(f"{mark} {phase['id']}  {', '.join([word, *notes])}", width)
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
