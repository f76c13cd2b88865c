"""Which commit a name stands for, read from git's files where they tell, and asked of git elsewhere."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from faber.git.git_errors import GitFailed, GitMissing
from faber.git.programs import Git
from support.repositories import commit, git, repository, write

CHANGES = (
    "commit --allow-empty -m two", "switch -q -c other", "commit --allow-empty -m three", "switch -q main",
    "pack-refs --all", "tag -a -m x v1", "reset -q --hard HEAD~1", "branch -f other HEAD", "switch -q --detach other",
    "branch -D other", "update-ref refs/heads/other {main}", "symbolic-ref refs/heads/alias refs/heads/other",
    "symbolic-ref HEAD refs/heads/unborn", "symbolic-ref HEAD refs/heads/alias",
    *(("update-ref refs/heads/\udcff {main}",) if sys.platform == "linux" else ()),
)  # fmt: skip
NAMES = ("refs/tags/v1", "HEAD", "refs/heads/main", "refs/heads/other", "refs/heads/alias", "refs/heads/unborn")


def asked(directory: Path, names: tuple[str, ...]) -> list[str | None]:
    """The commits of `names` as git itself tells them."""
    given = "".join(f"{name}^{{commit}}\n" for name in names)
    command = ["git", "-C", str(directory), "cat-file", "--batch-check=%(objectname)"]
    said = subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout.splitlines()
    return [None if line.endswith("missing") else line for line in said]


@pytest.mark.parametrize("place", [".", "linked"])
def test_whatever_git_does_the_answer_is_gits(tmp_path: Path, place: str) -> None:
    """After each change to branches and HEAD, also in packed refs and in a linked worktree, what was asked before and
    what is asked for the first time are what git tells, and so is the list of all refs."""
    root = repository(tmp_path / "project")
    git(root, "worktree", "add", "-q", str(root / "linked"), "-b", "there")
    directory = root / place
    private = git(directory, "rev-parse", "--absolute-git-dir")
    known, main = Git(str(directory), private), git(root, "rev-parse", "main")
    for change in CHANGES:
        git(root, *change.format(main=main).split())
        found, fresh = asked(directory, NAMES), Git(str(directory), private)
        answers = [known.commits_of(*NAMES), fresh.commits_of(*NAMES), [known.commit_of(name) for name in NAMES]]
        assert answers == [found] * 3, change
        lines = git(root, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        assert [f"{name} {commit}" for name, commit in known.refs("refs/").items()] == lines, change


def test_what_git_has_elsewhere_is_asked_of_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects in packs, a commit's file with other content, and refs that are in no files are git's to tell."""
    root = repository(tmp_path / "project")
    older, newer = git(root, "rev-parse", "HEAD"), commit(root, {"new": "new\n"})
    tree = git(root, "rev-parse", "HEAD^{tree}")

    def told() -> list[object]:
        one = Git(str(root), str(root / ".git"))
        return [one.head(), one.tree_of(newer), one.is_ancestor(older, newer), one.is_ancestor(newer, older)]

    def refused() -> bool:
        with monkeypatch.context() as without:
            without.setenv("PATH", str(tmp_path))
            try:
                told()
            except GitMissing:
                return True
        return False

    wanted = [newer, tree, True, False]
    assert told() == wanted
    assert not refused()
    place = root / ".git" / "objects" / newer[:2] / newer[2:]
    kept = place.read_bytes()
    place.chmod(0o644)
    place.write_bytes((root / ".git" / "objects" / older[:2] / older[2:]).read_bytes())
    assert refused()
    place.write_bytes(kept)
    (root / ".git" / "reftable").mkdir()
    assert refused()
    (root / ".git" / "reftable").rmdir()
    ref = root / ".git" / "refs" / "heads" / "main"
    os.mkfifo(ref.with_name("aside"))
    ref.rename(ref.with_name("kept"))
    ref.with_name("aside").rename(ref)
    assert refused()  # and nothing waits for a pipe
    ref.with_name("kept").rename(ref)
    git(root, "repack", "-adq")
    git(root, "prune-packed")
    assert refused()
    assert told() == wanted
    newest, one = commit(root, {"newest": "n\n"}), Git(str(root), str(root / ".git"))
    assert one.commit_of(older) == older
    assert one.is_ancestor(older, newest)  # its parent is in the pack


