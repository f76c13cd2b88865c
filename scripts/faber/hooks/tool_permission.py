"""PreToolUse: allow what faber's own answers tell an agent to run.

A skill's permission ends with the prompt that invoked it, and a brief, an answer and a subagent have none. This allows
exactly one plain call of this plugin's own `bin/faber` and does not decide about anything else. Whatever a shell makes
of the bare name (a function, an alias, another PATH than this process has), what runs is that file.
"""

import json
import os

from faber.errors import FaberError
from faber.foreign.resolve import LATEST, open_named
from faber.hooks.approve import harmless, plain_call
from faber.hooks.grants import TYPED, WORKING_SKILLS
from faber.hooks.hook_call import Call, say
from faber.hooks.hook_recording import working_on
from faber.hooks.provenance import newest_typed, typed_skill
from faber.hooks.session_memory import still_here
from faber.model.progress import step_plan
from faber.text.program_word import command as spelled
from faber.text.program_word import shell_word


def pre_tool_use(call: Call) -> None:
    """Allow the Bash call if it is certainly the agent's to make; print nothing otherwise."""
    given = call.given.get("tool_input")
    command = given.get("command") if isinstance(given, dict) else None
    if call.given.get("tool_name") != "Bash" or not isinstance(given, dict) or not isinstance(command, str):
        return
    if given.get("dangerouslyDisableSandbox"):
        return  # more than the plain call
    run = spelled(command.strip(" "), shell_word(call.faber)) if _bare_name_is_ours() else command
    root = os.environ.get("CLAUDE_PLUGIN_ROOT")
    arguments = plain_call(run, {call.faber, f"{root}/bin/faber" if root else call.faber})
    if arguments is None or not _allowed(call, arguments):
        return
    decision: dict[str, object] = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow",
        "permissionDecisionReason": "One plain call of faber, free for agents or typed by the person.",
    }
    if run != command:
        decision["updatedInput"] = {**given, "command": run}
    say(json.dumps({"hookSpecificOutput": decision}) + "\n")
    if call.layout.exists():
        still_here(call)


def _bare_name_is_ours() -> bool:
    """True if `faber` alone means this plugin's program: no other stands on PATH, where a relative entry may lead
    anywhere."""
    path = os.environ.get("PATH", "").split(os.pathsep)
    return all(os.path.isabs(entry) and not os.path.lexists(os.path.join(entry, "faber")) for entry in path)


def _allowed(call: Call, arguments: list[str]) -> bool:
    if tuple(arguments[:2]) in TYPED:
        skill, *typed = newest_typed(call) or [""]
        return [skill, *typed] == arguments
    if arguments[:2] == ["step", "complete"] and not _may_complete(call, arguments[2:]):
        return False
    return harmless(arguments)


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
