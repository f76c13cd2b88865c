"""The state in which an agent left git in its worktree; ends operations that it left in progress."""

import os
from typing import NamedTuple

from faber.git.programs import Git
from faber.git.refs import shown
from faber.text.safe_text import inert

# A file or directory of git's own that shows an operation in progress, and how to end it without changing the tree.
_OPERATIONS = (
    ("rebase-merge", "rebase", ("rebase", "--quit")),
    ("rebase-apply/applying", "am", ("am", "--quit")),
    ("rebase-apply", "rebase", ("rebase", "--quit")),
    ("CHERRY_PICK_HEAD", "cherry-pick", ("cherry-pick", "--quit")),
    ("REVERT_HEAD", "revert", ("revert", "--quit")),
    ("sequencer", "cherry-pick", ("cherry-pick", "--quit")),
    ("BISECT_LOG", "bisect", ("bisect", "reset", "HEAD")),
    ("MERGE_HEAD", "merge", ("merge", "--quit")),
)


class Condition(NamedTuple):
    """A worktree as an agent left it.

    `linked`: its `.git` leads to the repository that it was created from. `on`: the full ref that HEAD names, None
    where HEAD is detached. `head`: the commit, None where the branch has none. `tip`: the commit of the phase's branch,
    None where it was deleted. `operation`: merge, rebase, am, cherry-pick, revert or bisect, if one is in progress.
    `history`: the head compared with the last recorded commit: `same`, `ahead`, `rewritten` (moved backwards counts),
    or `unknown` where none was recorded.
    """

    linked: bool
    on: str | None
    head: str | None
    tip: str | None
    operation: str | None
    history: str

    def problems(self, ref: str) -> list[str]:
        """What an agent must not have changed, each as a clause; its own commits on the phase's branch are allowed."""
        found = []
        if not self.linked:
            found.append("the worktree's .git no longer leads to the repository")
        if self.tip is None:
            found.append("the phase's branch was deleted")
        if self.on is None:
            found.append("HEAD is detached")
        elif self.on != ref:
            found.append(f"another branch is checked out ({shown(self.on.removeprefix('refs/heads/'))})")
        if self.operation not in (None, "merge"):
            found.append(f"a {self.operation} is in progress")
        if self.history == "rewritten":
            found.append("recorded commits were removed from the history")
        return found


def look(git: Git, ref: str, recorded: str | None) -> Condition:
    """The condition of the tree of `git`, whose branch is `ref`; `recorded` is the branch's last recorded commit."""
    on = git.head_ref()
    head, tip, *found = git.commits_of("HEAD", ref, *([recorded] if recorded else []))
    known = found[0] if found else None
    if recorded is None:
        history = "unknown"
    elif head is not None and known is not None:
        history = "same" if head == known else "ahead" if git.is_ancestor(known, head) else "rewritten"
    else:
        history = "rewritten"
    return Condition(is_linked(git), inert(on) if on is not None else None, head, tip, operation(git), history)


def operation(git: Git) -> str | None:
    """The operation in progress: merge, rebase, am, cherry-pick, revert or bisect; None without one."""
    return next((name for path, name, _ in _OPERATIONS if os.path.exists(git.path(path))), None)


def quit_operations(git: Git) -> None:
    """End every operation in progress; branch, index and files stay as they are."""
    for path, _, command in _OPERATIONS:
        if os.path.exists(git.path(path)):
            git.run(*command, codes=(0, 1, 128))


def is_linked(git: Git) -> bool:
    """True if `.git` of the tree is, or leads to, `git_directory`."""
    dot_git = os.path.join(git.directory, ".git")
    if os.path.isdir(dot_git) and not os.path.islink(dot_git):
        return os.path.realpath(dot_git) == os.path.realpath(git.git_directory)
    if not os.path.isfile(dot_git):  # nobody waits for a pipe
        return False
    try:
        with open(dot_git, encoding="utf-8", errors="surrogateescape") as file:
            line = file.readline(5000)
    except OSError:
        return False
    place = os.path.join(git.directory, line.removeprefix("gitdir:").strip())
    return line.startswith("gitdir:") and os.path.realpath(place) == os.path.realpath(git.git_directory)
