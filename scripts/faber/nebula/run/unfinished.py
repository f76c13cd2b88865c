"""Whether `apply` may begin: unfinished work needs an option that says what to do with it, and it has to be here."""

import shlex

from faber.errors import Exit, FaberError
from faber.git.programs import Git
from faber.git.refs import is_commit
from faber.model.documents import State, nebula_of
from faber.nebula.plan.names import names_of
from faber.nebula.plan.specs import Nebula
from faber.nebula.run.apply_options import Wanted
from faber.nebula.run.pulled_checkpoints import take_checkpoints
from faber.nebula.run.run_of_nebula import KnownRun

UNFINISHED = frozenset({"in_progress", "failed", "skipped"})


class NebulaUnfinished(FaberError):
    """An earlier run is unfinished, and neither --resume nor --fresh was given."""

    code = "nebula_unfinished"
    exit_code = Exit.REFUSED


class WorkElsewhere(FaberError):
    """The run was worked on by another machine, and the commits of `phases` are not in this repository."""

    code = "nebula_work_elsewhere"
    exit_code = Exit.REFUSED


def check_wanted(known: KnownRun, directory: str, wanted: Wanted, nebula: Nebula, git: Git) -> None:
    """Raise `NebulaUnfinished` if there is unfinished work and no option says what to do with it, and `WorkElsewhere`
    if the run needs what another machine has. The checkpoints that came with the run are taken."""
    if wanted.fresh:
        return
    if not wanted.resume:
        _require_nothing_left(known, directory)
    if known.open and known.state is not None:
        _require_here(known.state, directory, nebula.name, git, again=wanted.retry_failed)
        take_checkpoints(known.state, directory, git)


def _require_nothing_left(known: KnownRun, directory: str) -> None:
    """Raise `NebulaUnfinished` if there is unfinished work."""
    left: list[str] = []
    if known.open and known.state is not None:
        nebula = nebula_of(known.state)
        left = [name for name, phase in nebula["phases"].items() if phase["status"] != "done"] if nebula else ["all"]
    elif known.state is None and known.file is not None:
        left = [name for name, record in known.file.phases.items() if record.status in UNFINISHED]
    if left:
        raise NebulaUnfinished(
            f"An earlier run of this nebula is unfinished: {', '.join(left[:8])}{' …' if len(left) > 8 else ''}.",
            run_id=known.run_id,
            phases=left[:100],
            recovery=(
                f"`faber nebula apply {directory} --resume` continues it; "
                f"`faber nebula apply {directory} --fresh` starts over and keeps the earlier work on its branches."
            ),
        )


def _require_here(state: State, directory: str, name: str, git: Git, *, again: bool) -> None:
    """Raise `WorkElsewhere` if the run was at a remote and commits that it builds on are not in this repository. With
    `again`, a run that was worked on here may do what is lost once more."""
    nebula, run_id = nebula_of(state), state["run_id"]
    seen = next((ref for ref in git.refs("refs/faber/remotes/") if ref.endswith(f"/runs/{run_id}")), "")
    if nebula is None or not seen:
        return
    needed = {
        name: commit
        for name, phase in nebula["phases"].items()
        if is_commit(commit := phase.get("merged", "") if phase["status"] == "done" else phase.get("commit", ""))
    }
    integration, *found = git.commits_of(f"refs/heads/{names_of(name, run_id).integration}", *needed.values())
    lost = [name for name, commit in zip(needed, found, strict=True) if commit is None]
    if lost and not (again and integration):
        remote = seen.removeprefix("refs/faber/remotes/").removesuffix(f"/runs/{run_id}")
        named = "" if remote == "origin" else f" --remote {shlex.quote(remote)}"
        raise WorkElsewhere(
            f"Run {run_id} of this nebula is unfinished, and the work of these phases is on another machine: "
            f"{', '.join(lost[:8])}{' …' if len(lost) > 8 else ''}.",
            run_id=run_id,
            phases=lost[:100],
            recovery=(
                f"Run `faber sync push {run_id}{named}` on the machine where it was worked on, then here "
                f"`faber sync pull {run_id}{named}`, and repeat the command; "
                f"`faber nebula apply {directory} --fresh` starts over and pays everything again."
            ),
        )
