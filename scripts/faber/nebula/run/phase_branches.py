"""The facts about many phases' branches at once, for judging their checkpoints without opening worktrees."""

import os
from collections.abc import Iterator, Mapping, Sequence

from faber.git.asking import GitQuestion, ask
from faber.git.refs import branch_problem, is_commit
from faber.git.repository import Repository, checked_out, find
from faber.nebula.phase.checkpoint import Checkpoint
from faber.nebula.worktrees.branch_facts import CheckpointFacts, between_arguments, parse_made
from faber.processes.runner import ProgramResult
from faber.store.external_files import StrPath

_AT_ONCE = 16
_HEADS = "refs/heads/"


def phase_branches(
    root: StrPath, branches: Mapping[str, str], checkpoints: Mapping[str, Checkpoint]
) -> dict[str, CheckpointFacts | None]:
    """The facts about the branch of each phase that has a checkpoint, None if the branch does not exist. Phases that
    git cannot tell about are left out.

    `branches` maps phases to branch names. One git process lists all heads. Two more are needed per branch that has
    moved, and one per worktree, sixteen at a time.
    """
    repository = find(root)
    asked = {phase: name for phase, name in branches.items() if phase in checkpoints and not branch_problem(name)}
    if repository is None or not asked:
        return {}
    heads = _heads(root)
    if heads is None:
        return {}
    found: dict[str, CheckpointFacts] = {}
    for phase, name in asked.items():
        if head := heads.get(name):
            saved = checkpoints[phase].git_sha
            found[phase] = CheckpointFacts(saved, head, head == saved, [], False)
    found |= _moved(root, found)
    for phase in _dirty(repository, asked, found):
        found[phase] = found[phase]._replace(dirty=True)
    return {phase: found.get(phase) for phase in asked}


def _heads(root: StrPath) -> dict[str, str] | None:
    (answer,) = ask([GitQuestion(root, ("for-each-ref", "--format=%(objectname) %(refname)", _HEADS))])
    if not answer.ok:
        return None
    lines = (line.partition(" ") for line in answer.out.splitlines())
    return {ref.removeprefix(_HEADS): commit for commit, _, ref in lines}


def _moved(root: StrPath, found: Mapping[str, CheckpointFacts]) -> dict[str, CheckpointFacts]:
    """The facts about branches that are ahead of their checkpoint, with the commits in between."""
    moved = {phase: facts for phase, facts in found.items() if not facts.is_ancestor and is_commit(facts.checkpoint)}
    pairs = [(each.checkpoint, each.head) for each in moved.values()]
    descends = [GitQuestion(root, ("merge-base", "--is-ancestor", *pair)) for pair in pairs]
    logs = [GitQuestion(root, between_arguments(*pair)) for pair in pairs]
    answers = zip(moved.items(), _in_turn(descends), _in_turn(logs), strict=True)
    return {
        phase: facts._replace(is_ancestor=True, between=parse_made(log.out))
        for (phase, facts), is_ancestor, log in answers
        if is_ancestor.code == 0 and log.code == 0
    }


def _dirty(repository: Repository, names: Mapping[str, str], found: Mapping[str, CheckpointFacts]) -> list[str]:
    places = [
        (phase, place)
        for phase in found
        if (place := checked_out(repository, _HEADS + names[phase])) and os.path.isdir(place)
    ]
    questions = [GitQuestion(place, ("status", "--porcelain", "--untracked-files=normal")) for _, place in places]
    # A worktree that git cannot examine may hold work: it counts as dirty.
    return [
        phase
        for (phase, _), answer in zip(places, _in_turn(questions), strict=True)
        if not answer.ok or answer.out.strip()
    ]


def _in_turn(questions: Sequence[GitQuestion]) -> Iterator[ProgramResult]:
    for first in range(0, len(questions), _AT_ONCE):
        yield from ask(questions[first : first + _AT_ONCE])
