"""The layout of a store: the only owner of its paths."""

import os
import re
from collections.abc import Container, Mapping
from functools import cached_property
from typing import NamedTuple

from faber.errors import FaberError, UnsafeFile
from faber.model.ids import MAX_SEGMENTS, check_run_id, is_run_id

STORE = os.path.join(".fractary", "faber")
# Where other tools keep runs of the same protocol; read, never written.
FOREIGN_STORES = (os.path.join(".fractary", "plugins", "faber", "runs"), os.path.join(".fractary", "runs"))
# Where they keep plans: here, and in any directory of this name below `.fractary`.
FOREIGN_PLANS = os.path.join("logs", "fractary", "plugins", "faber", "plans")
PLANS = "plans"
# How far the search for the latter goes: levels below `.fractary`, and directories looked into.
MAX_PLAN_DEPTH = 6
MAX_PLAN_DIRECTORIES = 500
# Directories with many entries and no plans.
_WITHOUT_PLANS = frozenset({"runs", "worktrees", "index", "cache", "node_modules", ".git"})

STATE = "state.json"
METADATA = "metadata.json"
PLAN = "plan.json"
EVENTS = "events"
KEYS = "keys"
SUMMARIES = "session-summaries"
SUMMARY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\.json", re.ASCII)
WORK_ITEM = "work-item.json"
LOCK = "lock"
PARKED = "parked"
DAMAGED = "damaged"
AGENTS = "agents"
TOLD = "told"
# Another tool keeps the runs of a plan in the plan's directory: run PLAN-run-SUFFIX is PLAN/state-SUFFIX.json, with its
# events in PLAN/SUFFIX.
RUN_OF_PLAN = "-run-"
_STATE_OF_PLAN = r"state-[A-Za-z0-9][A-Za-z0-9._-]*\.json"
# A run that is being created; no run id starts with a dot, so it is never mistaken for one.
UNFINISHED_PREFIX = ".init-"
# The directories of a run.
_INNER = (EVENTS, KEYS, SUMMARIES, PARKED, DAMAGED, AGENTS, TOLD)


