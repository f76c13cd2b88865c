"""Which run a session belongs to: from the store's index, without a scan and without a global pointer."""

from typing import TYPE_CHECKING, NamedTuple

from faber.context import session_record
from faber.errors import AmbiguousRun, FaberError, RunNotFound
from faber.git.repository import Repository, checked_out, find
from faber.hooks.hook_call import Call
from faber.model.documents import CLOSED
from faber.model.ids import is_run_id
from faber.store import index
from faber.store.index import Binding
from faber.store.layout import Layout
from faber.store.load import Run, load
from faber.store.store_errors import ForeignRun

if TYPE_CHECKING:
    from faber.hooks.session_brief import Elsewhere

HEADS = "refs/heads/"
# At most this many runs are read; the others are only counted.
MOST = 8


class SessionPlace(NamedTuple):
    """Where a session works: the top of its worktree and the branch checked out there.

    Without a repository the worktree is the project's root. `branch` is None there and for a detached HEAD.
    """

    repository: Repository | None
    worktree: str
    branch: str | None


class Candidates(NamedTuple):
    """The active runs that a session may belong to, latest binding first.

    `unreadable` are candidates that cannot be read, each with the error's code. `more` counts those that were not
    read. `bound` is true if the session itself is bound to the run.
    """

    runs: list[Run]
    unreadable: list[tuple[str, str]]
    more: int = 0
    bound: bool = False

    @property
    def one(self) -> Run | None:
        """The run, if there is exactly one candidate."""
        return self.runs[0] if len(self.runs) == 1 and not self.unreadable and not self.more else None


def place_of(call: Call) -> SessionPlace:
    """Where the call's session works."""
    repository = find(call.here)
    top = str((repository and repository.top) or call.layout.root)
    head = repository.head if repository else None
    return SessionPlace(repository, top, head.removeprefix(HEADS) if head and head.startswith(HEADS) else None)


def candidates(call: Call, place: SessionPlace) -> Candidates:
    """The run that the session worked on last; else the runs of the branch checked out here and those started in this
    worktree that have no branch yet; else those started here whose branch is elsewhere."""
    if call.session and (bound := of_session(call.layout, call.session)):
        return bound
    mine: list[Run] = []
    unreadable: list[tuple[str, str]] = []
    more = 0
    if place.branch:
        seen, count = index.bound_active(call.layout, index.BRANCHES, place.branch, MOST)
        on_branch, unreadable = _load(call.layout, seen)
        mine, more = [run for run in on_branch if _branch(run) == place.branch], count - len(seen)
    known = {run.run_id for run in mine}
    begun, count = index.bound_active(call.layout, index.WORKTREES, place.worktree, MOST)
    begun_here, damaged = _load(call.layout, [binding for binding in begun if binding.run_id not in known])
    fitting = [run for run in begun_here if place.repository is None or _branch(run) in (None, place.branch)]
    if mine or unreadable:
        return Candidates([*mine, *fitting][:MOST], unreadable, more + max(0, len(mine) + len(fitting) - MOST))
    return Candidates(fitting or begun_here, [] if fitting else damaged, count - len(begun))


def of_session(layout: Layout, session_id: str) -> Candidates | None:
    """The open run that the session worked on last; None if it is bound to none."""
    for binding in index.bound_active(layout, index.SESSIONS, session_id, MOST)[0]:
        runs, unreadable = _load(layout, [binding])
        if runs or unreadable:
            return Candidates(runs, unreadable, bound=True)
    return None


def working_on(call: Call) -> Run | None:
    """The open run that the session has recorded events in; None for a session that only shares its worktree."""
    found = of_session(call.layout, call.session) if call.session else None
    return found.one if found else None


def session_runs(layout: Layout, session_id: str) -> list[Run]:
    """The open runs that the session is bound to and that can be read, the one it worked on last first."""
    return _load(layout, index.bound_active(layout, index.SESSIONS, session_id, MOST)[0])[0]


def session_run(layout: Layout, session_id: str, here: str) -> str | None:
    """The id of the run that a session in the directory `here` means by `latest`, or by naming no run: the one it
    worked on last, though it may be over; else the one that it was briefed about; else the one that SessionStart would
    choose here. None if there is none of these; raises `AmbiguousRun` if SessionStart would ask a person."""
    told = session_record.read(layout, session_id)
    own = [binding.run_id for binding in index.bound(layout, index.SESSIONS, session_id)]
    for run_id in [*own, *([told.run_id] if told else [])]:
        if is_run_id(run_id) and layout.own(layout.find_run_dir(run_id) or ""):
            return run_id
    call = Call({}, session_id, layout, here, "")
    found = candidates(call, place_of(call))
    named = [run.run_id for run in found.runs] + [run_id for run_id, _ in found.unreadable]
    if len(named) + found.more > 1:
        raise AmbiguousRun(
            f"This session has no run yet, and {len(named) + found.more} are open here.",
            candidates=named,
            recovery="Ask the person which run to continue, do not choose, and name it.",
        )
    return named[0] if named else None


def elsewhere(run: Run, place: SessionPlace) -> "Elsewhere | None":
    """Where the run's branch is; None if it is here, if the run has none, or without a repository."""
    branch = _branch(run)
    if place.repository is None or branch is None or branch == place.branch:
        return None
    from faber.hooks.session_brief import Elsewhere  # a hook that says nothing pays nothing for the words

    path = checked_out(place.repository, HEADS + branch)
    return Elsewhere(branch, path, place.branch or "a commit without a branch")


def _branch(run: Run) -> str | None:
    name = run.state["artifacts"].get("branch_name")
    return name if isinstance(name, str) else None


def _load(layout: Layout, bindings: list[Binding]) -> tuple[list[Run], list[tuple[str, str]]]:
    """Faber's own open runs among `bindings`, and those that cannot be read."""
    runs, unreadable = [], []
    for binding in bindings:
        try:
            run = load(layout, binding.run_id)
        except (RunNotFound, ForeignRun):
            continue
        except (FaberError, OSError) as error:
            unreadable.append((binding.run_id, getattr(error, "code", "unreadable")))
            continue
        if run.state["status"] not in CLOSED:
            runs.append(run)
    return runs, unreadable
