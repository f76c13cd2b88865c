"""The remote that runs are moved through: its refs, what it holds now, and why it does not answer.

    refs/faber/runs/<run id>                      at the remote: the run, one commit per push
    refs/faber/remotes/<remote>/runs/<run id>     here: what the remote had when it was last asked
    refs/faber/synced/<remote>/runs/<run id>      here: the newest of its commits whose log this copy begins with
    refs/faber/outgoing/<remote>/runs/<run id>    here: a commit being pushed; removed when it has arrived

Nothing of a run is in `refs/heads` or `refs/tags`.
"""

import os
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from faber.errors import FaberError
from faber.git.programs import reason
from faber.git.refs import branch_problem, is_oid, shown
from faber.model.ids import check_run_id, is_run_id
from faber.processes.runner import ProgramResult
from faber.sync.sync_errors import RemoteAuthentication, RemoteUnknown, RemoteUnreachable, SyncFailed
from faber.sync.sync_git import SyncGit

RUNS = "refs/faber/runs/"
HEADS = "refs/heads/"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}", re.ASCII)

_NOT_ALLOWED = (
    "Authentication failed",
    "could not read Username",
    "could not read Password",
    "terminal prompts disabled",
    "Permission denied",
    "Host key verification failed",
    "returned error: 401",
    "returned error: 403",
    "Invalid username",
    "Write access to repository not granted",
)
_NOT_THERE = (
    "Could not resolve",
    "unable to access",
    "unable to connect",
    "does not appear to be a git repository",
    "Could not read from remote repository",
    "Connection refused",
    "not found",
    "No such file or directory",
    "Network is unreachable",
    "early EOF",
    "hung up",
    "transport",
    "returned error: 5",
)


class Remote(NamedTuple):
    """One configured remote of a repository, and who its commits are by."""

    git: SyncGit
    name: str
    author: str


class Listing(NamedTuple):
    """What a remote holds now: commit by run id, commit by branch name, and ref names that belong to no run."""

    runs: dict[str, str]
    heads: dict[str, str]
    odd: list[str]


NOTHING_THERE = Listing({}, {}, [])


def run_ref(run_id: str) -> str:
    """The run's ref at every remote; raises `InvalidRunId`."""
    return RUNS + check_run_id(run_id)


def seen_ref(remote: str, run_id: str) -> str:
    """The ref of the commit that the remote had when it was last asked."""
    return f"refs/faber/remotes/{remote}/runs/{check_run_id(run_id)}"


def synced_ref(remote: str, run_id: str) -> str:
    """The ref of the remote's newest commit whose log is a prefix of this copy's."""
    return f"refs/faber/synced/{remote}/runs/{check_run_id(run_id)}"


def outgoing_ref(remote: str, run_id: str) -> str:
    """The ref of a commit that is being pushed to the remote."""
    return f"refs/faber/outgoing/{remote}/runs/{check_run_id(run_id)}"


def open_remote(root: str, name: str, *, seconds: float) -> Remote:
    """The remote `name` of the repository around `root`.

    Raises `NoRepository`, and `RemoteUnknown` for a name that is not configured, or that git could take for an option.
    """
    git = SyncGit(root, seconds=seconds)
    wanted = r"^(remote\..*\.(url|pushurl)|user\.(name|email)|core\.sshcommand)$"
    said = git.run("config", "--null", "--get-regexp", wanted, codes=(0, 1))
    settings: dict[str, str] = {}
    for entry in said.out.split("\0"):
        key, _, value = entry.partition("\n")
        settings[key] = value
    known = sorted({key[7:].rpartition(".")[0] for key in settings if key.startswith("remote.")})
    if name not in known or not _NAME.fullmatch(name) or branch_problem(name):
        there = f"; there is {', '.join(shown(other) for other in known[:5])}" if known else "; it has none"
        raise RemoteUnknown(f"The repository has no remote {shown(name)!a}{there}.", remote=shown(name), known=known)
    git.ssh = _batch(settings.get("core.sshcommand"), os.environ)
    return Remote(git, name, _author(settings))


