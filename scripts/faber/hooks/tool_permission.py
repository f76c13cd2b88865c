"""PreToolUse: allow what faber's own answers tell an agent to run.

A skill's permission ends with the prompt that invoked it, and a brief, an answer and a subagent have none. This allows
exactly one plain call of this plugin's own `bin/faber` and does not decide about anything else.
"""

import json
import os

from faber.errors import FaberError
from faber.foreign.resolve import open_named
from faber.hooks.approve import approved_call
from faber.hooks.hook_call import Call, say
from faber.model.progress import step_plan
from faber.store.layout import Layout


def pre_tool_use(call: Call) -> None:
    """Allow the Bash call if it is certainly harmless; print nothing otherwise."""
    given = call.given.get("tool_input")
    command = given.get("command") if isinstance(given, dict) else None
    if call.given.get("tool_name") != "Bash" or not isinstance(command, str):
        return
    arguments = approved_call(command, _programs(call.faber))
    if arguments is None or (arguments[:2] == ["step", "complete"] and _runs_commands(call.layout, arguments[2:])):
        return
    decision = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow",
        "permissionDecisionReason": "One plain call of faber that speaks for nobody.",
    }
    say(json.dumps({"hookSpecificOutput": decision}) + "\n")


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


def _runs_commands(layout: Layout, arguments: list[str]) -> bool:
    """True unless completing this step certainly runs no command of the plan: the plan's author wrote that command,
    and only the person may allow it."""
    try:
        run = open_named(layout, arguments[0])
        phase, _, step = arguments[1].partition(":")
        return any(piece["kind"] == "command" for piece in step_plan(run.plan, phase, step).get("evidence", []))
    except (FaberError, IndexError):
        return True
