"""The context for a person: the protocol's banner, its short summary, and its three ways to say that
something is wrong. Everything is made inert first; nothing here can move a terminal's cursor."""

from typing import Any

from faber.errors import FaberError
from faber.model.text import inert, shorten

WIDTH = 80
_PHASES = 12
RULE = "═" * 59


def text(context: dict[str, Any]) -> str:
    """The whole text output of `faber context`."""
    parts = [_banner(context), _summary(context)]
    parts += [_question(decision, context) for decision in context["decisions"]]
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
    """Lines longer than a terminal is wide go on below, further in; words, ids and commands stay whole."""
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


def _line(value: Any) -> str:
    return shorten(inert(str(value)).replace("\n", " ").replace("\t", " "), 300)


def _place(point: dict[str, Any] | None) -> str:
    if point is None:
        return "N/A"
    return ":".join(part for part in (point["phase"], point["step"]) if part) or "N/A"


def _banner(context: dict[str, Any]) -> str:
    point, spec, branch = context["resume_point"], context["spec"], context["branch"]
    history, summary = context["session_history"], context["session_summary"]
    rows = [
        ("Run ID", context["run_id"]),
        ("Work ID", context["work_id"] or "N/A"),
        ("Status", context["status"]),
        ("Resume Mode", point["mode"] if point else "N/A"),
        ("Resume Point", _place(point)),
        ("Spec", (spec or {}).get("path") or context["artifacts"].get("spec_path") or "Not created"),
        ("Branch", (branch or {}).get("name") or context["artifacts"].get("branch_name") or "Not created"),
        ("Events", f"{len(context['events'])} loaded"),
        ("Sessions", f"{history['total_sessions'] if history else 0} previous"),
    ]
    if summary:
        remaining = summary["remaining_phases"]
        rows += [
            ("Last Phase", summary["phase_completed"] or "N/A"),
            ("Next Phase", remaining[0] if remaining else "None"),
        ]
    lines = [f"  {name + ':':<14} {_line(value)}" for name, value in rows]
    return "\n".join([RULE, "  CONTEXT RECONSTITUTION COMPLETE", RULE, *lines, RULE])


def _summary(context: dict[str, Any]) -> str:
    issue, spec, point = context["issue"], context["spec"], context["resume_point"]
    lines = [f"✓ Context reconstituted for run: {context['run_id']}"]
    if context["work_id"]:
        title = f" - {_line(issue['title'])}" if issue and issue.get("title") else ""
        lines.append(f"  Work Item: #{_line(context['work_id'])}{title}")
    if spec:
        lines.append(f"  Spec: {_line(spec['path'])}{_criteria(spec)}")
    if context["branch"]:
        lines.append(
            f"  Branch: {_line(context['branch']['name'])} ({len(context['branch']['commits'])} recent commits)"
        )
    dirty = (context["branch"] or {}).get("dirty_files")
    if dirty:
        names = ", ".join(f"{entry['path']} ({entry['status']})" for entry in dirty[:5])
        more = f" and {len(dirty) - 5} more" if len(dirty) > 5 else ""
        lines.append(f"  Uncommitted: {_line(names)}{more}")
    lines.append(f"  Status: {context['status']} → {_going(context)}")
    history = context["session_history"]
    if history:
        last = context["session_summary"]["phase_completed"]
        lines.append(f"  Sessions: {history['total_sessions']} previous (last: {_line(last or 'no phase')} complete)")
        lines += [f"  Decided: {_line(decision)}" for decision in context["session_summary"]["decisions"]]
    lines += [f"  Decided: {_line(decision['decision'])}" for decision in context["decisions_made"][-3:]]
    lines += [f"  Unresolved: {_line(_error(error))}" for error in context["unresolved_errors"]]
    lines += _phases(context.get("nebula"))
    lines += [f"  Failed: {_line(_failure(each))}" for each in context.get("failures", [])[:5]]
    if context["feedback_request"]:
        request = context["feedback_request"]
        lines.append(f"  Waiting for: {_line(request['prompt'])} [{' | '.join(map(_line, request['options']))}]")
    for heard in context["feedback"]:
        said = f": {_line(heard['comment'])}" if heard["comment"] else ""
        lines.append(f"  Answered: {_line(heard['prompt'])} → {_line(heard['response'])}{said}")
    if context["events"]:
        last_event = context["events"][-1]
        said = last_event.get("message") or ":".join(
            str(last_event[key]) for key in ("phase", "step") if key in last_event
        )
        lines.append(f"  Last Event: [{_line(last_event['timestamp'])}] {_line(last_event['type'])}: {_line(said)}")
    if point is not None:
        steps = context["next_steps"]
        begun = point["mode"] == "continue" and steps["command"].startswith("faber step complete")
        if steps["instruction"]:
            lines.append(f"  {'Go on' if begun else 'Next'}: {_line(steps['instruction'])}")
        lines.append(f"  {'Then' if begun else 'With'}: {_line(steps['command'])}")
        lines.append(f"  Why: {_line(steps['why'])}")
        if len(steps["remaining"]) > 1:
            lines.append(f"  Remaining: {_line(', '.join(steps['remaining']))}")
    return "\n".join(lines)


def _phases(nebula: dict[str, Any] | None) -> list[str]:
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


def _criteria(spec: dict[str, Any]) -> str:
    criteria = spec.get("acceptance_criteria") or []
    return f" ({sum(c['done'] is True for c in criteria)} of {len(criteria)} criteria met)" if criteria else ""


def _failure(failed: dict[str, Any]) -> str:
    said = f"{failed['phase']} ({failed['failure'] or 'not diagnosed'})"
    if failed["remediation"]:
        return f"{said} → {failed['remediation']} ({failed['remediation_status']})"
    if failed["healing"]:
        return f"{said}, healing ({failed['healing']})"
    return f"{said}: not healed ({failed['not_healed']})" if failed["not_healed"] else said


def _error(error: dict[str, Any]) -> str:
    place = ":".join(str(part) for part in (error.get("phase"), error.get("step")) if part)
    return f"{place or 'run'}: {error.get('message', '')}"


def _going(context: dict[str, Any]) -> str:
    point = context["resume_point"]
    if point is None:
        return "nothing to resume"
    return {
        "start": "Starting from the beginning",
        "continue": f"Continuing at {_place(point)}",
        "retry": f"Retrying {_place(point)}",
        "after_feedback": f"Resuming after feedback at {_place(point)}",
    }[point["mode"]]


def _question(decision: dict[str, Any], context: dict[str, Any]) -> str:
    about = next((w for w in context["warnings"] if w["code"] == decision["code"]), None)
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


def _warning(warning: dict[str, Any]) -> str:
    lines = [f"⚠️ WARNING: {_line(warning['message'])}"]
    if warning["source"]:
        lines.append(f"About: {_line(warning['source'])}")
    if warning["recovery"]:
        lines.append(f"Note: {_line(warning['recovery'])}")
    return "\n".join(lines)


def critical(error: FaberError) -> str:
    """The protocol's pattern for what stops everything."""
    return f"❌ CRITICAL: Cannot reconstitute context\nError: {_line(error.message)}\nAction: {_line(error.recovery)}\n"
