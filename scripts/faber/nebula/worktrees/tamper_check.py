"""Finds out whether a phase's agent wrote outside its worktree, by comparing cheap snapshots from before and after.

Differences are reported, never undone: they may be the person's own work.
"""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from faber.git.programs import Git
from faber.git.refs import shown
from faber.git.stash import status
from faber.text.safe_text import inert

MANY = 2_000
LISTED = 20


class Snapshot(NamedTuple):
    """The paths of the main tree that differ from HEAD, with their stamps; the refs with their commits; the
    repository's shared files with their stamps."""

    paths: Mapping[str, str]
    refs: Mapping[str, str]
    shared: Mapping[str, str]


def look(main: Git, common_directory: str, own_refs: Sequence[str]) -> Snapshot:
    """A snapshot of the main tree, the refs, the configuration and the hooks.

    `own_refs` are prefixes of refs that faber and its agents move. The stamp of a changed file is its size and time,
    not its content; at most two thousand files are taken.
    """
    refs = main.refs("refs/")
    kept = {name: commit for name, commit in refs.items() if not name.startswith(tuple(own_refs))}
    shared = {name: _stamp(os.path.join(common_directory, name)) for name in ("config", "info/exclude", "hooks")}
    return Snapshot(_tree(main), kept, shared)


def written(before: Snapshot, after: Snapshot) -> list[str]:
    """What changed between two snapshots: at most twenty entries, and how many more; empty if nothing did. Pure."""
    found = []
    for what, old, new in (
        ("the main tree:", before.paths, after.paths),
        ("ref", before.refs, after.refs),
        ("the repository's", before.shared, after.shared),
    ):
        found += [f"{what} {shown(name)}" for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    if len(found) > LISTED:
        found = [*found[:LISTED], f"and {len(found) - LISTED} more"]
    return found


def _tree(git: Git) -> dict[str, str]:
    found = status(git)
    paths = [*found.tracked, *found.untracked, *found.embedded][:MANY]
    named = {"(HEAD)": f"{inert(found.branch)} {found.head}"}
    return named | {path: _stamp(os.path.join(git.directory, path)) for path in paths}


def _stamp(path: str) -> str:
    try:
        status = os.lstat(path)
    except OSError:
        return "absent"
    return f"{status.st_mode:o} {status.st_size} {status.st_mtime_ns}"
