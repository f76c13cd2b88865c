"""The repository that the leader of a run and its workers share, and the refs that they fetch and push.

A phase has two refs there: its branch, and `refs/faber/checkpoints/<run>/<phase>`, whose commit holds a
`messages.Pushed` and has the branch's head as its parent. Both move in one atomic push, and only from where the pusher
left them. Of two executions of one phase, the later one therefore continues, and the next push of the other is refused.
"""

import os
import re
import time
from collections.abc import Mapping
from typing import NamedTuple

from faber.errors import Exit, FaberError, InvalidInput
from faber.git import stash
from faber.git.git_errors import GitFailed
from faber.git.programs import CHECKOUT_SECONDS, Git, checked
from faber.git.refs import shown
from faber.nebula.cluster.messages import CHECKPOINT_REFS, START_REFS, Pushed, pushed_of
from faber.nebula.plan.names import Names, part

FILE = "pushed.json"
MOST = 32 * 1024 * 1024
_TRIES = 3
_PROTOCOLS = {"GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh"}
_PASSWORD = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/@]*:[^/@]*@")
_HELPER = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*::")


class NoSharedRepository(FaberError):
    """No repository is named that the workers could clone."""

    code = "no_shared_repository"
    exit_code = Exit.REFUSED
    recovery = "Name one that this machine and every worker can reach: `--remote NAME` or `--remote URL`."


class Superseded(FaberError):
    """A newer execution took over the phase, perhaps for another `faber nebula apply`."""

    code = "superseded"
    recovery = "See who else works on the run; `faber nebula apply DIR --resume --retry-failed` takes it back."


def checked_url(url: str) -> str:
    """`url`, if it is safe for git and may be sent to workers; raises `InvalidInput`.

    A password in it would reach every worker. Workers use their own access instead.
    """
    if not url or url.startswith("-") or not url.isprintable() or len(url) > 2_000 or _HELPER.match(url):
        raise InvalidInput(f"Not a repository that workers can clone: {shown(url)!a}.")
    if _PASSWORD.match(url):
        raise InvalidInput(
            "The repository's URL holds a password.",
            recovery="Give git a credential helper on every machine, and name the URL without the password.",
        )
    return url


