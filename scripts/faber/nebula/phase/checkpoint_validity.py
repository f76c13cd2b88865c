"""Whether a checkpoint still fits the phase's branch: facts from git, and the verdict on them."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from faber.git import commit_messages
from faber.git.commit_messages import Made
from faber.git.git_errors import GitFailed
from faber.git.programs import Git, checked
from faber.git.refs import shown
from faber.git.stash import status
from faber.nebula.worktrees.phase_tree import PhaseTree

MANY = 1_000


class Standing(StrEnum):
    """How a phase's branch stands to its checkpoint, in the words that are shown."""

    SAME = "same"
    AHEAD_OWN = "ahead_own"
    AHEAD_OTHERS = "ahead_others"
    DIVERGED = "diverged"
    DIRTY = "dirty"


class Verdict(NamedTuple):
    """`standing`, and what it would be without uncommitted work; `own` and `others` count the commits since."""

    standing: Standing
    committed: Standing
    own: int
    others: int
    reason: str

    @property
    def resumes(self) -> bool:
        """True if the checkpoint may be resumed without being forced."""
        return self.standing in (Standing.SAME, Standing.AHEAD_OWN)

    @property
    def resumes_forced(self) -> bool:
        """True if it may be resumed with `--force`."""
        return self.resumes or self.standing is Standing.AHEAD_OTHERS


class Facts(NamedTuple):
    """What `verdict` is given; `between` are the commits from the checkpoint's to the head, newest first, without what
    a merge brought in with them."""

    checkpoint: str
    head: str
    is_ancestor: bool
    between: Sequence[Made]
    dirty: bool


def verdict(facts: Facts, run_id: str, phase: str, recorded: str | None = None) -> Verdict:
    """The verdict on a checkpoint. Pure. `recorded` is the newest commit that the run's events call the phase's own:
    it and what came before it are (an agent may have committed by itself).

    * same: the head is the checkpoint's commit;
    * ahead_own: besides it there are only cycles of this phase of this run;
    * ahead_others: there is a commit that is none;
    * diverged: the checkpoint's commit is not in the head's history;
    * dirty: there is uncommitted work, to be parked first; `committed` says how the commits stand.
    """
    at = next((at for at, made in enumerate(facts.between) if made.commit == recorded), len(facts.between))
    others = sum(1 for made in facts.between[:at] if not commit_messages.is_line_of_own([made], run_id, phase))
    own = len(facts.between) - others
    if facts.head == facts.checkpoint:
        committed, reason = Standing.SAME, f"the branch is at the checkpoint's commit {facts.head[:12]}"
        own = others = 0
    elif not facts.is_ancestor:
        committed = Standing.DIVERGED
        reason = f"the checkpoint's commit {facts.checkpoint[:12]} is not in the history of {facts.head[:12]}"
        own = others = 0
    elif others:
        committed = Standing.AHEAD_OTHERS
        reason = f"{others} of {own + others} commits after {facts.checkpoint[:12]} are not cycles of this phase"
    else:
        committed, reason = Standing.AHEAD_OWN, f"{own} cycles of this phase came after {facts.checkpoint[:12]}"
    if facts.dirty:
        return Verdict(Standing.DIRTY, committed, own, others, f"there is uncommitted work, and {reason}")
    return Verdict(committed, committed, own, others, reason)


def load_facts(tree: PhaseTree, checkpoint: str) -> Facts:
    """The facts about the phase's branch and tree, for `verdict`.

    A checkpoint's commit that the repository does not have is in no history. Raises `TreeLost`, and `GitFailed` where
    the branch does not exist.
    """
    tree.check()
    git = tree.git
    head, known = git.commits_of(tree.ref, checked(checkpoint))
    if head is None:
        raise GitFailed(f"The branch {shown(tree.branch)} does not exist.", path=git.directory)
    inside = known is not None and git.is_ancestor(known, head)
    between = made_between(git, known, head) if known and inside else []
    return Facts(known or checkpoint, head, inside, between, not status(git, tree.exclude).clean)


def made_between(git: Git, base: str, head: str, limit: int = MANY) -> list[Made]:
    """The commits of `head` that are not in `base`, newest first, and who made each. Of what was merged into the branch
    only the merge counts."""
    span = f"{checked(base)}..{checked(head)}"
    asked = git.run("log", "-z", f"-n{limit}", "--first-parent", "--format=%H%n%B", "--no-show-signature", span, "--")
    records = [record.partition("\n") for record in asked.out.split("\0") if record]
    return [commit_messages.read(commit, message) for commit, _, message in records]
