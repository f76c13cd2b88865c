"""What a context asks of git: a branch's commits, changes and worktree. Reads only.

Implements context reconstitution 0.4. A branch is optional: every problem is returned as a notice.
"""

import os
from collections.abc import Callable

from faber.errors import Notice
from faber.git.asking import Begin, GitQuestion, ask, begin
from faber.git.branch_questions import BranchPart, Inspection, warning
from faber.git.ref_files import fresh_commit, is_own_ref
from faber.git.refs import branch_problem, shown, slug_of
from faber.git.repository import find
from faber.store.external_files import StrPath

Inspected = tuple[BranchPart | None, list[Notice]]


def begin_branch(
    root: StrPath, name: str, *, since: str | None = None, default_branch: str | None = None, begin: Begin = begin
) -> Callable[[], Inspected]:
    """Start git; the function returned waits for it and returns the state of the local branch `name`, None where git
    cannot tell (context reconstitution 0.4).

    `root` is a directory of the repository: its main worktree, a linked one, or a bare repository.
    `since` is the commit at which the last session ended, `default_branch` the branch that the project compares with,
    if it names one. `begin` asks git (see `asking.begin`). Keys, null where unknown:

    * `name`, `exists`, `head` (commit id);
    * `commits`: the last 10 as `git log --oneline` prints them;
    * `default_branch`: main, else master, else the remote's HEAD, origin/main, origin/master;
    * `files_changed`: the lines of `git diff --stat <default>...<branch>`, at most 200 files and the total;
    * `ahead`, `behind`: how many commits only the branch, only the default branch has;
    * `commits_since_session`: those newer than `since`, newest first, at most 100;
    * `worktree` (path where the branch is checked out), `checked_out` (in the worktree of `root`);
    * `dirty_files`: [{status, path}] of that worktree, at most 200, of `dirty_count`; the status is git's
      two letters without the dots, a renamed file has `from` too;
    * `shallow`: the history was cut when it was fetched.

    Four git processes side by side answer where the default branch is `main` and the branch is
    checked out here; each wrong guess costs another wave. Notices, all WARNING:
    `branch_name_invalid`, `branch_not_found`, `unborn_branch`, `detached_head`, `worktree_missing`,
    `default_branch_unknown`, `no_common_history`, `session_commit_unknown`, `shallow_clone`,
    `not_a_repository`, `git_missing`, `git_failed`, `git_timeout`, `git_output_cut`.
    """
    problem = branch_problem(name)
    if problem:
        message = f"The branch name {shown(name)!r} {problem}; git was not asked."
        notice = warning("branch_name_invalid", message, "Correct artifacts.branch_name.", shown(name))
        return lambda: (None, [notice])
    repository = find(root)
    if repository is None:
        message = f"{shown(str(root))} is not in a git repository."
        notice = warning("not_a_repository", message, "Run faber inside the repository, or pass --root.")
        return lambda: (None, [notice])
    inspection = Inspection(repository, name, since, begin, default_branch)
    return lambda: (inspection.result(), inspection.notices)


def head_commit(root: StrPath) -> str | None:
    """The id of HEAD's commit; None without commits or without a repository."""
    return _commit_at(root, "HEAD")


def branch_head(root: StrPath, name: str | None) -> str | None:
    """The commit of the local branch `name`, by default HEAD's; None if there is no such branch or no commit."""
    if name is None:
        return head_commit(root)
    if branch_problem(name):
        return None
    return _commit_at(root, f"refs/heads/{name}")


def _commit_at(root: StrPath, ref: str) -> str | None:
    repository = find(root)
    if commit := repository and fresh_commit(repository.git_directory, ref):
        return commit
    answer = ask([GitQuestion(root, ["rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}"])])[0]
    return answer.out.strip() or None if answer.code == 0 else None


def committed_file(root: StrPath, path: str) -> str | None:
    """The content of the file `path`, which is inside `root`, in HEAD's commit; None if it has no such file.

    What `git replace` puts in place of a commit is not that commit.
    """
    named = os.path.relpath(path, root).replace(os.sep, "/")
    answer = ask([GitQuestion(root, ["--no-replace-objects", "cat-file", "blob", f"HEAD:./{named}"])])[0]
    return answer.out if answer.code == 0 else None


def current_branch(root: StrPath) -> str | None:
    """The branch that is checked out at `root` (perhaps without commits yet), None if HEAD is detached."""
    repository = find(root)
    if repository and repository.head and is_own_ref(repository.common_directory, repository.head):
        ref = repository.head
    else:
        answer = ask([GitQuestion(root, ["symbolic-ref", "--quiet", "HEAD"])])[0]
        ref = answer.out.removesuffix("\n") if answer.code == 0 else ""
    return ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else None


def remote_slug(root: StrPath) -> tuple[str, str] | None:
    """`(organisation, project)` from the URL of the remote `origin`; None without one, or if its URL has no such parts.

    Host, user and password of the URL never leave this function. Both segments match
    `[A-Za-z0-9][A-Za-z0-9._-]*`.
    """
    answer = ask([GitQuestion(root, ["config", "--get", "remote.origin.url"])])[0]
    return slug_of(answer.out.strip()) if answer.code == 0 else None
