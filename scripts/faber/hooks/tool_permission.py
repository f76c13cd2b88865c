"""PreToolUse: allow what faber's own answers tell an agent to run.

A skill's permission ends with the prompt that invoked it, and a brief, an answer and a subagent have none. This allows
exactly one plain call of this plugin's own `bin/faber` and does not decide about anything else. Whatever a shell makes
of the bare name (a function, an alias, another PATH than this process has), what runs is that file.
"""

import json
import os

from faber.hooks.approve import harmless, plain_call
from faber.hooks.grants import TYPED
from faber.hooks.hook_call import Call, say
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
        from faber.hooks.session_memory import still_here

        still_here(call)


def _bare_name_is_ours() -> bool:
    """True if `faber` alone means this plugin's program: no other stands on PATH, where a relative entry may lead
    anywhere."""
    path = os.environ.get("PATH", "").split(os.pathsep)
    return all(os.path.isabs(entry) and not os.path.lexists(os.path.join(entry, "faber")) for entry in path)


def _allowed(call: Call, arguments: list[str]) -> bool:
    if tuple(arguments[:2]) in TYPED:
        from faber.hooks.provenance import newest_typed

        skill, *typed = newest_typed(call) or [""]
        return [skill, *typed] == arguments
    if arguments[:1] == ["pull-request"]:
        from faber.hooks.completion import may_open

        return may_open(call, arguments[1:])
    if not harmless(arguments):
        return False
    if arguments[:2] != ["step", "complete"]:
        return True
    from faber.hooks.completion import may_complete  # reads the run: what a call of the hook rarely needs

    return may_complete(call, arguments[2:])
