"""PreToolUse: allow what faber's own answers tell an agent to run.

A skill's permission ends with the prompt that invoked it, and a brief, an answer and a subagent have none. This allows
exactly one plain call of this plugin's own `bin/faber` and does not decide about anything else.
"""

import json
import os

from faber.errors import FaberError
from faber.foreign.resolve import LATEST, open_named
from faber.hooks.approve import approved_call
from faber.hooks.grants import WORKING_SKILLS
from faber.hooks.hook_call import Call, say
from faber.hooks.hook_recording import working_on
from faber.hooks.provenance import typed_skill
from faber.hooks.session_memory import still_here
from faber.model.progress import step_plan


def pre_tool_use(call: Call) -> None:
    """Allow the Bash call if it is certainly harmless; print nothing otherwise."""
    given = call.given.get("tool_input")
    command = given.get("command") if isinstance(given, dict) else None
    if call.given.get("tool_name") != "Bash" or not isinstance(command, str):
        return
    arguments = approved_call(command, _programs(call.faber))
    if arguments is None or (arguments[:2] == ["step", "complete"] and not _may_complete(call, arguments[2:])):
        return
    decision = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow",
        "permissionDecisionReason": "One plain call of faber that speaks for nobody.",
    }
    say(json.dumps({"hookSpecificOutput": decision}) + "\n")
    if call.layout.exists():
        still_here(call)


def _programs(own: str) -> set[str]:
    """Every spelling of this plugin's program; `faber` alone too, where the shell finds no other one before it."""
    programs = {own}
    if root := os.environ.get("CLAUDE_PLUGIN_ROOT"):
        programs.add(f"{root}/bin/faber")
    path = os.environ.get("PATH", "").split(os.pathsep)
    # The client appends the plugin's directory to the PATH of its shell. A relative entry may lead anywhere.
    if all(os.path.isabs(entry) and not os.path.lexists(os.path.join(entry, "faber")) for entry in path):
        programs.add("faber")
    return programs


def _may_complete(call: Call, arguments: list[str]) -> bool:
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
    return call.session in run.state["context_sessions"] and typed_skill(call, WORKING_SKILLS)
