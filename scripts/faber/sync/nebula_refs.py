"""What a nebula's run needs elsewhere besides its log: branches, and the checkpoints of phases in progress.

refs/faber/nebulas/<run id>/checkpoints                     at the remote: a commit of checkpoint files
refs/faber/remotes/<remote>/nebulas/<run id>/checkpoints    here, until a resume takes them
"""

import os
import re

from faber.errors import FaberError, UnsafeFile
from faber.git import fast_import
from faber.git.refs import branch_problem, shown
from faber.model.documents import State, nebula_of
from faber.model.ids import MAX_REMEDIATION_ID, phase_id_problem
from faber.store.files import read_bytes
from faber.store.layout import Layout
from faber.store.load import Run
from faber.sync.branches import PulledBranch, is_at_remote, pull_branches
from faber.sync.commits import imported
from faber.sync.local import is_over
from faber.sync.remotes import HEADS, Listing, Remote, fetch, listing, local_refs, outgoing_ref, run_ref

MAX_CHECKPOINT = 4 * 1024 * 1024
_OWN = re.compile(r"faber/[^/]+/[^/]+/(?:integration|phase/[^/]+)")


def checkpoints_ref(run_id: str, remote: str | None = None) -> str:
    """The ref of the run's checkpoints at every remote; with `remote`, what was fetched from there."""
    name = f"nebulas/{run_ref(run_id).removeprefix('refs/faber/runs/')}/checkpoints"
    return f"refs/faber/remotes/{remote}/{name}" if remote else f"refs/faber/{name}"


def branches_of(state: State) -> list[str]:
    """The branches that a resume of a nebula's run builds on, as its events name them."""
    nebula = nebula_of(state)
    if nebula is None:
        return []
    phases = [phase.get("branch") for phase in nebula["phases"].values() if phase["status"] != "done"]
    return [name for name in dict.fromkeys([nebula["branch"], *phases]) if name]


def allowed(name: str) -> bool:
    """True if faber gives a nebula's branches such names: no other branch moves because a run's log names it."""
    return _OWN.fullmatch(name) is not None and branch_problem(name) is None


def to_push(remote: Remote, run: Run) -> tuple[list[str], list[str]]:
    """What to push with an unfinished nebula's run: leases, and refspecs of the branches that the remote lacks or has
    older. Where a phase started over, its branch replaces what this machine knows to be there.

    Raises `BranchNotPushable` for one that has other commits there.
    """
    leases: list[str] = []
    specs: list[str] = []
    names = [] if is_over(run) else [name for name in branches_of(run.state) if allowed(name)]
    there = listing(remote, run.run_id).heads if names else {}
    for name, commit in _here(remote, names).items():
        old, ref = there.get(name), HEADS + name
        known = old is not None and remote.git.commit_of(old) is not None
        if known and old is not None and not remote.git.is_ancestor(commit, old):
            leases.append(f"--force-with-lease={ref}:{old}")
        elif known or is_at_remote(remote, name, commit, old):
            continue
        specs.append(f"{commit}:{ref}")
    return leases, specs


def _here(remote: Remote, names: list[str]) -> dict[str, str]:
    """The commits of those of the branches that are here."""
    places = {f"{HEADS}{'/'.join(name.split('/')[:3])}/" for name in names}
    refs = local_refs(remote.git, *places) if places else {}
    return {name: refs[HEADS + name] for name in names if HEADS + name in refs}


def checkpoint_files(layout: Layout, remote: Remote, run: Run) -> dict[str, bytes]:
    """The checkpoints next to an unfinished nebula's files, by name; none while those that were pulled are newer."""
    nebula = nebula_of(run.state)
    if nebula is None or is_over(run) or local_refs(remote.git, checkpoints_ref(run.run_id, remote.name)):
        return {}
    root = os.path.realpath(layout.root)
    directory = os.path.realpath(os.path.join(root, nebula["directory"] or ""))
    found: dict[str, bytes] = {}
    for phase, known in nebula["phases"].items():
        inside = directory.startswith(root + os.sep) and not phase_id_problem(phase, MAX_REMEDIATION_ID)
        if known["status"] == "in_progress" and inside:
            name = f"checkpoint.{phase}.toml"
            try:
                found[name] = read_bytes(os.path.join(directory, name), MAX_CHECKPOINT)
            except (OSError, UnsafeFile):
                continue
    return found


def checkpoint_commit(remote: Remote, run: Run, files: dict[str, bytes]) -> str:
    """A commit of these files. The ref that makes it is the one that the push of the run removes."""
    made = fast_import.NewCommit(
        ref=outgoing_ref(remote.name, run.run_id),
        message=f"faber: checkpoints of {run.run_id}\n".encode(),
        author=remote.author,
        parent=None,
        base=None,
        base_tree=None,
        files=files,
    )
    return imported(remote, made)


def pull_nebula(remote: Remote, run: Run, there: Listing, *, newer: bool) -> list[PulledBranch]:
    """Pull the branches of an unfinished nebula's run, and its checkpoints if the remote's copy was `newer`."""
    names = [] if is_over(run) else branches_of(run.state)
    if not names:
        return []
    good = [name for name in names if allowed(name)]
    done = [PulledBranch(shown(name), "invalid", "No nebula has such a branch.") for name in names if name not in good]
    wanted = {name: there.heads[name] for name in good if name in there.heads}
    try:
        if newer or wanted.keys() - _here(remote, good).keys():  # a pattern: there may be none
            theirs, here = (checkpoints_ref(run.run_id, name).rpartition("/")[0] for name in (None, remote.name))
            fetch(remote, [(f"{theirs}/*", f"{here}/*")])
        return done + pull_branches(remote, wanted)
    except FaberError as error:
        return [*done, PulledBranch(good[0] if good else "", "failed", error.message)]
