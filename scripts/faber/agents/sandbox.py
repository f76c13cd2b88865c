"""What a client's sandbox refuses, told as that. Codex's is read-only by default; one that may write in the workspace
keeps `.git` read-only. Neither is a damaged disk, and an agent cannot open either."""

import errno
import json
import os
from collections.abc import Mapping

from faber.agents.known_clients import client_of
from faber.errors import FaberError, Notice, Severity
from faber.git.repository import find

_REFUSED = ("Read-only file system", "Operation not permitted")  # as git passes it on
_NUMBERS = ("EROFS", "EPERM")


class SandboxReadOnly(FaberError):
    """The client's sandbox does not let this command write there; what only reads works."""

    code = "sandbox_read_only"


def explained(error: FaberError, environment: Mapping[str, str], root: str) -> FaberError:
    """`error`, or what it means where Codex's sandbox refused a write for the project at `root`."""
    if not _in_codex(environment) or not _is_refusal(error):
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
    if repository is None or os.access(repository.common_directory, os.W_OK):
        return []
    message = "Codex's sandbox keeps .git read-only: `git commit` and `git switch -c` will end with 128."
    return [Notice("git_read_only", Severity.WARNING, message, _ask(environment, root))]


def options(root: str) -> str:
    """The options of Codex with which its agent can write in this directory, in the project at `root`, and in the
    repository that both belong to."""
    here = os.path.realpath(os.getcwd())
    repository = find(here)
    top = os.path.realpath((repository and repository.top) or here)
    roots = [repository.common_directory] if repository else []
    if os.path.commonpath([top, root]) != top:
        roots.append(root)
    listed = json.dumps([os.path.realpath(path) for path in roots], ensure_ascii=False)
    return "-s workspace-write" + (f" -c 'sandbox_workspace_write.writable_roots={listed}'" if roots else "")


def _ask(environment: Mapping[str, str], root: str) -> str:
    session = environment.get("CODEX_THREAD_ID")
    resume = f" (`resume {session}` goes on with this session)" if session else ""
    return f"Tell the person to start Codex with the options `{options(root)}`{resume}, and stop."


def _in_codex(environment: Mapping[str, str]) -> bool:
    client = client_of(environment)
    return client is not None and client.name == "codex"


def _is_refusal(error: FaberError) -> bool:
    """True if the operating system refused a write as a sandbox does, and not as it refuses other users."""
    number, path = error.fields.get("errno"), error.fields.get("path")
    if number == errno.errorcode[errno.EACCES] and isinstance(path, str):
        return os.access(os.path.dirname(path), os.W_OK)  # what the sandbox of older kernels does not look at
    return number in _NUMBERS or any(words in str(error.fields.get("error")) for words in _REFUSED)
