"""What faber did to git, read by GitPython: an independent reader of commits, trees, trailers and refs.

GitPython parses commits and trees with its own code, out of git's object database.
"""

import os
from pathlib import Path

import pytest
from git import Commit, Repo

from faber.git import commit_messages, fast_import, stash
from faber.git.programs import Git
from support.repositories import RUN, Bench, bench, git, write

pytestmark = pytest.mark.usefixtures("git_user")

ODD = {
    "plain.txt": b"plain\n",
    "with blank and 'quote\".txt": b"quoted\n",
    "häßlich/файл.txt": "Grüße\n".encode(),
    "-option": b"",
    "line\nbreak": b"no newline",
    "tab\there": bytes(range(256)),
    ":(top)magic": b"not a pathspec",
}


@pytest.fixture
def one(tmp_path: Path) -> Bench:
    """A phase's worktree."""
    return bench(tmp_path)


def contents(commit: Commit) -> dict[str, bytes]:
    """The files of a commit by path."""
    return {
        str(item.path): item.data_stream.read()
        for item in commit.tree.traverse()
        if getattr(item, "type", "") == "blob"
    }


def test_a_cycle(one: Bench) -> None:
    """A cycle's commit has the phase's odd files byte by byte, one parent, the person as author, and three trailers."""
    write(one.path, dict(ODD))
    (one.path / "src/b.txt").unlink()
    sha = one.tree.commit_cycle(3, "Überarbeite den „Parser“ ☃")
    with Repo(one.path) as repo:
        read = repo.head.commit
        assert read.hexsha == sha
        assert contents(read) == {"a.txt": b"one\n", **ODD}
        assert [parent.hexsha for parent in read.parents] == [one.base]
        assert read.summary == "parser/cycle-3: Überarbeite den „Parser“ ☃"
        assert read.trailers_dict == {"Faber-Run": [RUN], "Faber-Phase": ["parser"], "Faber-Cycle": ["3"]}
        assert commit_messages.read(read.hexsha, str(read.message)) == commit_messages.Made(sha, RUN, "parser", 3)
        assert repo.active_branch.path == one.tree.ref
        assert not repo.is_dirty(untracked_files=True)


def test_parked_work(one: Bench) -> None:
    """Parked work, tracked and untracked, is a commit on the head under a ref of its own; the tree is as committed."""
    write(one.path, {"a.txt": "edited\n", **ODD})
    parked = one.tree.park_dirty("an „odd“ turn")
    assert parked is not None
    with Repo(one.root) as repo:
        found = {ref.path: ref.commit for ref in repo.refs if ref.path.startswith(stash.PARKED_REFS)}
        assert {path: kept.hexsha for path, kept in found.items()} == {parked.ref: parked.commit}
        kept = found[parked.ref]
        assert contents(kept) == {"a.txt": b"edited\n", "src/b.txt": b"two\n", **ODD}
        assert [parent.hexsha for parent in kept.parents] == [one.base]
        assert kept.trailers_dict == {"Faber-Parked": [RUN]}
    with Repo(one.path) as tree:
        assert tree.head.commit.hexsha == one.base
        assert not tree.is_dirty(untracked_files=True)


@pytest.mark.parametrize("follows", [True, False], ids=["on its parent", "on another tree"])
def test_an_imported_commit(one: Bench, follows: bool) -> None:
    """A commit made by fast-import is its base's tree with the new files in it, for odd names and bytes too."""
    runner = Git(str(one.root), os.path.realpath(one.root / ".git"))
    base, tree = one.base, git(one.root, "rev-parse", "HEAD^{tree}")
    git(one.root, "commit", "-q", "--allow-empty", "-m", "newer")
    parent = base if follows else git(one.root, "rev-parse", "HEAD")
    files = {name: data for name, data in ODD.items() if "\n" not in name}
    made = fast_import.NewCommit(
        ref="refs/faber/outgoing/x",
        message="faber: Größe\n\nstatus: läuft\n".encode(),
        author="Zoë Ünicode <zoe@example.org>",
        parent=parent,
        base=base,
        base_tree=tree,
        files=files,
    )
    oid = runner.run("fast-import", "--quiet", "--force", "--done", stdin=fast_import.stream(made)).line
    with Repo(one.root) as repo:
        read = repo.commit("refs/faber/outgoing/x")
        assert read.hexsha == oid
        assert contents(read) == {"a.txt": b"one\n", "src/b.txt": b"two\n", **files}
        assert [each.hexsha for each in read.parents] == [parent]
        assert (read.author.name, read.author.email) == ("Zoë Ünicode", "zoe@example.org")
        assert read.message == "faber: Größe\n\nstatus: läuft\n"


def test_a_moved_ref(one: Bench) -> None:
    """A moved ref is where faber says it is, with one reflog entry a move; a refused move leaves neither."""
    ref = "refs/heads/größe/ветка"
    git(one.root, "config", "core.logAllRefUpdates", "always")
    assert one.tree.git.move_ref(ref, one.base, None, "faber: begins")
    write(one.path, {"a.txt": "2"})
    newer = one.tree.commit_cycle(1, "x")
    assert newer is not None
    kept = "refs/faber/kept"
    assert not one.tree.git.move_ref(ref, newer, newer, keep=kept)
    assert one.tree.git.commit_of(kept) is None
    assert one.tree.git.move_ref(ref, newer, one.base, "faber: weiter", keep=kept)
    assert one.tree.git.commit_of(kept) == newer
    assert not one.tree.git.move_ref(ref, one.base, one.base, keep=kept)
    assert one.tree.git.commit_of(kept) == newer
    with Repo(one.root) as repo:
        moved = repo.heads["größe/ветка"]
        assert moved.commit.hexsha == newer == one.tree.git.commit_of(ref)
        assert [(entry.oldhexsha, entry.newhexsha, entry.message) for entry in moved.log()] == [
            ("0" * 40, one.base, "faber: begins"),
            (one.base, newer, "faber: weiter"),
        ]
