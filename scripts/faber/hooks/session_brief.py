"""The brief that a session gets about its run: pure functions from state and plan to bounded text.

All text from the log is made inert and bounded. Only text of agents and of the project's people gets in: no work item,
no comment on an answer, no title. Every command is complete.
"""

from typing import NamedTuple

from faber.context.resume import Resume, resume_point
from faber.hooks.lines import Line, fit, line
from faber.model.documents import SETTLED, Plan, State
from faber.model.next import Action, next_action
from faber.model.pauses import pause_text
from faber.model.progress import unfinished
from faber.model.state_parts import ErrorEntry, FeedbackRequest
from faber.text.program_word import command, prose, shell_word

FULL = 9_500
SHORT = 1_500


class Elsewhere(NamedTuple):
    """A run's branch that is not checked out here: its name, the worktree that has it (None: no worktree), and what is
    checked out here instead."""

    branch: str
    path: str | None
    here: str


class Bounds(NamedTuple):
    """The limits of one form of the brief: numbers of entries, and characters of each."""

    limit: int
    task: int
    prompt: int
    decisions: int
    decision: int
    errors: int
    error: int
    steps: int
    instruction: int


BOUNDS = {
    FULL: Bounds(FULL, 2_000, 2_000, 10, 500, 5, 500, 1_000, 1_000),
    SHORT: Bounds(SHORT, 300, 300, 3, 160, 2, 160, 160, 0),
}


def next_command(faber: str, run_id: str) -> str:
    """The command that says what to do next; `faber` is the path of bin/faber."""
    return f"{shell_word(faber)} next {run_id}"


def what_to_do(action: Action, faber: str, run_id: str) -> list[Line]:
    """The answer of `faber next` as lines: what this session runs, or what only a person may run."""
    said = line(command(action["command"], shell_word(faber)), 800)
    if action["person"]:
        return [Line(0, f"What comes next is a person's: tell them to run `{said}`.")]
    if action["action"] == "done":
        return [Line(0, f"Next command: {said}")]
    lines = [Line(0, f"Next command: {next_command(faber, run_id)}")]
    if action["mode"] == "continue":
        place = line(f"{action['phase']}:{action['step']}", 140)
        lines.append(Line(2, f"Once {place} is done: {said}"))
    return lines


def context_command(faber: str, run_id: str) -> str:
    """The command that loads a run's full context and records that this session has it."""
    return f"{shell_word(faber)} context {run_id} --record"


def rules_command(faber: str) -> str:
    """The command that prints the rules of the step loop."""
    return f"{shell_word(faber)} protocol step-loop"


def doctor_command(faber: str, run_id: str) -> str:
    """The command that diagnoses a run."""
    return f"{shell_word(faber)} doctor {run_id}"


def brief(
    state: State,
    plan: Plan,
    faber: str,
    elsewhere: Elsewhere | None = None,
    *,
    limit: int = FULL,
    loaded: bool = False,
    action: Action | None = None,
) -> str:
    """Everything a session needs to continue the run, in at most `limit` characters (FULL or SHORT).

    `loaded` is true if the run's context is in the conversation already. `action` is what the session does next.
    """
    bounds = BOUNDS[limit]
    run_id = state["run_id"]
    resume = resume_point(state, plan)
    lines = [
        Line(0, f"faber: an unfinished run belongs to this session: {run_id}{_work(state)}."),
        *task(state, bounds.task),
        Line(1, f"Status: {state['status']}. Resume point: {point_text(resume)}."),
        Line(3, f"Reason: {line(resume.why, 300)}"),
        *whereabouts(elsewhere),
        *question(state["feedback_request"], bounds.prompt),
        *refused(state),
        *what_to_do(action or next_action(state, plan), faber, run_id),
        *([] if loaded else before_work(faber, run_id)),
    ]
    if bounds.instruction and (instruction := _instruction(plan, resume)):
        instruction = prose(instruction, shell_word(faber), run_id)
        lines.append(Line(5, f"Step instruction: {line(instruction, bounds.instruction)}"))
    lines += _steps(state, plan, bounds)
    lines += _artifacts(state)
    lines += [Line(6, f"Unresolved error: {_error(e, bounds.error)}") for e in state["errors"][-bounds.errors :]]
    lines += _overcome(state, bounds)
    lines += decided(state, 7, bounds.decisions, bounds.decision)
    lines.append(
        Line(4, "This comes from the run's log. Check your work against it, and do not repeat finished steps.")
    )
    return fit(lines, limit)


def before_work(faber: str, run_id: str) -> list[Line]:
    """What a session reads that has neither the rules nor the run's context in its conversation."""
    return [
        Line(1, f"Before any work, read the rules: {rules_command(faber)}"),
        Line(1, f"Before any work, load the context: {context_command(faber, run_id)}"),
    ]


def point_text(resume: Resume) -> str:
    """A resume point in words: `build:implement (continue)`."""
    if resume.point is None:
        return "none"
    place = ":".join(part for part in (resume.point["phase"], resume.point["step"]) if part)
    return f"{line(place, 140) or 'the run itself'} ({resume.point['mode']})"


