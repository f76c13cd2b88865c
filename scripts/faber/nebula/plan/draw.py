"""Shows a plan to people: as text, or as a graph for Graphviz or Mermaid. Pure functions of the plan's JSON."""

import re
from collections.abc import Mapping
from typing import Any

from faber.model.pauses import pause_text
from faber.text.safe_text import inert, shorten

_MARKS = {"keep": "✓", "continue": "▶", "fresh": "↻", "start": "·", "wait": "…", "retry": "↻", "skip": "✗"}
_STATUS_MARKS = {
    "pending": "·",
    "created": "·",
    "in_progress": "▶",
    "done": "✓",
    "failed": "✗",
    "skipped": "–",
    "decomposed": "⋔",
}
_COLOURS = {"keep": "#d5f0d5", "continue": "#d5e5fa", "fresh": "#faecd0", "retry": "#faecd0", "skip": "#f6d5d5"}
_TITLE = 60


def text(plan: Mapping[str, Any]) -> str:
    """The plan as lines: its totals, its waves, and each phase with its settings and what a resume would do."""
    execution = plan["execution"]
    budget = execution["max_budget_usd"]
    lines = [
        f"{plan['name']}: {len(plan['phases'])} phases in {len(plan['waves'])} waves, "
        f"{execution['max_workers']} at a time, {_money(budget) if budget else 'no budget limit'}",
        f"Critical path ({len(plan['critical_path'])}): {_shown(plan['critical_path'])}",
    ]
    phases = {phase["id"]: phase for phase in plan["phases"]}
    for number, wave in enumerate(plan["waves"], 1):
        lines.append(f"\nWave {number}")
        for name in wave:
            phase = phases[name]
            settings, resume = phase["settings"], phase["resume"]
            limits = [f"{settings['max_review_cycles']} cycles", settings["gate"], f"priority {settings['priority']}"]
            if settings["max_budget_usd"]:
                limits.append(_money(settings["max_budget_usd"]))
            if settings["model"]:
                limits.append(settings["model"])
            lines.append(f"  {_MARKS[resume['action']]} {name}  {shorten(phase['title'], _TITLE)}")
            after = f", after {', '.join(phase['waits_for'][:12])}" if phase["waits_for"] else ""
            lines.append(f"      {', '.join(limits)}{after}")
            at = f" at cycle {resume['cycle']}, {resume['stage']}" if resume["cycle"] else ""
            lines.append(f"      {resume['action']}{at}: {resume['why']}")
    return "\n".join(inert(line).replace("\n", " ") if line[:1] != "\n" else line for line in lines) + "\n"


def status_text(status: Mapping[str, Any]) -> str:
    """The status of each phase, one line each."""
    run = status["run"]
    counts = ", ".join(f"{count} {word}" for word, count in sorted(status["counts"].items()))
    spent = f", {_money(run['cost_usd'])} spent" if run and run["cost_usd"] else ""
    lines = [f"{status['name']}: {counts}{spent}"]
    if run and run["run_id"]:
        lines.append(f"Run {run['run_id']}")
    if status.get("paused"):
        lines.append(f"Paused: {pause_text(status['paused'])}")
    statuses = {phase["id"]: phase["status"] for phase in status["phases"]}
    for phase in status["phases"]:
        record = phase["record"] or {}
        heals = phase["status"] == "failed" and record.get("healing")
        notes = [str(record["failure"])] if record.get("failure") else []
        notes += [f"cycle {record['cycle']}"] if record.get("cycle") else []
        notes += [_money(record["cost_usd"])] if record.get("cost_usd") else []
        notes += [f"{record['findings']} open findings"] if record.get("findings") else []
        if record.get("remediation"):
            became = statuses.get(record["remediation"], "pending")
            notes.append(f"→ {record['remediation']} ({'queued' if became == 'pending' else became})")
        notes += [shorten(str(record["reason"]), _TITLE)] if record.get("reason") else []
        known, word = ("▶", "healing") if heals else (_STATUS_MARKS[phase["status"]], phase["status"])
        lines.append(f"{known} {phase['id']}  {word}" + "".join(f", {note}" for note in notes))
    return "\n".join(inert(line).replace("\n", " ") for line in lines) + "\n" + inert(status.get("healing") or "")


def dot(plan: Mapping[str, Any]) -> str:
    """The graph for Graphviz, with an arrow from each phase to those that depend on it."""
    critical = set(plan["critical_path"])
    lines = ["digraph nebula {", "  rankdir=LR;", '  node [shape=box, style="rounded,filled", fillcolor=white];']
    for phase in plan["phases"]:
        label = _dot_text(f"{phase['id']}\n{_title(phase)}")
        colour = _COLOURS.get(phase["resume"]["action"], "white")
        width = ", penwidth=2" if phase["id"] in critical else ""
        lines.append(f'  {_dot_text(phase["id"])} [label={label}, fillcolor="{colour}"{width}];')
    for phase in plan["phases"]:
        lines += [f"  {_dot_text(other)} -> {_dot_text(phase['id'])};" for other in phase["waits_for"]]
    return "\n".join([*lines, "}"]) + "\n"


def mermaid(plan: Mapping[str, Any]) -> str:
    """The graph for Mermaid, as GitHub renders it in a fenced block."""
    numbers = {phase["id"]: number for number, phase in enumerate(plan["phases"])}
    lines = ["flowchart LR"]
    lines += [
        f'  p{numbers[phase["id"]]}["{_mermaid_text(phase["id"])}<br/>{_mermaid_text(_title(phase))}"]'
        for phase in plan["phases"]
    ]
    for phase in plan["phases"]:
        lines += [f"  p{numbers[other]} --> p{numbers[phase['id']]}" for other in phase["waits_for"]]
    for action, colour in _COLOURS.items():
        drawn = [f"p{numbers[phase['id']]}" for phase in plan["phases"] if phase["resume"]["action"] == action]
        if drawn:
            lines += [f"  classDef {action} fill:{colour}", f"  class {','.join(drawn)} {action}"]
    return "\n".join(lines) + "\n"


def _title(phase: Mapping[str, Any]) -> str:
    return shorten(inert(phase["title"]).replace("\n", " "), _TITLE)


def _money(amount: float) -> str:
    return f"${amount:,.2f}"


def _shown(names: list[str]) -> str:
    return " → ".join(names if len(names) <= 12 else [*names[:6], f"… {len(names) - 11} more …", *names[-5:]])


def _dot_text(words: str) -> str:
    escaped = words.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _mermaid_text(words: str) -> str:
    # Mermaid escapes a character as `#code;`.
    return re.sub(r"""[^\w .,:()/'+-]""", lambda match: f"#{ord(match[0])};", words)
