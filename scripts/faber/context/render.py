"""The context as text for a person: the protocol's banner, its summary, and its patterns for errors and warnings.

Everything is made inert first, so that nothing can move a terminal's cursor.
"""

from collections.abc import Iterable, Mapping

from faber.context.context_document import (
    ConsolidatedContext,
    ContextEvent,
    ContextWarning,
    FailedPhase,
    NebulaPart,
    OpenDecision,
    SpecificationPart,
)
from faber.errors import FaberError
from faber.events.healing_events import NOT_HEALED
from faber.git.branch_questions import BranchPart
from faber.model.documents import ResumePoint
from faber.model.pauses import pause_text
from faber.text.safe_text import inert, shorten

WIDTH = 80
_PHASES = 12
RULE = "═" * 59


def text(context: ConsolidatedContext) -> str:
    """The whole text output of `faber context`."""
    parts = [_banner(context), _summary(context)]
    parts += [_decision(decision, context["warnings"]) for decision in context["decisions"]]
    parts += [_warning(w) for w in context["warnings"] if w["severity"] == "WARNING"]
    infos = [w["message"] for w in context["warnings"] if w["severity"] == "INFO"]
    if infos:
        parts.append("\n".join(f"ℹ {_line(message)}" for message in infos))
    if context["omitted"]:
        cut = "\n".join(
            f"  {o['what']}: {o['kept']} of {o['of']} {o['unit']} ({o['command']})" for o in context["omitted"]
        )
        parts.append(f"Left out to fit the budget:\n{cut}")
    return "\n\n".join(_wrapped(part) for part in parts) + "\n"


def _wrapped(part: str) -> str:
    """Wrap lines at a terminal's width, indented further; words, ids and commands stay whole."""
    from textwrap import wrap

    lines = []
    for line in part.split("\n"):
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        lines += (
            [line]
            if len(line) <= WIDTH
            else wrap(
                line,
                WIDTH,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
                drop_whitespace=True,
            )
        )
    return "\n".join(lines)


def _line(value: object) -> str:
    return shorten(inert(str(value)).replace("\n", " ").replace("\t", " "), 300)


def _place(point: ResumePoint | None) -> str:
    if point is None:
        return "N/A"
    return ":".join(part for part in (point["phase"], point["step"]) if part) or "N/A"


def _banner(context: ConsolidatedContext) -> str:
    point, spec, branch = context["resume_point"], context["spec"], context["branch"]
    history, summary = context["session_history"], context["session_summary"]
    rows: list[tuple[str, object]] = [
        ("Run ID", context["run_id"]),
        ("Work ID", context["work_id"] or "N/A"),
        ("Status", context["status"]),
        ("Resume Mode", point["mode"] if point else "N/A"),
        ("Resume Point", _place(point)),
        ("Spec", (spec and spec["path"]) or context["artifacts"].get("spec_path") or "Not created"),
        ("Branch", (branch and branch["name"]) or context["artifacts"].get("branch_name") or "Not created"),
        ("Events", f"{len(context['events'])} loaded"),
        ("Sessions", f"{history['total_sessions'] if history else 0} previous"),
    ]
    if summary:
        rows.append(("Last Phase", summary["phase_completed"] or "N/A"))
    rows.append(("Next Phase", context["next_phase"] or "None"))
    lines = [f"  {name + ':':<14} {_line(value)}" for name, value in rows]
    return "\n".join([RULE, "  CONTEXT RECONSTITUTION COMPLETE", RULE, *lines, RULE])


def _summary(context: ConsolidatedContext) -> str:
    issue, spec, branch, point = context["issue"], context["spec"], context["branch"], context["resume_point"]
    lines = [f"✓ Context reconstituted for run: {context['run_id']}"]
    if context["work_id"]:
        title = f" - {_line(issue['title'])}" if issue and issue.get("title") else ""
        lines.append(f"  Work Item: #{_line(context['work_id'])}{title}")
    if context["target"]:
        lines.append(f"  Task: {_line(context['target'])}")
    if spec:
        lines.append(f"  Spec: {_line(spec['path'])}{_criteria(spec)}")
    if branch:
        lines.append(f"  Branch: {_line(branch['name'])} ({_commits(branch)})")
    if dirty := branch and branch.get("dirty_files"):
        names = ", ".join(f"{entry['path']} ({entry['status']})" for entry in dirty[:5])
        more = f" and {len(dirty) - 5} more" if len(dirty) > 5 else ""
        lines.append(f"  Uncommitted: {_line(names)}{more}")
    lines.append(f"  Status: {context['status']} → {_resuming(point)}")
    history, summary = context["session_history"], context["session_summary"]
    if history and summary:
        last = summary["phase_completed"]
        lines.append(f"  Sessions: {history['total_sessions']} previous (last: {_line(last or 'no phase')} complete)")
        lines += [f"  Decided: {_line(decision)}" for decision in summary["decisions"]]
    lines += [f"  Decided: {_line(decision['decision'])}" for decision in context["decisions_made"][-3:]]
    lines += [f"  Unresolved: {_line(_error(error))}" for error in context["unresolved_errors"]]
    lines += [f"  Overcome: {_line(_error(error))}" for error in context.get("overcome_errors", [])]
    if "reopened" in context:
        lines.append(f"  Re-opened: {_line(context['reopened']['error'])}")
        for piece in context["reopened"]["evidence"]:
            lines.append(f"    {_line(piece.get('name'))}: {_line(piece.get('conclusion'))} {_line(piece.get('url'))}")
    if "paused" in context:
        lines.append(f"  Paused: {_line(pause_text(context['paused']))}")
    lines += _phases(context.get("nebula"))
    lines += [f"  Failed: {_line(_failure(each))}" for each in context.get("failures", [])[:5]]
    if request := context["feedback_request"]:
        lines.append(f"  Waiting for: {_line(request['prompt'])} [{' | '.join(map(_line, request['options']))}]")
    for heard in context["feedback"]:
        said = f": {_line(heard['comment'])}" if heard["comment"] else ""
        lines.append(f"  Answered: {_line(heard['prompt'])} → {_line(heard['response'])}{said}")
    if context["events"]:
        last_event = context["events"][-1]
        lines.append(
            f"  Last Event: [{_line(last_event['timestamp'])}] {_line(last_event['type'])}: "
            f"{_line(_said(context, last_event))}"
        )
    if point is not None:
        steps = context["next_steps"]
        started = point["mode"] == "continue" and f" step complete {context['run_id']} " in steps["command"]
        if steps["instruction"]:
            lines.append(f"  {'Continue' if started else 'Next'}: {_line(steps['instruction'])}")
        lines.append(f"  {'Then' if started else 'With'}: {_line(steps['command'])}")
        lines.append(f"  Why: {_line(steps['why'])}")
        if len(steps["remaining"]) > 1:
            lines.append(f"  Remaining: {_line(', '.join(steps['remaining']))}")
    return "\n".join(lines)