def _batch(configured: str | None, environ: Mapping[str, str]) -> str | None:
    """The ssh command for git, with the option that disables prompts; None to keep another configured program."""
    command = environ.get("GIT_SSH_COMMAND") or configured
    if command is None:
        return None if environ.get("GIT_SSH") else "ssh -o BatchMode=yes -o ConnectTimeout=20"
    words = command.split()
    return f"{command} -o BatchMode=yes" if words and os.path.basename(words[0]) == "ssh" else command


def _author(settings: Mapping[str, str]) -> str:
    """`Name <address>` for the commits; without a name in git's configuration, faber's own."""
    name, address = (
        re.sub(r"[<>\x00-\x1f\x7f]", "", settings.get(f"user.{key}", ""))[:200] for key in ("name", "email")
    )
    return f"{name.strip() or 'faber'} <{address.strip() or 'faber@localhost'}>"


def listing(remote: Remote, run_id: str | None = None) -> Listing:
    """What the remote holds now: one run or all, and its branches. Raises what `remote_error` makes."""
    patterns = [run_ref(run_id) if run_id else f"{RUNS}*", f"{HEADS}*"]
    said = remote.git.run("ls-remote", "--refs", "--quiet", remote.name, *patterns, codes=range(256))
    if said.code != 0:
        raise remote_error(remote, said, "ls-remote")
    found = Listing({}, {}, [])
    for line in said.out.splitlines():
        oid, _, ref = line.partition("\t")
        if not is_oid(oid):
            continue
        if ref.startswith(HEADS):
            found.heads[ref.removeprefix(HEADS)] = oid
        elif ref.startswith(RUNS) and is_run_id(ref.removeprefix(RUNS)):
            found.runs[ref.removeprefix(RUNS)] = oid
        elif ref.startswith(RUNS):
            found.odd.append(shown(ref))
    return found


def fetch(remote: Remote, wanted: Iterable[tuple[str, str]]) -> None:
    """Fetch refs of the remote: pairs of its ref and the local ref to overwrite.

    Fetches whole objects even in a partial clone (a filter would leave the events out), and the whole history of a
    run's ref even in a shallow one: it has one commit per push.
    """
    specs = "".join(f"+{theirs}:{here}\n" for theirs, here in wanted)
    if not specs:
        return
    options = ("--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-gc", "--no-prune")
    said = remote.git.run(
        "fetch",
        "--quiet",
        *options,
        "--no-filter",
        "--refmap=",
        "--stdin",
        remote.name,
        stdin=specs.encode(),
        codes=range(256),
    )
    if said.code != 0:
        raise remote_error(remote, said, "fetch")


def local_refs(git: SyncGit, *prefixes: str) -> dict[str, str]:
    """The refs here below each prefix, with their object ids."""
    said = git.run("for-each-ref", "--format=%(objectname) %(refname)", *prefixes)
    pairs = (line.partition(" ") for line in said.out.splitlines())
    return {ref: oid for oid, _, ref in pairs}


def set_refs(git: SyncGit, wanted: Mapping[str, str | None]) -> None:
    """Move all these refs here in one transaction; None deletes one. Only faber's own refs."""
    lines = ["start"]
    for ref, oid in wanted.items():
        assert ref.startswith("refs/faber/")
        lines.append(f"update {ref} {oid}" if oid else f"delete {ref}")
    git.run("update-ref", "--stdin", stdin="\n".join([*lines, "commit", ""]).encode())


def remote_error(remote: Remote, said: ProgramResult, what: str) -> FaberError:
    """The error for a `git {what}` that the remote refused or did not answer."""
    about = {"remote": remote.name, "error": reason(said)}
    message = f"git {what} with {remote.name} failed: {about['error']}."
    if any(sign in said.stderr for sign in _NOT_ALLOWED):
        return RemoteAuthentication(message, **about)
    if "atomic" in said.stderr:
        return SyncFailed(
            f"{remote.name} cannot take a run and its branch in one step (no atomic push).",
            recovery="Use a git server that supports `git push --atomic`.",
            **about,
        )
    if any(sign in said.stderr for sign in _NOT_THERE):
        return RemoteUnreachable(message, **about)
    return SyncFailed(message, **about)
