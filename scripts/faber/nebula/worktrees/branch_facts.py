"""The state of a phase's branch and tree in git, compared with the commit of a checkpoint."""

from collections.abc import Sequence
from typing import NamedTuple

from faber.git import commit_messages
from faber.git.commit_messages import Made
from faber.git.git_errors import GitFailed
from faber.git.programs import Git, checked
from faber.git.refs import shown
from faber.git.stash import status
from faber.nebula.worktrees.phase_tree import PhaseTree

MAX_COMMITS = 1_000


class CheckpointFacts(NamedTuple):
    """`between` are the commits from the checkpoint's commit to the head, newest first, following first parents
    only."""

    checkpoint: str
    head: str
    is_ancestor: bool
    between: Sequence[Made]
    dirty: bool


def load_facts(tree: PhaseTree, checkpoint: str) -> CheckpointFacts:
    """The facts about the phase's branch and tree.

    A checkpoint commit that the repository does not have is in no history. Raises `TreeLost`, and `GitFailed` if the
    branch does not exist.
    """
    tree.check()
    git = tree.git
    head, known = git.commits_of(tree.ref, checked(checkpoint))
    if head is None:
        raise GitFailed(f"The branch {shown(tree.branch)} does not exist.", path=git.directory)
    inside = known is not None and git.is_ancestor(known, head)
    between = made_between(git, known, head) if known and inside else []
    return CheckpointFacts(known or checkpoint, head, inside, between, not status(git, tree.exclude).clean)


def made_between(git: Git, base: str, head: str) -> list[Made]:
    """The commits of `head` that are not in `base`, newest first. Of a merge only the merge commit counts."""
    return parse_made(git.run(*between_arguments(checked(base), checked(head))).out)


def between_arguments(base: str, head: str) -> tuple[str, ...]:
    """The arguments of the `git log` that `parse_made` reads."""
    form = ("-z", f"-n{MAX_COMMITS}", "--first-parent", "--format=%H%n%B", "--no-show-signature")
    return "log", *form, f"{base}..{head}", "--"


def parse_made(log: str) -> list[Made]:
    """The commits in the output of `git log` with `between_arguments`."""
    records = [record.partition("\n") for record in log.split("\0") if record]
    return [commit_messages.read(commit, message) for commit, _, message in records]