class Layout:
    """The paths of one store, below the project's root."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.store = os.path.join(root, STORE)
        self.runs = os.path.join(self.store, "runs")
        self.index = os.path.join(self.store, "index")
        self.beginning = os.path.join(self.index, "beginning.lock")
        self.config = os.path.join(self.store, "config.yaml")
        self.workflows = os.path.join(self.store, "workflows")
        self.work_items = os.path.join(self.store, "work")
        self.gitignore = os.path.join(self.store, ".gitignore")
        self.lock = os.path.join(self.store, LOCK)
        self.worktrees = os.path.join(self.store, "worktrees")
        self.worktrees_gitignore = os.path.join(self.worktrees, ".gitignore")
        self.database = os.path.join(self.store, "faber.db")

    def exists(self) -> bool:
        """True if the project has a store."""
        return os.path.isdir(self.store)

    @property
    def bases(self) -> tuple[str, ...]:
        """The directories that hold runs: this store's, then other tools'."""
        return self.runs, *(os.path.join(self.root, store) for store in FOREIGN_STORES)

    def run_dir(self, run_id: str) -> str:
        """The directory of a run of this store; raises `InvalidRunId`. It need not exist."""
        return os.path.join(self.runs, *check_run_id(run_id).split("/"))

    def find_run_dir(self, run_id: str) -> str | None:
        """The directory that holds `run_id`, here or in another tool's store; None if there is none.

        Raises `UnsafeFile` if a component of it, or one of its subdirectories, is a link or not a directory:
        following one would let a run live outside the store.
        """
        for base in self.bases:
            path = base
            for segment in check_run_id(run_id).split("/"):
                path = os.path.join(path, segment)
                kind = _kind(path)
                if kind is None:
                    break
                if kind != "directory":
                    raise UnsafeFile(f"The run directory is a {kind}.", path=path)
            else:
                if is_run_dir(path):
                    _check_inside(path)
                    return path
        plan, marker, suffix = run_id.rpartition(RUN_OF_PLAN)
        for base in self.bases if marker and "/" not in run_id else ():
            path = os.path.join(base, plan, suffix)
            if _kind(os.path.dirname(path)) == "directory" and state_of_plan(path) and _kind(path) != "link":
                _check_inside(path)
                return path
        return None

    def run_ids(self) -> list[str]:
        """Every run of this store and of other tools' stores, sorted. Walks the directories."""
        return sorted(self.states((), set(), set()))

    def states(self, known: Container[str], closed: set[str], there: set[str]) -> dict[str, os.stat_result | None]:
        """Every run with the `lstat` of its state.json, None if it has none; those of `closed` are added to `there`
        instead, without a look at them.

        Opens no file. The ids in `known` need not be checked again: they were runs before.
        """
        look = _Look(known, closed, there, {})
        for base in self.bases:
            if os.path.isdir(base):
                look.into(base, "")
        return look.found

    @cached_property
    def plan_directories(self) -> list[str]:
        """Where other tools' plans may lie; links are not followed. Searched once."""
        found, path = [], self.root
        for segment in FOREIGN_PLANS.split(os.sep):
            path = os.path.join(path, segment)
            if _kind(path) != "directory":
                break
        else:
            found.append(path)
        top, looked = os.path.join(self.root, ".fractary"), 0
        waiting = [(top, 0)] if _kind(top) == "directory" else []
        while waiting and looked < MAX_PLAN_DIRECTORIES:
            path, depth = waiting.pop(0)
            looked += 1
            if os.path.basename(path) == PLANS:
                found.append(path)
            elif depth < MAX_PLAN_DEPTH:
                waiting += [(inner, depth + 1) for inner in _directories(path)]
        return found

    def run_worktrees(self, run_id: str) -> str:
        """The directory that holds the worktrees of a run; raises `InvalidRunId`."""
        return os.path.join(self.worktrees, *check_run_id(run_id).split("/"))

    def worktree(self, run_id: str, name: str) -> str:
        """The worktree of one phase. `name` is safe as a directory name and does not start with a dot."""
        return os.path.join(self.run_worktrees(run_id), name)

    def scratch(self, run_id: str, number: int) -> str:
        """The worktree in which candidate merges are checked."""
        return self.worktree(run_id, f".scratch-{number}")

    def claim(self, run_id: str, name: str) -> str:
        """The lock file that a living process holds while it uses `name`."""
        return os.path.join(self.run_worktrees(run_id), ".claims", name)

    def nebula_claim(self, directory: str) -> str:
        """The lock file that a living process holds while it runs the nebula in `directory`."""
        import hashlib

        name = hashlib.sha256(os.path.realpath(directory).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        return os.path.join(self.worktrees, ".nebulas", name)

    def agent_logs(self, run_id: str) -> str:
        """The directory with what the agents of a nebula's run said and did, a file for each phase."""
        return os.path.join(self.run_dir(run_id), AGENTS)

    def set_aside(self, run_id: str) -> str:
        """Where files that were in the place of a worktree are kept."""
        return os.path.join(self.run_worktrees(run_id), ".aside")

    def start_point(self, run_id: str) -> str:
        """The file that records the branch and commit that the run's worktrees started from."""
        return os.path.join(self.run_worktrees(run_id), ".begun.json")

    def journal(self, run_id: str) -> str:
        """The file that records that one of the person's worktrees is being moved to another commit."""
        return os.path.join(self.run_worktrees(run_id), ".moving")

    def own(self, path: str) -> bool:
        """True if `path` lies in this store's run directory, not in another tool's."""
        return path.startswith(self.runs + os.sep)


def is_run_dir(path: str) -> bool:
    """True if `path` looks like a run: it holds a state, metadata, a plan or events."""
    return any(os.path.lexists(os.path.join(path, name)) for name in (STATE, METADATA, PLAN, EVENTS))


def state_of_plan(run_dir: str) -> str | None:
    """The state of a run that another tool keeps in its plan's directory, next to `run_dir`, which need not exist."""
    directory, suffix = os.path.split(run_dir)
    path = os.path.join(directory, f"state-{suffix}.json")
    return path if os.path.lexists(path) else None


def _runs_of_plan(directory: str, plan: str) -> list[str]:
    """The ids of the runs that another tool keeps in a plan's directory."""
    names = os.listdir(directory) if os.path.lexists(os.path.join(directory, PLAN)) else []
    found = [
        plan + RUN_OF_PLAN + name[len("state-") : -len(".json")] for name in names if re.fullmatch(_STATE_OF_PLAN, name)
    ]
    return [run_id for run_id in found if is_run_id(run_id)]


def _check_inside(run_dir: str) -> None:
    try:
        with os.scandir(run_dir) as entries:
            # Where the file system ignores case, a link may have another name than the one that it is opened by.
            odd = any(e.is_symlink() or (e.name in _INNER and not e.is_dir(follow_symlinks=False)) for e in entries)
    except OSError:  # it may still be possible to look into it
        odd = True
    for name in _INNER if odd else ():
        path = os.path.join(run_dir, name)
        kind = _kind(path)
        if kind not in (None, "directory"):
            raise UnsafeFile(f"{name} of the run is a {kind}.", path=path)


def _directories(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            inner = [e.path for e in entries if e.name not in _WITHOUT_PLANS and e.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(inner)


def _kind(path: str) -> str | None:
    import stat

    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(mode):
        return "link"
    return "directory" if stat.S_ISDIR(mode) else "file"


class _Look(NamedTuple):
    known: Container[str]
    closed: set[str]
    there: set[str]
    found: dict[str, os.stat_result | None]

    def into(self, base: str, prefix: str) -> None:
        """Add the runs in the directory `base`, whose ids begin with `prefix`."""
        try:
            here = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return
        try:
            run_ids = [prefix + name for name in os.listdir(here)]
            if self.closed:  # most of many runs: no line of Python for each
                self.there.update(self.closed.intersection(run_ids))
                run_ids = list(set(run_ids).difference(self.closed))
            found, known, start, look = self.found, self.known, len(prefix), os.stat
            for run_id in run_ids:
                if found.get(run_id):
                    continue
                if run_id in known:
                    try:
                        found[run_id] = look(f"{run_id[start:]}/{STATE}", dir_fd=here, follow_symlinks=False)
                        continue
                    except OSError:
                        pass
                self._new(here, base, run_id, run_id[start:])
        except OSError:
            return
        finally:
            os.close(here)

    def _new(self, here: int, base: str, run_id: str, name: str) -> None:
        if not is_run_id(name) or _kind(f"{base}/{name}") != "directory":
            return
        try:
            self.found[run_id] = os.stat(f"{name}/{STATE}", dir_fd=here, follow_symlinks=False)
        except OSError:
            path = f"{base}/{name}"
            if kept := _runs_of_plan(path, run_id):
                for kept_id in kept:  # an adopted one has a directory of its own
                    if kept_id not in self.there:
                        self.found.setdefault(kept_id, None)
            elif is_run_dir(path):
                self.found[run_id] = None
            elif run_id.count("/") + 1 < MAX_SEGMENTS:
                self.into(path, run_id + "/")


def find_root(explicit: str | None, environ: Mapping[str, str], here: str | None = None) -> str:
    """The project's root: `--root`, `$FABER_ROOT`, the repository's main worktree, the nearest
    parent with a store, or the current directory; so that every worktree shares one store.

    `here` replaces the current directory.
    """
    for given in (explicit, environ.get("FABER_ROOT")):
        if given:
            if not os.path.isdir(given):
                raise FaberError(f"The root is not a directory: {given!a}.", recovery="Pass an existing directory.")
            return os.path.realpath(given)
    try:
        here = here or os.getcwd()
    except FileNotFoundError as error:
        raise FaberError(
            "The current directory was deleted.", recovery="Change to an existing directory, or pass --root."
        ) from error
    return main_worktree(here) or _nearest_store(here) or here


def _parents(path: str) -> list[str]:
    found = [path]
    while os.path.dirname(path) != path:
        path = os.path.dirname(path)
        found.append(path)
    return found


def _nearest_store(here: str) -> str | None:
    return next((path for path in _parents(here) if os.path.isdir(os.path.join(path, STORE))), None)


def main_worktree(here: str) -> str | None:
    """The main worktree of the repository around `here`, read from git's own files; None outside one.

    A linked worktree's `.git` file names its private directory, whose `commondir` leads to the
    repository that all worktrees share. A bare repository has no main worktree.
    """
    for path in _parents(here):
        dot_git = os.path.join(path, ".git")
        if os.path.isdir(dot_git):
            return path
        if os.path.isfile(dot_git):
            return _from_git_file(path, dot_git)
    return None


def _from_git_file(worktree: str, dot_git: str) -> str | None:
    try:
        with open(dot_git, encoding="utf-8", errors="surrogateescape") as file:
            first = file.readline(5000).strip()
        private = os.path.join(worktree, first.removeprefix("gitdir:").strip())
        with open(os.path.join(private, "commondir"), encoding="utf-8", errors="surrogateescape") as file:
            common = os.path.realpath(os.path.join(private, file.readline(5000).strip()))
    except OSError:
        return worktree  # a submodule, or a separate git directory: the worktree is its own main one
    return os.path.dirname(common) if os.path.basename(common) == ".git" else None
