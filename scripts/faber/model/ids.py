"""Run ids and the other names that end up in paths and refs."""

import re

from faber.errors import InvalidInput
from faber.model.model_errors import InvalidRunId

MAX_SEGMENTS = 3
# Names used inside a run directory: as a segment they would put one run among another's files.
RESERVED = frozenset(
    {
        "events",
        "keys",
        "session-summaries",
        "parked",
        "damaged",
        "lock",
        "metadata.json",
        "plan.json",
        "state.json",
        "work-item.json",
    }
)
# What stands where a command takes a run, or a command in the same place: no new run may be called so.
COMMAND_WORDS = frozenset(
    {
        "adopt", "allow", "apply", "attach", "begin", "cancel", "check", "clean", "complete", "config", "context",
        "deliver", "demo", "diagnose", "doctor", "emit", "event", "export", "fail", "feedback", "from-event", "heal",
        "history", "import", "init", "land", "latest", "list", "log", "merge", "nebula", "next", "notify", "phase",
        "plan", "post", "prompt", "protocol", "pull", "pull-request", "push", "repair", "report", "request", "rerun",
        "respond", "response", "resume", "run", "save", "session", "setup", "show", "skip", "start", "status", "step",
        "sync", "takeover", "test", "validate", "watch", "why", "workflow",
    }
)  # fmt: skip
_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
# `re` compiles these when they are used, and keeps them: every command would pay for it at import.
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_WORK_ID = r"#?[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


def check_run_id(run_id: str) -> str:
    """Return `run_id` if it is valid; raises `InvalidRunId` saying which segment is wrong and why.

    One to three segments joined by `/`. Every segment is safe as a directory name and as a
    component of a git ref (runs travel as refs), on case-insensitive file systems too.
    """
    segments = run_id.split("/")
    if len(segments) > MAX_SEGMENTS:
        raise InvalidRunId(f"A run id has at most {MAX_SEGMENTS} segments.", run_id=ascii(run_id))
    for segment in segments:
        reason = _segment_problem(segment)
        if reason:
            raise InvalidRunId(f"Not a run id: segment {segment!a} {reason}.", run_id=ascii(run_id))
    return run_id


def check_new_run_id(run_id: str) -> str:
    """`check_run_id` for a run to be created: it is no word of the command line either."""
    if run_id.lower() in COMMAND_WORDS:
        raise InvalidRunId(f"Not a run id: {run_id!a} is a word that commands take.", run_id=ascii(run_id))
    return check_run_id(run_id)


def _segment_problem(segment: str) -> str | None:
    if not _SEGMENT.fullmatch(segment):
        return "is empty, too long, or has a character outside A-Z a-z 0-9 . _ -"
    if segment.lower() in RESERVED:
        return "is reserved for files of the run directory"
    if ".." in segment or segment.endswith(".") or segment.lower().endswith(".lock"):
        return "is not allowed by git as part of a ref"
    return None


def is_run_id(text: str) -> bool:
    """True if `text` is a well-formed run id."""
    try:
        check_run_id(text)
    except InvalidRunId:
        return False
    return True


def slug(text: str) -> str:
    """`text` as one run id segment: invalid characters become `-`; `project` if nothing is left."""
    candidate = re.sub(r"[^A-Za-z0-9._-]+|\.{2,}", "-", text).strip(".-_")[:100].rstrip(".-_")
    return candidate if candidate and _segment_problem(candidate) is None else "project"


def check_name(name: str, what: str) -> str:
    """A phase, step, workflow or artifact name: `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`."""
    if not re.fullmatch(_NAME, name):
        raise InvalidInput(f"Not a {what} name: {name[:80]!a}.", value=ascii(name[:200]))
    return name


def looks_like_work_id(text: str) -> bool:
    """True for `158`, `#158` and `PROJ-7`: a number, with or without a project; false for words."""
    return re.fullmatch(r"#?[0-9]{1,18}|#?[A-Z][A-Z0-9_]{0,31}-[0-9]{1,18}", text, re.ASCII) is not None


def check_relative(path: str) -> str:
    """Check that a path stays inside the directory it is relative to, judging by its spelling alone."""
    if path.startswith(("/", "~")) or ".." in path.split("/"):
        raise InvalidInput(f"{path[:80]!a} is not inside the project: use a relative path without '..'.")
    if not path.strip("./ ") or any(ord(character) < 32 or ord(character) == 127 for character in path):
        raise InvalidInput(f"{path[:80]!a} is not the path of a file.")
    return path


def check_work_id(work_id: str) -> str:
    """A work item's id, `158`, `#158` or `PROJ-7`; a leading `#` is dropped."""
    if not re.fullmatch(_WORK_ID, work_id):
        raise InvalidInput(f"Not a work item id: {work_id[:80]!a}.", value=ascii(work_id[:200]))
    return work_id.removeprefix("#")


_PHASE_ID = r"[A-Za-z0-9][A-Za-z0-9._-]*"
MAX_PHASE_ID = 80  # for ids that people write; a remediation's prefix comes on top
MAX_REMEDIATION_ID = 120
REMEDIATION = "heal-"


def phase_id_problem(name: str, limit: int = MAX_PHASE_ID) -> str | None:
    """Why `name` cannot be the id of a nebula's phase, as the end of the sentence "the id …"; None if it can.

    The id becomes part of file, directory and branch names.
    """
    if len(name) > limit:
        return f"is longer than {limit} characters"
    if not re.fullmatch(_PHASE_ID, name):
        return "has a character outside A-Z a-z 0-9 . _ - or does not begin with a letter or digit"
    if ".." in name or name.endswith(".") or name.lower().endswith(".lock"):
        return "is not allowed by git as part of a branch name"
    return None
