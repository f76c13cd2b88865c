"""Pushing a run: one commit and the run's branch in one atomic push, only if the remote is still as it was seen."""

import os
import random
import re
import time
from collections.abc import Mapping
from typing import NamedTuple

from faber.git.programs import reason
from faber.git.refs import branch_problem, shown
from faber.processes.runner import ProgramResult
from faber.store.layout import Layout
from faber.store.load import Run, load
from faber.sync import nebula_refs
from faber.sync.branches import is_at_remote, left_behind, to_push, unpushable
from faber.sync.commits import KnownCommits, known_commits, write_commit
from faber.sync.divergence import compare_with, refusal
from faber.sync.local import branch_of, credential_in, files_after, is_over
from faber.sync.pull import settle, take
from faber.sync.refused_branch import Kept, ask_a_person
from faber.sync.remotes import (
    HEADS,
    Listing,
    Remote,
    fetch,
    listing,
    outgoing_ref,
    remote_error,
    run_ref,
    seen_ref,
    set_refs,
    synced_ref,
)
from faber.sync.sync_errors import BranchNotPushable, RemoteRejected, SecretInRun, SyncFailed
from faber.text.credentials import secret_values
from faber.text.safe_text import inert, redact, shorten

# Of many that push one run at once, at least one succeeds in each round.
ATTEMPTS = 25
MOST_BUSY = 4
_ANY = range(-64, 256)
# What git says where another process holds the ref's lock at this moment.
_BUSY = ("cannot lock ref", "failed to update ref", "incorrect old value", "Unable to create")


class Sent(NamedTuple):
    """The answer to a `git push`: for each ref at the remote its flag (`!` is a refusal) and the reason given."""

    said: ProgramResult
    refs: dict[str, tuple[str, str]]

    @property
    def ok(self) -> bool:
        """True if the remote took everything."""
        return self.said.code == 0 and bool(self.refs) and all(flag != "!" for flag, _ in self.refs.values())

    def reason(self, ref: str) -> str:
        """Why the remote refused this ref itself; empty if it was only refused along with another."""
        flag, words = self.refs.get(ref, ("", ""))
        return words if flag == "!" and "atomic" not in words else ""


def push(
    layout: Layout, remote: Remote, run_id: str, *, merge: bool = False, kept: Kept | None = None
) -> dict[str, object]:
    """Push the run's new events and its branches to the remote; all of it arrives or nothing.

    `{"run_id", "result", "events", "commit", "last_event_id", "branch", "merged", "refused", "notices"}`; `result` is
    `created`, `pushed` or `equal`. `merge` joins logs that diverged as `pull` does, and pushes the result. With `kept`,
    a branch that the remote refuses does not hold back the run: it is pushed with a request to a person, and `refused`
    is the error.

    Raises `Diverged` if the remote has events that this copy lacks, `BranchNotPushable`, `SecretInRun`,
    `RemoteRejected`, `RemoteUnreachable` and its subclasses. Safe to repeat after any of them and after a kill.
    """
    merged = False
    without_branch = False
    refused: BranchNotPushable | None = None
    busy = 0
    cleared: str | None = None  # a commit of the remote whose events this copy has, but not as a prefix of its log
    for attempt in range(ATTEMPTS):
        run = load(layout, run_id)
        name = branch_of(run)
        known = known_commits(remote, run, name if name and not branch_problem(name) else None)
        branch, notices = to_push(remote, run, known.branch)
        leases, more = nebula_refs.to_push(remote, run)
        there: Listing | None = None
        if known.seen in (known.base, cleared):
            commit, sent_events = run_commit(remote, run, known)
            specs = [f"{HEADS}{branch}:{HEADS}{branch}"] if branch and not without_branch else []
            specs += [*more, *_checkpoints(layout, remote, run)]
            sent = _send(remote, run_id, commit, known, leases, specs)
            if sent.ok:
                notices += left_behind(remote, name) if known.branch and name and not is_over(run) else []
                set_refs(
                    remote.git,
                    {
                        seen_ref(remote.name, run_id): commit,
                        synced_ref(remote.name, run_id): commit,
                        outgoing_ref(remote.name, run_id): None,
                    },
                )
                return {
                    "run_id": run_id,
                    "result": "created" if known.base is None else "pushed" if sent_events else "equal",
                    "events": sent_events,
                    "commit": commit,
                    "last_event_id": run.state["last_event_id"],
                    "branch": shown(branch) if branch and not refused else None,
                    "merged": merged,
                    "refused": refused.as_dict() if refused else None,
                    "notices": [notice.as_dict() for notice in notices],
                }
            there = listing(remote, run_id)
            if there.runs.get(run_id) == known.seen:
                if busy < MOST_BUSY and any(sign in sent.said.stderr for sign in _BUSY):
                    busy += 1
                    _pause(attempt)
                    continue
                for name in [spec.partition(HEADS)[2] for spec in more]:
                    if sent.reason(HEADS + name):
                        raise _rejected(remote, name, sent)
                try:
                    without_branch = _branch_has_it(remote, run_id, branch, known, there.heads, sent, without_branch)
                except BranchNotPushable as error:
                    if kept is None:
                        raise
                    assert known.branch is not None
                    ask_a_person(run, known.branch, error, kept)
                    without_branch, refused = True, error
                continue
        joined, cleared = _meet(layout, remote, run, there, merge=merge)
        merged = joined or merged
        _pause(attempt)
    raise RemoteRejected(
        f"{remote.name} had something new at each of {ATTEMPTS} attempts.",
        run_id=run_id,
        remote=remote.name,
        recovery="Repeat it: nothing was lost.",
    )


