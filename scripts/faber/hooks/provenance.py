"""Whether a person at a terminal typed a prompt.

The client calls UserPromptSubmit with the same fields for a prompt that a person typed, for one that the model had
scheduled, and for a message of another agent. What tells them apart is in the environment, in the session's
transcript and among the processes.
"""

import json
import os
import re
import time
from collections.abc import Sequence
from typing import Any

from faber.hooks.hook_call import Call

# What the client writes about a prompt that it sends itself is in the transcript within a tenth of a second.
SETTLED = 0.3
MAX_LINE = 8_000_000
# Lines of the transcript that quote what hooks said to the person: the attachments of these events …
_OWN_EVENTS = frozenset({"SessionStart", "Stop", "UserPromptSubmit"})
# … and the notice of a blocked prompt.
_BLOCKED = "UserPromptSubmit operation blocked by hook"


def attended(call: Call) -> bool:
    """True if a person sits at this session's terminal: not under `-p`, an SDK or another program, and no subagent."""
    return (
        os.environ.get("CLAUDE_CODE_ENTRYPOINT") == "cli"
        and os.environ.get("CLAUDE_CODE_SESSION_ATTENDED", "1") == "1"
        and call.given.get("agent_id") is None
    )


def from_a_person(call: Call) -> bool:
    """`attended`, and the client, where it says who sent the prompt, names the person."""
    return attended(call) and call.given.get("source", "user") == "user"


def doubt(call: Call, code: str) -> str | None:
    """Why a prompt with this valid code may not count as typed by the person who was shown it; None if it does.

    Only faber's own lines in the transcript hold the code before the person types it. Whatever the model schedules or
    sends, reads or quotes, and each prompt that the client takes from its queue, is there too, in a line of another
    kind.
    """
    if _inside_an_agent(call.session or ""):
        return "this client was started by another agent"
    time.sleep(SETTLED)
    for path in _transcripts(call):
        if _mentions(path, code):
            return "the code has come up in this session before, so this prompt may be an agent's"
    return None


def typed_skill(call: Call, names: Sequence[str]) -> bool:
    """True if one of this plugin's skills `names` was typed as a command in this session: the transcript has it as a
    prompt of its own, not as a call of the model, a text that quotes it or a prompt that the client was sent."""
    openings = tuple(
        f"<command-message>faber:{name}</command-message>\n<command-name>/faber:{name}</command-name>" for name in names
    )
    for path in _transcripts(call):
        try:
            with open(path, "rb") as file:
                if any(b"<command-name>/faber:" in line and _is_typed(line, openings) for line in file):
                    return True
        except OSError:
            continue
    return False


def _is_typed(line: bytes, openings: tuple[str, ...]) -> bool:
    if len(line) > MAX_LINE:
        return False
    try:
        entry: Any = json.loads(line)
    except ValueError:
        return False
    if not isinstance(entry, dict) or entry.get("type") != "user" or entry.get("isMeta") or entry.get("isSidechain"):
        return False
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return "promptSource" not in entry and isinstance(content, str) and content.startswith(openings)


def _transcripts(call: Call) -> list[str]:
    """The session's transcripts; resumed from another worktree, it has one under that project's name too."""
    named = call.given.get("transcript_path")
    if not isinstance(named, str) or not os.path.isabs(named):
        return []
    projects, name = os.path.dirname(os.path.dirname(named)), os.path.basename(named)
    try:
        found = [os.path.join(entry.path, name) for entry in os.scandir(projects) if entry.is_dir()]
    except OSError:
        found = [named]
    return [path for path in found if os.path.isfile(path)]


def _mentions(path: str, code: str) -> bool:
    """True if a line that is not faber's own word to the person holds the code; also if the file cannot be read."""
    wanted = re.compile(rb"(?<![0-9A-Za-z])" + code.encode() + rb"(?![0-9A-Za-z])", re.IGNORECASE)
    try:
        with open(path, "rb") as file:
            return any(wanted.search(line) and not _is_own(line) for line in file)
    except OSError:
        return True


def _is_own(line: bytes) -> bool:
    if len(line) > MAX_LINE:
        return False
    try:
        entry: Any = json.loads(line)
    except ValueError:
        return False
    if not isinstance(entry, dict):
        return False
    if entry.get("type") == "attachment":
        attachment = entry.get("attachment")
        return (
            isinstance(attachment, dict)
            and attachment.get("type") in ("hook_success", "hook_system_message")
            and attachment.get("hookEvent") in _OWN_EVENTS
        )
    return entry.get("type") == "system" and str(entry.get("content", "")).startswith(_BLOCKED)


def _inside_an_agent(session: str) -> bool:
    """True if the client itself runs in an agent's session, as `faber feedback respond` would find by the same
    variables. Where processes cannot be looked into (no /proc), False."""
    own = f"CLAUDE_CODE_SESSION_ID={session}".encode()
    number = os.getppid()
    for _ in range(8):
        try:
            with open(f"/proc/{number}/environ", "rb") as file:
                variables = file.read().split(b"\0")
            with open(f"/proc/{number}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return False
        if own not in variables:  # the client; below it are the shells it starts for hooks
            return any(each.startswith((b"CLAUDECODE=", b"CLAUDE_CODE_SESSION_ID=")) for each in variables)
        number = parent
    return True