def question(request: FeedbackRequest | None, limit: int) -> list[Line]:
    """The open question, and that an agent must not answer it."""
    if request is None:
        return []
    options = [line(option, 100) for option in request["options"][:10]]
    return [
        Line(1, f"A person must answer request {line(request['request_id'], 100)} first."),
        Line(
            2, "Only a person may answer: tell them, do not answer it yourself, and do not continue the run until then."
        ),
        Line(3, f"The question: {line(request['prompt'], limit)}"),
        *([Line(4, f"Options: {line(' | '.join(options), min(limit, 600))}")] if options else []),
    ]


def refused(state: State) -> list[Line]:
    """Why the last turn about the run ended early: a limit or an outage, which may be over by now."""
    if "paused" not in state:
        return []
    return [Line(2, f"The service refused the last turn: {line(pause_text(state['paused']), 500)}")]


def task(state: State, limit: int) -> list[Line]:
    """The words that a run was created from, in at most `limit` characters; nothing for a run without any."""
    return [Line(2, f"Task: {line(state['target'], limit)}")] if state["target"] else []


def decided(state: State, rank: int, count: int, limit: int) -> list[Line]:
    """The last decisions, oldest first, each in at most `limit` characters; older ones are dropped first."""
    texts = [line(entry.get("decision") or "", limit) for entry in state["decisions"][-count:]]
    return [Line(rank + len(texts) - number, f"Decided: {text}") for number, text in enumerate(texts, 1) if text]


def _work(state: State) -> str:
    return f" (work item {line(state['work_id'], 80)})" if state["work_id"] else ""


def whereabouts(found: Elsewhere | None) -> list[Line]:
    """A warning that the run's branch is not checked out here, and where it is instead."""
    if found is None:
        return []
    branch, here = line(found.branch, 150), line(found.here, 150)
    if found.path:
        where = f"is checked out at {line(found.path, 300)}, not here (here is {here}). Work on this run there."
    else:
        where = f"is not checked out anywhere (here is {here}). Check it out before changing a file for this run."
    return [Line(2, f"ELSEWHERE: the run's branch {branch} {where}")]


def _instruction(plan: Plan, resume: Resume) -> str | None:
    if resume.point is None:
        return None
    place = resume.point["phase"], resume.point["step"]
    for phase in plan["phases"]:
        for step in phase["steps"]:
            if (phase["id"], step["id"]) == place:
                return step.get("instruction") or step["name"]
    return None


def _steps(state: State, plan: Plan, bounds: Bounds) -> list[Line]:
    done = []
    for name, phase in state["phases"].items():
        settled = [step for step, known in phase["steps"].items() if known["status"] in SETTLED]
        if settled and len(settled) == len(phase["steps"]):
            done.append(f"{name} (all {len(settled)} steps)")
        else:
            done += [f"{name}:{step}" for step in settled]
    left = [f"{phase}:{step}" for phase, step in unfinished(state, plan)]
    lines = []
    if done:
        lines.append(Line(3, f"Done, do not repeat: {_listed(done, bounds.steps, newest=True)}"))
    if left:
        lines.append(Line(8, f"Remaining: {_listed(left, bounds.steps)}"))
    return lines


def _listed(names: list[str], limit: int, *, newest: bool = False) -> str:
    """As many names as fit, from the beginning or (`newest`) from the end, and the number of those left out."""
    shown: list[str] = []
    length = 0
    for name in reversed(names) if newest else names:
        name = line(name, 140)
        length += len(name) + 2
        if length > limit:
            break
        shown.append(name)
    if newest:
        shown.reverse()
    rest = len(names) - len(shown)
    counted = [f"{rest} {'earlier' if newest else 'more'}"] if rest else []
    return ", ".join([*counted, *shown] if newest else [*shown, *counted])


def _artifacts(state: State) -> list[Line]:
    known = [("Branch", "branch_name"), ("specification", "spec_path"), ("pull request", "pr_url")]
    found = [
        f"{title} {line(state['artifacts'][name], 200)}"
        for title, name in known
        if isinstance(state["artifacts"].get(name), str)
    ]
    return [Line(5, "Artifacts: " + ", ".join(found))] if found else []


def _overcome(state: State, bounds: Bounds) -> list[Line]:
    """Why earlier work was done again, once that failure is no longer open."""
    failed = [entry.get("phase") for entry in state["errors"]]
    loops = [loop for loop in state["retry_loops"] if loop["phase"] not in failed and "source" not in loop]
    said = [line(loop["reason"] or "", bounds.error) for loop in loops[-bounds.errors :]]
    return [Line(6, f"Overcome, do not try it again: {each}") for each in said if each]


def _error(entry: ErrorEntry, limit: int) -> str:
    place = ":".join(str(part) for part in (entry.get("phase"), entry.get("step")) if part)
    return line(f"{place or 'run'}: {entry.get('message') or ''}", limit)
