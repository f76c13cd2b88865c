"""One call of a hook: from the client's JSON on stdin to its handler."""

import os
import time
from collections.abc import Mapping
from importlib import import_module

from faber.hooks.hook_call import Call
from faber.store.bundle import PROGRAM
from faber.store.layout import Layout, find_root

# The client's events and their handlers.
HANDLERS = {
    "session-start": "faber.hooks.start:session_start",
    "user-prompt-submit": "faber.hooks.typed_answer:user_prompt_submit",
    "stop": "faber.hooks.stopping:stop",
    "pre-tool-use": "faber.hooks.tool_permission:pre_tool_use",
    "pre-compact": "faber.hooks.compaction:pre_compact",
    "post-compact": "faber.hooks.compaction:post_compact",
    "session-end": "faber.hooks.ending:session_end",
    "stop-failure": "faber.hooks.ending:stop_failure",
    "follow": "faber.hooks.follow:follow",  # no event: the session's monitor
}
# What is answered before the project has a store, too: the first command makes it.
ANYWHERE = frozenset({"pre-tool-use"})
MAX_INPUT = 4 * 1024 * 1024
SILENCE = 0.2  # seconds without a further byte, after which reading ends
PATIENCE = 1.0  # seconds for all of stdin
MAX_SESSION_ID = 200


def answer(event: str) -> None:
    """Answer one call for `event`; prints nothing for an unknown one, and rarely outside a project with a store."""
    if event not in HANDLERS:
        return
    given = _parsed(_read(0))
    here = _directory(given)
    layout = Layout(find_root(None, os.environ, here))
    if not layout.exists() and event not in ANYWHERE:
        return
    call = Call(given, _session(given), layout, here, PROGRAM)
    module, _, function = HANDLERS[event].partition(":")
    getattr(import_module(module), function)(call)


def _directory(given: Mapping[str, object]) -> str:
    """The session's directory: the client's, or that of this process."""
    for named in (given.get("cwd"), os.environ.get("CLAUDE_PROJECT_DIR")):
        if isinstance(named, str) and os.path.isabs(named) and "\0" not in named and os.path.isdir(named):
            return os.path.realpath(named)
    return os.getcwd()


def _session(given: Mapping[str, object]) -> str | None:
    named = given.get("session_id")
    found = named if isinstance(named, str) and named else os.environ.get("CLAUDE_CODE_SESSION_ID", "")
    return found[:MAX_SESSION_ID] or None


def _parsed(data: bytes) -> Mapping[str, object]:
    if not data:
        return {}
    from faber.store import strict_json

    try:
        value = strict_json.loads(data)
    except strict_json.InvalidJSON:
        return {}
    return value if isinstance(value, dict) else {}


def _read(handle: int) -> bytes:
    """What stdin holds, cut at `MAX_INPUT` (and then no JSON); the rest is read too, so that the writer can finish.

    A terminal, or a writer that neither writes nor closes, is not waited for.
    """
    from select import select

    chunks, size, end = [], 0, time.monotonic() + PATIENCE
    try:
        if os.isatty(handle):
            return b""
        while (left := end - time.monotonic()) > 0 and select([handle], [], [], min(SILENCE, left) if size else left)[
            0
        ]:
            chunk = os.read(handle, 1 << 20)
            if not chunk:
                break
            size += len(chunk)
            if size <= MAX_INPUT:
                chunks.append(chunk)
    except (OSError, ValueError):
        return b""
    return b"".join(chunks)
