"""What hooks keep about a session: what it was told, and where its signs of life are."""

import os

from faber.context import session_record
from faber.context.session_record import SessionRecord
from faber.hooks.hook_call import Call

_SHELLS = frozenset({"sh", "dash", "bash", "zsh", "ash", "ksh", "busybox"})
MAX_PATH = 4_096


def remember(call: Call, run_id: str, event_id: int, lost: tuple[str, ...] = ()) -> None:
    """Write the session's record: the run and the newest event that it knows, its transcript and its client."""
    if call.session:
        known = session_record.read(call.layout, call.session)
        made = SessionRecord(run_id, event_id, lost, _transcript(call, known), client_process(), machine())
        if made != known:
            session_record.write(call.layout, call.session, made)
        else:
            session_record.touch(call.layout, call.session)


def still_here(call: Call) -> None:
    """Write the session's record again, with what it knew: a sign of life."""
    known = session_record.read(call.layout, call.session) if call.session else None
    remember(call, *(known[:3] if known else ("", 0)))


def _transcript(call: Call, known: SessionRecord | None) -> str:
    """The path that the client names; the earlier one where that does not exist, as after a resume from elsewhere."""
    given = call.given.get("transcript_path")
    path = given if isinstance(given, str) and os.path.isabs(given) and len(given) <= MAX_PATH else ""
    earlier = known.transcript if known else ""
    return earlier if earlier and not session_record.changed(path) else path


def client_process() -> int:
    """The process that called the hook: the nearest one other than a shell, where the system tells."""
    pid = os.getppid()
    try:
        for _ in range(4):
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                before, _, after = file.read().rpartition(")")
            if before.partition("(")[2] not in _SHELLS:
                break
            pid = int(after.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return pid if pid > 1 else 0


def machine() -> str:
    """Where process ids mean the same: the host and, on Linux, the namespace of processes."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return f"{os.uname().nodename} {space}".strip()
