"""PreToolUse: a session that only got the capsule may call the program that the capsule names.

A skill's grant ends with the prompt that invoked it, and a capsule comes without one. This answers for
exactly one plain call of this plugin's own `bin/faber`; about everything else it says nothing.
"""

import json

from faber.hooks.approve import approves
from faber.hooks.calls import Call, say


def pre_tool_use(call: Call) -> None:
    """Allow the Bash call if it is certainly harmless; print nothing otherwise."""
    given = call.given.get("tool_input")
    command = given.get("command") if isinstance(given, dict) else None
    if call.given.get("tool_name") != "Bash" or not isinstance(command, str):
        return
    root = call.faber.rsplit("/", 2)[0]
    if approves(command, root):
        decision = {
            "hookEventName": "PreToolUse",
            "permissionDecision": "allow",
            "permissionDecisionReason": "One plain call of faber that speaks for nobody.",
        }
        say(json.dumps({"hookSpecificOutput": decision}) + "\n")