def _said(context: ConsolidatedContext, event: ContextEvent) -> str:
    """What an event says, wherever the context has it; its place if it says nothing."""
    place = ":".join(part for part in (event.get("phase"), event.get("step")) if part)
    told: Iterable[tuple[int, str | None]] = [
        *((entry["event_id"], entry["decision"]) for entry in context["decisions_made"]),
        *((entry["event_id"], entry.get("message")) for entry in context["unresolved_errors"]),
        *((entry["event_id"], entry["message"]) for entry in context["step_messages"]),
    ]
    return event.get("message") or dict(told).get(event["event_id"]) or place


def _phases(nebula: NebulaPart | None) -> list[str]:
    if nebula is None:
        return []
    counts = ", ".join(f"{count} {status}" for status, count in nebula["counts"].items())
    lines = [f"  Nebula: {_line(nebula['name'])} ({_line(counts)}), ${nebula['spent']['cost']:.2f} spent"]
    for phase in nebula["phases"][:_PHASES]:
        at = f" cycle {phase['cycle']}" if "cycle" in phase else ""
        mode = f" → {phase['resume_point']['mode']}" if phase["resume_point"] else ""
        why = f": {phase['reason']}" if "reason" in phase else ""
        lines.append(f"    {_line(phase['phase'])}: {phase['status']}{at}{mode}{_line(why)}")
    if len(nebula["phases"]) > _PHASES:
        lines.append(f"    and {len(nebula['phases']) - _PHASES} more")
    return lines


def _commits(branch: BranchPart) -> str:
    if not branch["exists"]:
        return "not there locally"
    return f"{len(branch['commits'])} recent commits" if branch["commits"] is not None else "commits unknown"


def _criteria(spec: SpecificationPart) -> str:
    criteria = spec.get("acceptance_criteria") or []
    return f" ({sum(c['done'] is True for c in criteria)} of {len(criteria)} criteria met)" if criteria else ""


def _failure(failed: FailedPhase) -> str:
    said = f"{failed['phase']} ({failed['failure'] or 'not diagnosed'})"
    if failed["remediation"]:
        return f"{said} → {failed['remediation']} ({failed['remediation_status']})"
    if failed["healing"]:
        return f"{said}, healing ({failed['healing']})"
    why = failed["not_healed"]
    return f"{said}: not healed ({NOT_HEALED.get(why, why)})" if why else said


def _error(error: Mapping[str, object]) -> str:
    place = ":".join(str(part) for part in (error.get("phase"), error.get("step")) if part)
    return f"{place or 'run'}: {error.get('message', '')}"


def _resuming(point: ResumePoint | None) -> str:
    if point is None:
        return "nothing to resume"
    return {
        "start": "Starting from the beginning",
        "continue": f"Continuing at {_place(point)}",
        "retry": f"Retrying {_place(point)}",
        "after_feedback": f"Resuming after feedback at {_place(point)}",
    }[point["mode"]]


def _decision(decision: OpenDecision, warnings: list[ContextWarning]) -> str:
    about = next((w for w in warnings if w["code"] == decision["code"]), None)
    options = [f"{n}. {_line(o['means'])} [{o['option']}]" for n, o in enumerate(decision["options"], 1)]
    return "\n".join(
        [
            f"⚠️ ERROR: {_line(decision['prompt'])}",
            *([f"About: {_line(decision['about'])}"] if decision["about"] else []),
            *([f"Error: {_line(about['message'])}"] if about else []),
            "",
            "How would you like to proceed?",
            *options,
            f"Answer with: {_line(decision['answer_with'])}",
        ]
    )


def _warning(warning: ContextWarning) -> str:
    lines = [f"⚠️ WARNING: {_line(warning['message'])}"]
    if warning["source"]:
        lines.append(f"About: {_line(warning['source'])}")
    if warning["recovery"]:
        lines.append(f"Note: {_line(warning['recovery'])}")
    return "\n".join(lines)


def critical(error: FaberError) -> str:
    """The protocol's pattern for an error that ends the command."""
    return f"❌ CRITICAL: Cannot reconstitute context\nError: {_line(error.message)}\nAction: {_line(error.recovery)}\n"