def test_a_commit_that_was_there_is_not_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its id, and HEAD and a branch that are at it, need no git in any tree of the repository."""
    root = repository(tmp_path / "project")
    known, made = Git(str(root), str(root / ".git")), commit(root, {"new": "new\n"})
    assert known.head() == made
    monkeypatch.setenv("PATH", str(tmp_path))
    tree = known.tree(str(root), str(root / ".git"))
    assert tree.commits_of("HEAD", "refs/heads/main", made) == [made] * 3
    assert (tree.head(), tree.commit_of(made)) == (made, made)


ODD = {
    "capital letters": ("refs/heads/odd", "{UP}\n"),
    "a blank before the id": ("refs/heads/odd", " {id}\n"),
    "nothing but zeros": ("refs/heads/odd", "0" * 40 + "\n"),
    "a broken file before a packed ref": ("refs/heads/packed", "broken\n"),
    "a name that is none": ("refs/heads/o d", "{id}\n"),
    "a packed id in capital letters": ("packed-refs", "{UP} refs/heads/odd\n"),
    "packed refs without an end": ("packed-refs", "{id} refs/heads/odd"),
    "a link to a directory": ("refs/heads/linked", None),
    "a branch that ends in a blank of another kind": ("HEAD", "ref: refs/heads/packed\u00a0\n"),
    "a ref of one worktree": ("worktrees/linked/refs/worktree/own", "{id}\n"),
    "a ref of the other worktree": ("refs/worktree/own", "{id}\n"),
}


def test_refs_that_git_did_not_write_are_as_git_takes_them(tmp_path: Path) -> None:
    """However a ref is spelled or hidden, it is listed and resolved as git does it."""
    root = repository(tmp_path / "project")
    older = git(root, "rev-parse", "HEAD")
    git(root, "branch", "packed", older)
    git(root, "pack-refs", "--all")
    git(root, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    made, place = commit(root, {"new": "n\n"}), root / ".git"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "odd").write_text(f"{made}\n")
    for what, (name, content) in ODD.items():
        path = place / name
        kept = path.read_bytes() if path.exists() else None
        if content is None:
            path.symlink_to(tmp_path / "elsewhere")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content.format(id=made, UP=made.upper()))
        linked = "worktree" in what
        tree, private = (tmp_path / "linked", place / "worktrees" / "linked") if linked else (root, place)
        one = Git(str(tree), str(private))
        listed = one.run("for-each-ref", "--format=%(refname) %(objectname)", codes=(0, 128))
        if listed.code == 0:
            assert [f"{ref} {found}" for ref, found in one.refs("refs/").items()] == listed.out.splitlines(), what
            names = ("HEAD", "refs/heads/odd", "refs/heads/packed", "refs/heads/linked/odd", "refs/worktree/own")
            assert one.commits_of(*names) == asked(tree, names), what
        else:
            with pytest.raises(GitFailed):
                one.refs("refs/")
        path.unlink()
        if kept is not None:
            path.write_bytes(kept)


def test_replaced_commits_and_later_headers_are_as_git_takes_them(tmp_path: Path) -> None:
    """A replacement, packed or not, counts as it does for git; a parent named after the author is none."""
    root = repository(tmp_path / "project")
    older, newer = git(root, "rev-parse", "HEAD"), commit(root, {"new": "new\n"})
    tree = git(root, "rev-parse", "HEAD^{tree}")
    text = f"tree {tree}\nauthor a <a> 1 +0000\nparent {newer}\ncommitter a <a> 1 +0000\n\nx\n"
    made = (
        Git(str(root), str(root / ".git"))
        .run("hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=text)
        .line
    )
    assert not Git(str(root), str(root / ".git")).is_ancestor(newer, made)
    git(root, "replace", newer, older)
    for _ in range(2):
        one = Git(str(root), str(root / ".git"))
        assert one.tree_of(newer) == git(root, "rev-parse", f"{newer}^{{tree}}") != tree
        assert not one.is_ancestor(older, newer)
        git(root, "pack-refs", "--all")
        shutil.rmtree(root / ".git" / "refs" / "replace", ignore_errors=True)


def test_a_commit_that_git_refuses_half_way_is_not_made_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where git knows who commits, a failure is final: git may have moved the branch before."""
    root, real = repository(tmp_path / "project"), shutil.which("git")
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "somebody")
    program = tmp_path / "programs" / "git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n"{real}" "$@" || exit\ncase " $* " in *" commit "*) exit 128;; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    write(root, {"new": "new\n"})
    one = Git(str(root), str(root / ".git"))
    one.run("add", "-A")
    with pytest.raises(GitFailed):
        one.commit("commit", "--quiet", "--allow-empty", "-m", "new")
    assert one.line("rev-list", "--count", "HEAD") == "2"


def test_a_keeping_ref_that_names_another_leaves_that_alone(tmp_path: Path) -> None:
    """A keeping ref that was made to name a person's branch is set itself; the branch stays."""
    root = repository(tmp_path / "project")
    older, newer = git(root, "rev-parse", "HEAD"), commit(root, {"new": "new\n"})
    git(root, "branch", "merges", older)
    git(root, "branch", "person", older)
    git(root, "symbolic-ref", "refs/faber/kept", "refs/heads/person")
    one = Git(str(root), str(root / ".git"))
    assert one.move_ref("refs/heads/merges", newer, older, keep="refs/faber/kept")
    assert one.commits_of("refs/heads/merges", "refs/faber/kept", "refs/heads/person") == [newer, newer, older]
