"""What a client's sandbox refuses, told as that. Codex's is read-only by default; one that may write in the workspace
keeps `.git` read-only. Neither is a damaged disk, and an agent cannot open either."""

import errno
import json
import os
import shlex
from collections.abc import Mapping

from faber.agents.known_clients import client_of
from faber.errors import FaberError, Notice, Severity
from faber.git.repository import find

_REFUSED = ("Read-only file system", "Operation not permitted")  # as git passes it on
_NUMBERS = ("EROFS", "EPERM")
_CONNECTED = "sandbox_workspace_write.network_access=true"


# The codes of what finds no network.
_NETWORK = ("remote_unreachable", "scheduler_unreachable", "work_item_network")


class SandboxReadOnly(FaberError):
    """The client's sandbox does not let this command write there; what only reads works."""

    code = "sandbox_read_only"


class SandboxOffline(FaberError):
    """The client's sandbox has no network, loopback included; what stays on this disk works."""

    code = "sandbox_offline"


def explained(error: FaberError, environment: Mapping[str, str], root: str) -> FaberError:
    """`error`, or what it means where Codex's sandbox refused a write for the project at `root`, or a connection."""
    if not _in_codex(environment):
        return error
    if error.code in _NETWORK and environment.get("CODEX_SANDBOX_NETWORK_DISABLED"):
        return SandboxOffline(
            f"{error.message} Codex's sandbox has no network.",
            recovery=f"{_ask(environment, root, _CONNECTED)} Or they run this command in a terminal of their own.",
            **error.fields,
        )
    if not _is_refusal(error) or not _confined():
        return error
    return SandboxReadOnly(
        f"{error.message} Codex's sandbox is read-only there.",
        recovery=f"{_ask(environment, root)} Commands that only read work until then; then repeat this one: repeating "
        "is harmless.",
        **error.fields,
    )


def git_notice(environment: Mapping[str, str], root: str) -> list[Notice]:
    """A warning where Codex's sandbox keeps git from writing: an agent meets it only in the middle of a step."""
    if not _in_codex(environment):
        return []
    repository = find(os.getcwd())
    if repository is None or os.access(repository.git_directory, os.W_OK):
        return []
    message = "Codex's sandbox keeps .git read-only: `git commit` and `git switch -c` will end with 128."
    return [Notice("git_read_only", Severity.WARNING, message, _ask(environment, root))]


def options(root: str, *more: str) -> str:
    """The options of Codex with which its agent can write in this directory, in the project at `root`, and in the
    repository that both belong to; `more` are settings."""
    here = os.path.realpath(os.getcwd())
    repository = find(here)
    top = os.path.realpath((repository and repository.top) or here)
    # Codex protects a linked worktree's own directory in the repository unless it is named, too.
    roots = [repository.common_directory, repository.git_directory] if repository else []
    if os.path.commonpath([top, root]) != top:
        roots.append(root)
    listed = json.dumps(list(dict.fromkeys(map(os.path.realpath, roots))), ensure_ascii=False)
    settings = [f"sandbox_workspace_write.writable_roots={listed}"] if roots else []
    return " ".join(["-s workspace-write", *(f"-c {shlex.quote(each)}" for each in (*settings, *more))])


def _ask(environment: Mapping[str, str], root: str, *more: str) -> str:
    session = environment.get("CODEX_THREAD_ID")
    # Not as a command: an agent would run it.
    resume = f" (`resume` continues this session, {session})" if session else ""
    return f"Tell the person to start Codex with the options `{options(root, *more)}`{resume}, and stop."


def _in_codex(environment: Mapping[str, str]) -> bool:
    client = client_of(environment)
    return client is not None and client.name == "codex"


def _confined() -> bool:
    """False where the system says that this process is in no sandbox: each has given up new privileges."""
    try:
        with open("/proc/self/status", "rb") as status:
            return b"\nNoNewPrivs:\t0\n" not in status.read()
    except OSError:
        return True  # it does not tell


def _is_refusal(error: FaberError) -> bool:
    """True if the operating system refused a write as a sandbox does, and not as it refuses other users."""
    number, path = error.fields.get("errno"), error.fields.get("path")
    if number == errno.errorcode[errno.EACCES] and isinstance(path, str):
        return os.access(os.path.dirname(path), os.W_OK)  # what the sandbox of older kernels does not look at
    return number in _NUMBERS or any(words in str(error.fields.get("error")) for words in _REFUSED)