def _pause(attempt: int) -> None:
    time.sleep(random.uniform(0, min(0.05 * 2**attempt, 3.0)))


def run_commit(remote: Remote, run: Run, known: KnownCommits) -> tuple[str, int]:
    """The commit to push and how many events are new in it; the base itself if none is. Raises `SecretInRun`."""
    last = run.state["last_event_id"]
    if known.base is not None and known.base_last == last:
        return known.base, 0
    values = secret_values(os.environ)
    files = files_after(run, known.base_last if known.base else None, values)
    _require_no_secret(run, files, values)
    commit = write_commit(remote, run, files, parent=known.seen, base=known.base)
    return commit, last - (known.base_last or 0)


def _require_no_secret(run: Run, files: Mapping[str, bytes], values: Mapping[str, str]) -> None:
    found = credential_in(run, files, values)
    if found is not None:
        file, at, why = found
        raise SecretInRun(
            f"Run {run.run_id} is not pushed: {file} at {at}: {why}.", run_id=run.run_id, file=file, place=at, why=why
        )


def _checkpoints(layout: Layout, remote: Remote, run: Run) -> list[str]:
    """What to push for the checkpoints of an unfinished nebula. Raises `SecretInRun`."""
    files = nebula_refs.checkpoint_files(layout, remote, run)
    if not files:
        return []
    _require_no_secret(run, files, secret_values(os.environ))
    return [f"+{nebula_refs.checkpoint_commit(remote, run, files)}:{nebula_refs.checkpoints_ref(run.run_id)}"]


def _send(remote: Remote, run_id: str, commit: str, known: KnownCommits, leases: list[str], more: list[str]) -> Sent:
    ref = run_ref(run_id)
    # An empty lease says that the ref must not exist yet.
    options = [
        "--porcelain",
        "--atomic",
        "--no-progress",
        "--no-follow-tags",
        f"--force-with-lease={ref}:{known.seen or ''}",
        *leases,
    ]
    hooks = any(f":{HEADS}" in spec for spec in more)
    return _sent(
        remote, remote.git.run("push", *options, remote.name, f"{commit}:{ref}", *more, codes=_ANY, hooks=hooks)
    )


def push_branch(remote: Remote, name: str) -> str:
    """Push a run's branch without the run; its commit here. Nothing is sent where the remote's has all of it.

    Raises `BranchNotPushable`, `RemoteUnreachable` and its subclasses. Safe to repeat.
    """
    ref = f"{HEADS}{name}"
    if problem := branch_problem(name):
        raise unpushable(name, "name", f"{shown(name)!a} {problem}", "Correct artifacts.branch_name of the run.")
    commit = remote.git.commit_of(ref)
    if commit is None:
        raise unpushable(name, "missing", f"{shown(name)} does not exist locally", "Fetch or create it, then repeat.")
    for attempt in range(MOST_BUSY):
        if is_at_remote(remote, name, commit, listing(remote).heads.get(name)):
            return commit
        options = ("--porcelain", "--no-progress", "--no-follow-tags")
        sent = _sent(remote, remote.git.run("push", *options, remote.name, f"{ref}:{ref}", codes=_ANY, hooks=True))
        if sent.ok:
            return commit
        _pause(attempt)  # another process may have pushed it meanwhile
    raise _rejected(remote, name, sent)


