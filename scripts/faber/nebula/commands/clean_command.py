"""`faber nebula clean`: remove the worktrees, branches and refs that nebulas' runs left."""

from collections.abc import Mapping
from typing import Any

from faber.console.invocation import Invocation
from faber.console.output import print_answer
from faber.errors import Exit
from faber.git.programs import Git
from faber.nebula.cluster.shared_cleaning import clean_shared
from faber.nebula.cluster.shared_repository import Shared, url_of
from faber.nebula.plan.names import names_of
from faber.nebula.plan.nebula_files import load_nebula
from faber.nebula.plan.parse import UNNAMED
from faber.nebula.plan.problems import require_valid
from faber.nebula.run.leftovers import LeftRun, left_runs
from faber.nebula.worktrees.cleaning import Cleaned, Merges
from faber.nebula.worktrees.cleaning import clean as clean_run
from faber.nebula.worktrees.nebula_repository import usable
from faber.nebula.worktrees.pool import Worktrees
from faber.nebula.worktrees.tree_errors import TreeInUse
from faber.text.safe_text import redact, redact_json


def clean(obj: Invocation, directory: str | None, *, remote: str | None, dry_run: bool, form: str) -> int:
    """Clean up after every run of the project's nebulas, or of the nebula in `directory`; with `remote` there too."""
    git = usable(obj.layout.root, names_of("nebula", "clean")).git
    nebula = _name(directory) if directory is not None else None
    url = url_of(git, remote) if remote is not None else None
    size, runs = 0, []
    for run in left_runs(obj.layout, git, nebula):
        worktrees = Worktrees(obj.layout, run.names)
        try:
            found, shared = _clean(worktrees, run, git, url, dry_run=dry_run)
        except TreeInUse as error:
            found, shared = Cleaned([], [], {run.names.run_id: error.message}), Cleaned([], [], {})
        finally:
            worktrees.end()
        size += found.size
        left = {"worktrees": found.worktrees, "refs": found.refs, "shared_refs": shared.refs}
        kept = [{"what": what, "why": why} for what, why in [*found.kept.items(), *shared.kept.items()]]
        if kept or any(left.values()):
            runs.append({"run_id": run.names.run_id, **left, "kept": kept})
    answer = {"dry_run": dry_run, "bytes": size, "runs": runs}
    print_answer(redact_json(answer), form, lambda shown: redact(_text(shown)))
    return Exit.OK


def _name(directory: str) -> str:
    """The name of the nebula in `directory`; raises `InvalidNebula` if its file does not say it."""
    parsed = load_nebula(directory)
    if parsed.nebula.name == UNNAMED:
        require_valid(parsed.problems, directory)
    return parsed.nebula.name


def _clean(worktrees: Worktrees, run: LeftRun, git: Git, url: str | None, *, dry_run: bool) -> tuple[Cleaned, Cleaned]:
    names, nothing = run.names, Cleaned([], [], {})
    if run.problem:
        return nothing._replace(kept={names.run_id: run.problem}), nothing
    lease = worktrees.leases.take("run", f"The run {names.run_id}")
    worktrees.attach((lease.fileno(),))
    merges = Merges(worktrees)
    # The shared repository first: what was merged is read from the branches that are here.
    shared = clean_shared(Shared(git, url, names), run, merges, dry_run=dry_run) if url is not None else nothing
    return clean_run(worktrees, merges, run.busy, closed=run.closed, dry_run=dry_run), shared


def _text(answer: Mapping[str, Any]) -> str:
    verb = "would remove" if answer["dry_run"] else "removed"
    lines = []
    for run in answer["runs"]:
        counts = (
            (len(run["worktrees"]), "worktree"),
            (len(run["refs"]), "ref"),
            (len(run["shared_refs"]), "shared ref"),
        )
        gone = ", ".join(f"{count} {what}{'s' * (count > 1)}" for count, what in counts if count) or "nothing"
        lines.append(f"{run['run_id']}: {verb} {gone}")
        lines += [f"  kept {each['what']}: {each['why']}" for each in run["kept"]]
    freed = f"{answer['bytes'] / 1e6:.1f} MB"
    return "\n".join([*lines, f"{freed} {'would be freed' if answer['dry_run'] else 'freed'}"]) + "\n"
