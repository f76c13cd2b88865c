"""Which `faber step complete` and `faber pull-request` an agent may call unasked: the one could run a command that the
plan names as evidence, the other reaches another machine."""

from faber.errors import FaberError
from faber.foreign.resolve import LATEST, open_named
from faber.hooks.grants import WORKING_SKILLS
from faber.hooks.hook_call import Call
from faber.hooks.provenance import typed_skill
from faber.hooks.run_lookup import working_on
from faber.model.progress import step_plan
from faber.store.load import Run


def may_complete(call: Call, arguments: list[str]) -> bool:
    """True if completing this step certainly runs no command of the plan, or if the person typed the skill by which
    this session works on the run: whoever wrote the plan wrote that command, and only the person may allow it."""
    try:
        # No run id has a colon: with one, this is the step, and the run is the session's.
        named = None if ":" in arguments[0] else arguments[0]
        place = arguments[0] if named is None else arguments[1]
        phase, colon, step = place.partition(":")
        run = working_on(call) if named is None or named == LATEST else open_named(call.layout, named)
        if run is None or not colon or place.startswith("-"):
            return False
        evidence = step_plan(run.plan, phase, step).get("evidence", [])
    except (FaberError, IndexError):
        return False
    if all(piece["kind"] != "command" for piece in evidence):
        return True
    return _works_for_a_person(call, run)


def may_open(call: Call, arguments: list[str]) -> bool:
    """True if the call only names the run, the run's step in progress opens the pull request, and the person typed the
    skill by which this session works on the run."""
    named = [word for word in arguments if word != "--next"]
    if any(word.startswith("-") for word in named):
        return False
    try:
        run = open_named(call.layout, named[0]) if named and named[0] != LATEST else working_on(call)
    except FaberError:
        return False
    if run is None or len(named) > 1:
        return False
    phase, step = run.state["current_phase"], run.state["current_step"]
    if phase is None or step is None or run.state["status"] != "in_progress":
        return False
    return bool(step_plan(run.plan, phase, step).get("pull_request")) and _works_for_a_person(call, run)


def _works_for_a_person(call: Call, run: Run) -> bool:
    return call.session in run.state["context_sessions"] and typed_skill(call, WORKING_SKILLS)