def _sent(remote: Remote, said: ProgramResult) -> Sent:
    """What git said about each ref that it pushed."""
    refs: dict[str, tuple[str, str]] = {}
    for line in said.out.splitlines():
        flag, _, rest = line.partition("\t")
        pair, _, words = rest.partition("\t")
        if len(flag) == 1 and ":" in pair:
            why = re.search(r"\(([^()]*)\)\s*$", words)
            refs[pair.partition(":")[2]] = (flag, why[1] if why else words)
    sent = Sent(said, refs)
    if not sent.refs and not any(sign in said.stderr for sign in _BUSY):
        raise remote_error(remote, said, "push")
    return sent


def _branch_has_it(
    remote: Remote,
    run_id: str,
    branch: str | None,
    known: KnownCommits,
    heads: dict[str, str],
    sent: Sent,
    without: bool,
) -> bool:
    """True if the push was refused only because the remote's branch is ahead: it can be repeated without the branch.

    Otherwise raises the error for the refusal.
    """
    ref = HEADS + (branch or "")
    if branch is not None and not without and known.branch is not None:
        if is_at_remote(remote, branch, known.branch, heads.get(branch)) and heads.get(branch) != known.branch:
            return True
        if sent.reason(ref):
            raise _rejected(remote, branch, sent)
    if not sent.refs or not any(flag == "!" for flag, _ in sent.refs.values()):
        error = reason(sent.said)
        raise SyncFailed(f"git push to {remote.name} failed: {error}.", error=error)
    raise RemoteRejected(
        f"{remote.name} refuses run {run_id}: {_words(sent, run_ref(run_id))}.", run_id=run_id, remote=remote.name
    )


def _rejected(remote: Remote, branch: str, sent: Sent) -> BranchNotPushable:
    why = f"{remote.name} refuses {shown(branch)}: {_words(sent, HEADS + branch)}"
    return unpushable(
        branch, "rejected", why, "Let the remote accept the branch (its rules say who may push), then repeat."
    )


def _words(sent: Sent, ref: str) -> str:
    """The reason in the remote's words, with what a hook there printed."""
    hook = [line[7:].strip() for line in sent.said.stderr.splitlines() if line.startswith("remote:")]
    spoken = " ".join(line for line in hook if line)
    said = sent.reason(ref) or next((sent.reason(other) for other in sent.refs if sent.reason(other)), "")
    return redact(shorten(inert(f"{said or 'no reason given'}{f' ({spoken})' if spoken else ''}"), 500)).rstrip(".")


def _meet(layout: Layout, remote: Remote, run: Run, there: Listing | None, *, merge: bool) -> tuple[bool, str | None]:
    """Look at the remote's copy and, with `merge`, take what this copy lacks of it.

    Returns whether logs were joined, and the remote's commit if this copy has all its events and may follow it.
    Raises `Diverged` where this copy lacks some and `merge` is not given or not possible.
    """
    run_id = run.run_id
    there = there or listing(remote, run_id)
    commit = there.runs.get(run_id)
    if commit is None:  # deleted there: the next push creates it again
        set_refs(remote.git, {seen_ref(remote.name, run_id): None, synced_ref(remote.name, run_id): None})
        return False, None
    fetch(remote, [(run_ref(run_id), seen_ref(remote.name, run_id))])
    found = compare_with(remote, run, commit, known_commits(remote, run))
    joined = found.joined
    if found.relation.kind in ("equal", "ahead"):
        settle(remote, run_id, found.tree, None)
        return False, commit
    if joined is not None and joined.refused is None and joined.kept == "mine" and not joined.added:
        return False, commit
    if not merge or (joined is not None and joined.refused is not None):
        raise refusal(remote, found, "push")
    return take(layout, remote, found, merge=True).result == "merged", None
