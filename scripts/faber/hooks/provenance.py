"""Whether a person at a terminal typed a prompt.

The client calls UserPromptSubmit with the same fields for a prompt that a person typed, for one that the model had
scheduled, and for a message of another agent; and a shell of the session can call it just so. What tells them apart is
in the environment, in the session's transcript and among the processes.
"""

import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from faber.agents.known_clients import SIGNS
from faber.hooks.hook_call import Call

# What the client writes about a prompt that it sends itself is in the transcript within a tenth of a second.
SETTLED = 0.3
MAX_LINE = 8_000_000
# Lines of the transcript that quote what hooks said to the person: the attachments of these events …
_OWN_EVENTS = frozenset({"SessionStart", "Stop", "UserPromptSubmit"})
# … and the notice of a blocked prompt.
_BLOCKED = "UserPromptSubmit operation blocked by hook"
# What stands before a word: no letter or digit, unless it ends an escape of JSON (`\t`) or of a terminal (`\u001b[1m`).
_BEFORE = rb"(?:(?<![0-9A-Za-z])|\\(?:u[0-9A-Fa-f]{4}|[A-Za-z])|\[[0-9;]*[A-Za-z])"
# How the client writes down a skill of this plugin that was typed.
_COMMAND = re.compile(
    r"<command-message>faber:(?P<skill>\w+)</command-message>\n<command-name>/faber:(?P=skill)</command-name>"
    r"(?:\n<command-args>(?P<arguments>.*)</command-args>)?",
    re.DOTALL,
)
MAX_PROCESSES = 8  # from this one up to the client


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


def doubt(call: Call, code: str, existed: bool) -> str | None:
    """Why a prompt with this valid code may not count as typed by the person who was shown it; None if it does.

    Only faber's own lines in the transcript hold the code before the person types it. Whatever the model schedules or
    sends, reads or quotes, and each prompt that the client takes from its queue, is there too, in a line of another
    kind. The transcript has to be there if it was (`existed`) when a code was shown. Before, no model has run.
    """
    if why := misplaced(call.session or ""):
        return why
    named = call.given.get("transcript_path")
    if not isinstance(named, str) or not _is_transcript(named, call.session or ""):
        return "the client named no transcript of this session"
    time.sleep(SETTLED)
    found = _transcripts(call)
    if existed and not found:
        return "the transcript of this session is gone"
    for path in found:
        if _mentions(path, code):
            return "the code has come up in this session before, so this prompt may be an agent's"
    return None


def has_transcript(call: Call) -> bool:
    """True if this session has a transcript: the client makes it when it accepts the first prompt."""
    return bool(_transcripts(call))


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


def newest_typed(call: Call) -> list[str] | None:
    """The name of this plugin's skill and the words after it, if the session's newest prompt is one that was typed."""
    from faber.hooks.approve import words

    time.sleep(SETTLED)
    newest, found = "", None
    for path in _transcripts(call):
        try:
            with open(path, "rb") as file:
                entries = [_entry(line) for line in file if b'"user"' in line]
        except OSError:
            return None
        for entry in entries:
            moment = str(entry.get("timestamp", ""))
            if _is_prompt(entry) and moment >= newest:
                newest, found = moment, entry
    command = _COMMAND.fullmatch(_said(found)) if found else None
    given = words(command["arguments"] or "") if command else None
    return [command["skill"], *given] if command and given is not None else None


def _is_prompt(entry: Mapping[str, Any]) -> bool:
    """True if the entry begins a turn of the session: not a tool's result, nor what the client adds to a prompt."""
    added = entry.get("isMeta") and "promptSource" not in entry
    if entry.get("type") != "user" or added or entry.get("isSidechain"):
        return False
    content = _content(entry)
    blocks = content if isinstance(content, list) else []
    return not any(isinstance(block, dict) and block.get("type") == "tool_result" for block in blocks)


def _said(entry: Mapping[str, Any]) -> str:
    """What a prompt says, if it was typed; empty if the client was sent it."""
    content = _content(entry)
    return content if "promptSource" not in entry and isinstance(content, str) else ""


def _content(entry: Mapping[str, Any]) -> Any:
    message = entry.get("message")
    return message.get("content") if isinstance(message, dict) else None


def _is_typed(line: bytes, openings: tuple[str, ...]) -> bool:
    entry = _entry(line)
    return _is_prompt(entry) and _said(entry).startswith(openings)


def _entry(line: bytes) -> Mapping[str, Any]:
    """A line of a transcript; empty if it is too long or no JSON object."""
    try:
        found = json.loads(line) if len(line) <= MAX_LINE else None
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}


def _is_transcript(path: str, session: str) -> bool:
    projects = os.path.basename(os.path.dirname(os.path.dirname(path)))
    return os.path.isabs(path) and projects == "projects" and os.path.basename(path) == f"{session}.jsonl"


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
    wanted = re.compile(_BEFORE + code.encode() + rb"(?![0-9A-Za-z])", re.IGNORECASE)
    try:
        with open(path, "rb") as file:
            return any(wanted.search(line) and not _is_own(line) for line in file)
    except OSError:
        return True


def _is_own(line: bytes) -> bool:
    entry = _entry(line)
    if entry.get("type") == "attachment":
        attachment = entry.get("attachment")
        return (
            isinstance(attachment, dict)
            and attachment.get("type") in ("hook_success", "hook_system_message")
            and attachment.get("hookEvent") in _OWN_EVENTS
        )
    return entry.get("type") == "system" and str(entry.get("content", "")).startswith(_BLOCKED)


def misplaced(session: str) -> str | None:
    """Why this process is not a hook of a client that a person started; None if it is.

    The client's child above this process has the variables of a hook, which a shell of the Bash tool has not; and the
    client made both ends of stdin and stdout. What else runs in the session cannot make those: it has one such socket
    at most, whose other end it can neither write nor read. A chain that breaks off before the client is a reason too.
    Where processes cannot be looked into (no /proc), None.
    """
    if sys.platform != "linux":
        return None
    own = f"CLAUDE_CODE_SESSION_ID={session}".encode()
    below: list[bytes] = []
    number = os.getpid()
    for _ in range(MAX_PROCESSES):
        try:
            with open(f"/proc/{number}/environ", "rb") as file:
                variables = file.read().split(b"\0")
            with open(f"/proc/{number}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
        if own not in variables:  # the client
            if _names(variables, *(sign.encode() for sign in SIGNS)):
                return "this client was started by another agent"
            if _names(below, b"CLAUDE_PLUGIN_ROOT") and _made_by(number, 0) and _made_by(number, 1):
                return None
            break
        below, number = variables, parent
    return "the client did not call faber itself"


def _names(variables: list[bytes], *names: bytes) -> bool:
    return any(each.partition(b"=")[0] in names for each in variables)


def _made_by(number: int, handle: int) -> bool:
    """True if `handle` is one end of a pair of sockets that this process made; the kernel keeps who it was."""
    import socket
    import struct

    if sys.platform != "linux":
        return False
    try:
        with socket.socket(fileno=os.dup(handle)) as end:
            peer = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return end.family == socket.AF_UNIX and struct.unpack("3i", peer)[0] == number
    except OSError:
        return False
