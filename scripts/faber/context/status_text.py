"""The text of `faber status`: untrusted text in it is made inert and kept on its line."""

from collections.abc import Callable

from faber.foreign.run_rows import RunList, branch_name
from faber.model.documents import CLOSED, SETTLED, State, nebula_phases
from faber.model.pauses import pause_text
from faber.model.state_parts import FeedbackRequest
from faber.text.safe_text import inert, one_line, shorten

WIDTH = 80
SEPARATOR = " · "
MARKS = {"completed": "✓", "skipped": "–", "failed": "✗", "in_progress": "▶", "pending": "·", "created": "·"}


def list_text(found: RunList, spelled: Callable[[str], str]) -> str:
    """Each run's id alone on its line, to be selected whole, and what there is to know about it below.

    `spelled` spells the commands in faber's own prose.
    """
    lines = [] if found.runs or found.damaged else [spelled("No run is open. `faber run init` creates one.")]
    for row in found.runs:
        at = ":".join(part for part in (row["current_phase"], row["current_step"]) if part)
        about = [f"{row['status']} at {at}" if at else row["status"]]
        if row["work_id"]:
            about.append(f"work item {row['work_id']}")
        elif row["target"]:
            about.append(shorten(_one_line(row["target"]), WIDTH - 2))
        if row["branch"]:
            about.append(f"branch {_one_line(row['branch'])}")
        lines += [row["run_id"], *_packed(about)]
        if row["foreign"] and row["status"] not in CLOSED:
            lines.append(spelled(f"  made by another tool; first `faber run adopt {row['run_id']}`"))
        if request := row["waits_for"]:
            asked = f"waits for a person: {shorten(_one_line(request['prompt']), 200)}{_options(request)}"
            lines += _wrapped(asked)
        if row["paused"]:
            lines += _wrapped(f"paused: {_one_line(pause_text(row['paused']))}")
    for entry in found.damaged:
        lines += [
            entry["run_id"],
            spelled(f"  damaged: {entry['error']['code']}; see `faber doctor {entry['run_id']}`"),
        ]
    if found.more:
        shown = max(len(found.runs), len(found.damaged))
        lines.append(f"({found.more} more; --limit {shown + found.more} shows them)")
    if found.hidden:
        lines.append(f"({found.hidden} completed or cancelled; --all shows them)")
    return "\n".join(lines) + "\n"


def _packed(parts: list[str]) -> list[str]:
    """The parts in indented lines, as many in each as fit; none is cut."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(SEPARATOR) + len(part) <= WIDTH:
            lines[-1] += SEPARATOR + part
        else:
            lines.append(f"  {part}")
    return lines


def _wrapped(text: str) -> list[str]:
    from textwrap import wrap

    return wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _options(request: FeedbackRequest) -> str:
    return f" ({', '.join(map(_one_line, request['options']))})" if request["options"] else ""


def _one_line(text: str) -> str:
    return inert(text).replace("\n", " ")


def run_text(state: State, next_command: str) -> str:
    """The phases and steps of one run, what it waits for and what comes next."""
    lines = [f"Run     {state['run_id']}", f"Status  {state['status']}"]
    if state["work_id"]:
        lines.append(f"Work    #{inert(state['work_id'])}")
    if state["target"]:
        lines.append(f"Task    {one_line(state['target'], 300)}")
    if branch := branch_name(state):
        lines.append(f"Branch  {_one_line(branch)}")
    for name, phase in state["phases"].items():
        lines.append(f"{MARKS[phase['status']]} {inert(name)}")
        for step, known in phase["steps"].items():
            note = ""
            if known["error"]:
                note = f"  {shorten(inert(str(known['error'].get('message', ''))), 60)}"
            elif known["warning"]:
                note = f"  {shorten(inert(known['message'] or 'with a warning'), 200)}"
            elif known["attempts"] > 1 and known["status"] not in SETTLED:
                note = f"  (attempt {known['attempts']})"
            lines.append(f"    {MARKS[known['status']]} {inert(step)}{note}".replace("\n", " "))
    for name, working in nebula_phases(state).items():
        note = f"  cycle {working['cycle']}" if "cycle" in working else ""
        note += f"  {shorten(inert(working['reason']), 60)}" if "reason" in working else ""
        lines.append(f"{MARKS.get(working['status'], '✓')} {inert(name)}{note}".replace("\n", " "))
    if "paused" in state:
        lines.append(f"Paused  {_one_line(pause_text(state['paused']))}")
    request = state["feedback_request"]
    if request:
        prompt = shorten(_one_line(request["prompt"]), 200)
        lines.append(f"Waiting for an answer to {inert(request['request_id'])}: {prompt}{_options(request)}")
    lines.append(f"Next    {next_command}")
    return "\n".join(lines) + "\n"
