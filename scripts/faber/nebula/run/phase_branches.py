"""Where the phases' branches stand, asked of git: what a verdict on a checkpoint needs to know."""

import os
from collections.abc import Iterator, Mapping, Sequence

from faber.git.asking import Ask, GitQuestion, ask
from faber.git.refs import branch_problem, is_commit
from faber.git.repository import Repository, checked_out, find
from faber.nebula.phase.checkpoint import Checkpoint
from faber.nebula.run.resumption import Branch
from faber.processes.runner import ProgramResult
from faber.store.external_files import StrPath

_AT_ONCE = 16
_HEADS = "refs/heads/"


def phase_branches(
    root: StrPath, branches: Mapping[str, str], checkpoints: Mapping[str, Checkpoint], run: Ask = ask
) -> dict[str, Branch]:
    """The branch of each phase that has a checkpoint, by phase; those that git cannot tell are left out.

    `branches` are the branches' names by phase. One git process lists all heads; where a head is not the
    checkpoint's commit two more are asked, and one for each worktree, sixteen side by side.
    """
    repository = find(root)
    asked = {phase: name for phase, name in branches.items() if phase in checkpoints and not branch_problem(name)}
    if repository is None or not asked:
        return {}
    heads = _heads(root, run)
    if heads is None:
        return {}
    found = {phase: Branch(heads.get(name)) for phase, name in asked.items()}
    for phase, ahead in _ahead(root, found, checkpoints, run).items():
        found[phase] = found[phase]._replace(ahead=ahead)
    for phase in _dirty(repository, asked, found, run):
        found[phase] = found[phase]._replace(dirty=True)
    return found


def _heads(root: StrPath, run: Ask) -> dict[str, str] | None:
    (answer,) = run([GitQuestion(root, ("for-each-ref", "--format=%(objectname) %(refname)", _HEADS))])
    if not answer.ok:
        return None
    lines = (line.partition(" ") for line in answer.out.splitlines())
    return {ref.removeprefix(_HEADS): commit for commit, _, ref in lines}


def _ahead(
    root: StrPath, found: Mapping[str, Branch], checkpoints: Mapping[str, Checkpoint], run: Ask
) -> dict[str, tuple[str, ...] | None]:
    """Of each phase whose branch has moved, the commits since its checkpoint, None where it is no descendant."""
    moved = [
        (phase, checkpoints[phase].git_sha, branch.head)
        for phase, branch in found.items()
        if branch.head is not None and branch.head != checkpoints[phase].git_sha
    ]
    ahead: dict[str, tuple[str, ...] | None] = {phase: None for phase, _, _ in moved}
    known = [entry for entry in moved if is_commit(entry[1])]
    descends = [GitQuestion(root, ("merge-base", "--is-ancestor", saved, head)) for _, saved, head in known]
    follows = [
        GitQuestion(root, ("rev-list", "--reverse", "--first-parent", f"{saved}..{head}")) for _, saved, head in known
    ]
    for (phase, _, _), is_ancestor, commits in zip(known, _in_turn(descends, run), _in_turn(follows, run), strict=True):
        if is_ancestor.code == 0 and commits.code == 0:
            ahead[phase] = tuple(commits.out.split())
    return ahead


def _dirty(repository: Repository, names: Mapping[str, str], found: Mapping[str, Branch], run: Ask) -> list[str]:
    places = [
        (phase, place)
        for phase, branch in found.items()
        if branch.head is not None
        and (place := checked_out(repository, _HEADS + names[phase]))
        and os.path.isdir(place)
    ]
    questions = [GitQuestion(place, ("status", "--porcelain", "--untracked-files=normal")) for _, place in places]
    # What cannot be looked at may hold work: it counts as dirty.
    return [
        phase
        for (phase, _), answer in zip(places, _in_turn(questions, run), strict=True)
        if not answer.ok or answer.out.strip()
    ]


def _in_turn(questions: Sequence[GitQuestion], run: Ask) -> Iterator[ProgramResult]:
    for first in range(0, len(questions), _AT_ONCE):
        yield from run(questions[first : first + _AT_ONCE])
