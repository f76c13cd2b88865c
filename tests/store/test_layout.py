"""Where everything stands: the store's paths, and the root that they lie under."""

import os
import subprocess
from pathlib import Path

import pytest

from faber.errors import FaberError, UnsafeFile
from faber.store.layout import Layout, find_root, main_worktree
from support.git_environment import COMMITTER


def git(*arguments: str | Path, at: Path) -> None:
    """Run git without anybody's configuration."""
    environ = {
        **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
        **COMMITTER,
    }
    subprocess.run(["git", *map(str, arguments)], cwd=at, env=environ, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit."""
    path = tmp_path / "repository"
    path.mkdir()
    git("init", "-q", "-b", "main", at=path)
    git("commit", "-q", "--allow-empty", "-m", "first", at=path)
    return path


def root_at(path: Path, monkeypatch: pytest.MonkeyPatch, explicit: str | None = None, **environ: str) -> str:
    """The root that a command finds which is run at `path`."""
    monkeypatch.chdir(path)
    return find_root(explicit, environ)


# --- the root --------------------------------------------------------------------------------------


def test_an_explicit_root_comes_first(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--root` wins over `FABER_ROOT`, which wins over the repository."""
    given, environ = tmp_path / "given", tmp_path / "environ"
    given.mkdir()
    environ.mkdir()
    assert root_at(repository, monkeypatch, str(given), FABER_ROOT=str(environ)) == str(given)
    assert root_at(repository, monkeypatch, FABER_ROOT=str(environ)) == str(environ)
    assert root_at(repository, monkeypatch, FABER_ROOT="") == str(repository)


def test_a_given_root_is_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A root that is not there, or is a file, is an error."""
    (tmp_path / "file").touch()
    for name in ("nowhere", "file"):
        with pytest.raises(FaberError):
            root_at(tmp_path, monkeypatch, str(tmp_path / name))


def test_a_given_root_is_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative root, or one behind a link, is answered as the directory itself."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert root_at(tmp_path, monkeypatch, "link") == str(tmp_path / "real")


def test_a_subdirectory_belongs_to_its_repository(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From anywhere inside a repository the root is its top."""
    deep = repository / "a" / "b"
    deep.mkdir(parents=True)
    assert root_at(deep, monkeypatch) == str(repository)


def test_every_worktree_shares_the_main_ones_store(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a linked worktree, its subdirectory, or one inside the store, the root is the main worktree."""
    for place in (tmp_path / "linked", repository / ".fractary" / "faber" / "worktrees" / "r" / "p"):
        git("worktree", "add", "-q", "--detach", place, at=repository)
        (place / "sub").mkdir()
        assert root_at(place, monkeypatch) == str(repository)
        assert root_at(place / "sub", monkeypatch) == str(repository)


def test_a_worktree_that_was_moved_still_leads_home(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worktree moved by git finds the main one from its new place."""
    git("worktree", "add", "-q", "--detach", tmp_path / "linked", at=repository)
    git("worktree", "move", tmp_path / "linked", tmp_path / "moved", at=repository)
    assert root_at(tmp_path / "moved", monkeypatch) == str(repository)


def test_a_submodule_is_a_project_of_its_own(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From inside a submodule the root is the submodule, not the repository around it."""
    inner = tmp_path / "inner"
    inner.mkdir()
    git("init", "-q", "-b", "main", at=inner)
    git("commit", "-q", "--allow-empty", "-m", "first", at=inner)
    git("-c", "protocol.file.allow=always", "submodule", "add", "-q", inner, "module", at=repository)
    (repository / "module" / "sub").mkdir()
    assert root_at(repository / "module" / "sub", monkeypatch) == str(repository / "module")


def test_a_separate_git_directory_leads_to_its_worktree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository whose git directory lies elsewhere has its worktree as root."""
    work = tmp_path / "work"
    work.mkdir()
    git("init", "-q", "--separate-git-dir", tmp_path / "elsewhere", at=work)
    assert root_at(work, monkeypatch) == str(work)


def test_a_bare_repository_has_no_main_worktree(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a bare repository, and in a worktree of one, the current directory is the root."""
    bare = tmp_path / "bare.git"
    git("clone", "-q", "--bare", repository, bare, at=tmp_path)
    git("worktree", "add", "-q", "--detach", tmp_path / "linked", at=bare)
    assert main_worktree(str(tmp_path / "linked")) is None
    for place in (bare, tmp_path / "linked"):
        assert root_at(place, monkeypatch) == str(place)


def test_without_a_repository_the_nearest_store_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of git the root is the nearest parent that has a store, else the current directory."""
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    assert root_at(deep, monkeypatch) == str(deep)
    os.makedirs(Layout(str(tmp_path)).store)
    assert root_at(deep, monkeypatch) == str(tmp_path)
    os.makedirs(Layout(str(tmp_path / "a" / "b")).store)
    assert root_at(deep, monkeypatch) == str(tmp_path / "a" / "b")


def test_a_broken_git_file_is_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `.git` file that says nothing useful leaves its directory as the root."""
    for content in (b"", b"gitdir: /nowhere\n", b"\xff\xfe", b"gitdir: .\n"):
        (tmp_path / ".git").write_bytes(content)
        assert root_at(tmp_path, monkeypatch) == str(tmp_path)


def test_a_deleted_directory_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a directory that was deleted, the error says so; a given root still works."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(FaberError, match="deleted"):
        find_root(None, {})
    assert find_root(str(tmp_path), {}) == str(tmp_path)


# --- runs ------------------------------------------------------------------------------------------


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A project with runs of its own and of another tool."""
    made = Layout(str(tmp_path))
    for run_id in ("flat", "org/project/run"):
        os.makedirs(os.path.join(made.run_dir(run_id), "events"))
    os.makedirs(tmp_path / ".fractary" / "runs" / "other" / "run" / "events")
    os.makedirs(tmp_path / ".fractary" / "plugins" / "faber" / "runs" / "plug" / "events")
    return made


def test_runs_of_every_store_are_listed(layout: Layout) -> None:
    """Runs of the project's own store and of other tools' are found at every depth, sorted."""
    assert layout.run_ids() == ["flat", "org/project/run", "other/run", "plug"]


def test_what_is_no_run_is_not_listed(layout: Layout) -> None:
    """A directory without a run's files, one inside a run, a link, and an unfinished creation are no runs."""
    for name in ("empty", "flat/inner/events", ".init-1-ab/events", "a/b/c/d/events", "bad name/events"):
        os.makedirs(os.path.join(layout.runs, name))
    os.symlink("flat", os.path.join(layout.runs, "link"))
    assert layout.run_ids() == ["flat", "org/project/run", "other/run", "plug"]


def test_a_run_of_the_own_store_hides_another_tools(layout: Layout, tmp_path: Path) -> None:
    """Of two runs of one id, the project's own is found; only that one is its own."""
    foreign = layout.find_run_dir("other/run")
    assert foreign is not None
    assert not layout.own(foreign)
    os.makedirs(os.path.join(layout.run_dir("other/run"), "events"))
    found = layout.find_run_dir("other/run")
    assert found == layout.run_dir("other/run")
    assert layout.own(found)


@pytest.mark.parametrize("run_id", ["org", "org/project", "nobody", "flat/inner"])
def test_a_directory_on_the_way_is_no_run(layout: Layout, run_id: str) -> None:
    """A prefix of a run, an unknown id, and a place inside a run are nobody's run directory."""
    assert layout.find_run_dir(run_id) is None


@pytest.mark.parametrize("component", ["org", "org/project", "org/project/run"])
def test_a_link_on_the_way_to_a_run_is_refused(layout: Layout, tmp_path: Path, component: str) -> None:
    """A run is not looked for through a link, whichever part of its path is one."""
    path = os.path.join(layout.runs, component)
    os.rename(path, tmp_path / "moved")
    os.symlink(tmp_path / "moved", path)
    with pytest.raises(UnsafeFile):
        layout.find_run_dir("org/project/run")


@pytest.mark.parametrize("name", ["events", "Events"])
def test_a_link_in_a_run_is_refused(layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """No directory of a run is a link, however it is spelled where the file system ignores case."""
    events, look = os.path.join(layout.runs, "org/project/run", "events"), os.lstat
    if os.path.isdir(events):
        os.rename(events, tmp_path / "moved")
    os.symlink(tmp_path, os.path.join(os.path.dirname(events), name))
    if name != "events":  # as where case is ignored
        spelled = os.path.join(os.path.dirname(events), name)
        monkeypatch.setattr(os, "lstat", lambda path: look(spelled if path == events else path))
    with pytest.raises(UnsafeFile, match="events of the run is a link"):
        layout.find_run_dir("org/project/run")


def test_a_file_in_a_runs_place_is_refused(layout: Layout) -> None:
    """A file where a run directory belongs is named as such."""
    Path(layout.runs, "file").touch()
    with pytest.raises(UnsafeFile, match="file"):
        layout.find_run_dir("file")