def url_of(git: Git, remote: str) -> str:
    """The URL of `remote`, which is a remote's name or a URL; raises `NoSharedRepository`, `InvalidInput`."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", remote):
        asked = git.run("remote", "get-url", "--", remote, codes=(0, 1, 2, 128))
        if asked.code:
            raise NoSharedRepository(f"The repository has no remote {shown(remote)}.", remote=remote)
        remote = asked.line
    path = os.path.join(git.directory, remote)
    return checked_url(os.path.realpath(path) if ":" not in remote and os.path.isdir(path) else remote)


class Shared(NamedTuple):
    """The shared repository at `url`, accessed by the `git` of one worktree, for the run `names.run_id`."""

    git: Git
    url: str
    names: Names

    def branch_ref(self, phase: str) -> str:
        """A phase's branch."""
        return f"refs/heads/{self.names.phase_branch(phase)}"

    def checkpoint_ref(self, phase: str) -> str:
        """The ref of a phase's checkpoint."""
        return f"{CHECKPOINT_REFS}/{self.names.run_id}/{part(phase)}"

    def start_ref(self, phase: str) -> str:
        """The ref of the commit that a phase begins at, if that is not the integration branch."""
        return f"{START_REFS}/{self.names.run_id}/{part(phase)}"

    @property
    def integration_ref(self) -> str:
        """The branch that the leader merges into."""
        return f"refs/heads/{self.names.integration}"

    def heads(self, *refs: str) -> dict[str, str]:
        """The commits of these refs in the shared repository; missing refs are left out."""
        asked = self.git.run("ls-remote", "--quiet", "--", self.url, *refs, extra=_PROTOCOLS)
        lines = (line.partition("\t") for line in asked.out.splitlines())
        return {name: checked(commit) for commit, _, name in lines if name in refs}

    def fetch(self, heads: Mapping[str, str]) -> None:
        """Fetch the commits of these refs with their history; no local ref moves."""
        here = self.git.commits_of(*heads.values())
        missing = [ref for ref, commit in zip(heads, here, strict=True) if commit is None]
        options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
        for wait in (0.5, 1.0, None) if missing else ():
            try:
                self.git.run("fetch", *options, "--", self.url, *missing, extra=_PROTOCOLS, seconds=CHECKOUT_SECONDS)
                return
            except GitFailed:
                # A worktree that is just being created, as for a merge, has no valid HEAD for a moment.
                if wait is None:
                    raise
                time.sleep(wait)

    def publish(self, ref: str, commit: str | None = None) -> str:
        """Push a ref that nobody else moves, at its local commit or by force at `commit`; returns that commit.

        If somebody moved it all the same, or it was rebuilt here, what it had is kept on a local ref.
        """
        force = "+" if commit else ""
        commit = commit or self.git.commit_of(ref)
        if commit is None:
            raise GitFailed(f"There is no {shown(ref)} to push.", path=self.git.directory)
        try:
            self._push("--", self.url, f"{force}{checked(commit)}:{ref}")
        except GitFailed:
            there = self.heads(ref).get(ref)
            if there is None or force:
                raise
            self.fetch({ref: there})
            if self.git.is_ancestor(there, commit):
                raise
            stash.keep(self.git, f"{stash.PARKED_REFS}/{self.names.run_id}/shared", there)
            self._push(f"--force-with-lease={ref}:{there}", "--", self.url, f"{commit}:{ref}")
        return commit

    def read(self, phase: str) -> tuple[dict[str, str], Pushed | None]:
        """The commits of the refs that the work on a phase starts from, fetched, and what was pushed for it, if any."""
        wanted = (self.branch_ref(phase), self.checkpoint_ref(phase), self.start_ref(phase), self.integration_ref)
        heads = self.heads(*wanted)
        self.fetch(heads)
        commit = heads.get(self.checkpoint_ref(phase))
        if commit is None:
            return heads, None
        text = self.git.run("cat-file", "blob", f"{commit}:{FILE}", codes=(0, 128), limit=MOST)
        return heads, pushed_of(text.out) if text.code == 0 and not text.cut else None

    def push(self, phase: str, head: str, pushed: Pushed, known: Mapping[str, str], *, branch: bool) -> dict[str, str]:
        """Push the phase's checkpoint, and with `branch` its branch at `head`.

        `known` are the last known commits of the refs; the new ones are returned. Raises `Superseded` if the refs had
        moved, `GitFailed` if the repository cannot be reached.
        """
        git = self.git
        blob = git.run("hash-object", "-w", "--stdin", stdin=pushed.to_json()).line
        tree = git.run("mktree", stdin=f"100644 blob {blob}\t{FILE}\n").line
        message = f"checkpoint of {part(phase)}\n"
        commit = git.commit("commit-tree", tree, "-p", checked(head), "-F", "-", stdin=message).line
        wanted = {self.checkpoint_ref(phase): commit}
        if branch:
            wanted[self.branch_ref(phase)] = head
        leases = [f"--force-with-lease={ref}:{known.get(ref, '')}" for ref in wanted]
        specs = [f"{commit}:{ref}" for ref, commit in wanted.items()]
        for attempt in range(_TRIES):
            try:
                self._push("--atomic", *leases, "--", self.url, *specs)
                break
            except GitFailed:
                # It was refused, or did not arrive, or arrived and the answer was lost: the refs say which.
                found = self.heads(*wanted)
                if found == wanted:
                    break
                if any(found.get(ref) not in (known.get(ref), wanted[ref]) for ref in wanted):
                    raise Superseded(f"Another execution of {shown(phase)} pushed meanwhile.", phase=phase) from None
                if attempt + 1 == _TRIES:
                    raise
                time.sleep(0.5 * 2**attempt)
        return {**known, **wanted}

    def forget(self, phase: str) -> None:
        """Remove the checkpoint of a merged phase, so that a worker that still works on it cannot push."""
        there = self.heads(self.checkpoint_ref(phase), self.start_ref(phase))
        if there:
            self._push("--", self.url, *(f":{ref}" for ref in there))

    def below(self, *prefixes: str) -> dict[str, str]:
        """The commits of all refs of the shared repository that begin with one of `prefixes`."""
        asked = self.git.run(
            "ls-remote", "--quiet", "--", self.url, *(f"{prefix}*" for prefix in prefixes), extra=_PROTOCOLS
        )
        lines = (line.partition("\t") for line in asked.out.splitlines())
        return {name: checked(commit) for commit, _, name in lines if name.startswith(prefixes)}

    def remove(self, heads: Mapping[str, str]) -> None:
        """Remove these refs, all or none, from the commits that they are at; raises `GitFailed` if one has moved."""
        leases = [f"--force-with-lease={ref}:{commit}" for ref, commit in heads.items()]
        self._push("--atomic", *leases, "--", self.url, *(f":{ref}" for ref in heads))

    def _push(self, *arguments: str) -> None:
        self.git.run("push", "--quiet", "--no-verify", *arguments, extra=_PROTOCOLS, seconds=CHECKOUT_SECONDS)
