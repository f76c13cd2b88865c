"""The task of one phase, as its agents and its loop get it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from faber.nebula.plan.specs import Filter, Nebula, PhaseSpec


@dataclass(frozen=True)
class PhaseTask:
    """A phase as its agents see it.

    `body` is the task in Markdown; `scope` the globs it may touch (empty: everything). `goals` and `constraints` are
    the project's. `project_context` precedes them (healing's note on an earlier attempt). `partial_work` describes an
    abandoned attempt of this phase. `max_budget_usd` None: only the run's limit applies. `directory` is where filters
    run, relative to the top of the tree; `top` is the path of the tree, shown to the agents. Unless it is
    `reviewed`, its filters approve it.
    """

    id: str
    title: str
    body: str
    max_cycles: int
    max_budget_usd: float | None = None
    scope: Sequence[str] = ()
    goals: Sequence[str] = ()
    constraints: Sequence[str] = ()
    project_context: str = ""
    partial_work: str = ""
    filters: Sequence[Filter] = ()
    directory: str = "."
    top: str = ""
    reviewed: bool = True


def phase_task(
    nebula: Nebula, spec: PhaseSpec, *, top: str = "", project_context: str = "", partial_work: str = ""
) -> PhaseTask:
    """The task of `spec` in the tree at `top`, with its effective limits."""
    settings = nebula.settings(spec)
    return PhaseTask(
        id=spec.id,
        title=spec.title,
        body=spec.body,
        max_cycles=settings.max_review_cycles,
        max_budget_usd=settings.max_budget_usd,
        scope=spec.scope,
        goals=nebula.context.goals,
        constraints=nebula.context.constraints,
        project_context=project_context,
        partial_work=partial_work,
        filters=nebula.filters,
        directory=nebula.context.working_dir,
        top=top,
        reviewed=spec.review != "none" or not nebula.filters,
    )


def setup_filter(nebula: Nebula) -> Filter | None:
    """`setup` as a filter to run once in a new worktree; None if there is none."""
    execution = nebula.execution
    return None if execution.setup is None else Filter("setup", execution.setup, execution.setup_timeout)


def abandoned_work(why: str, commits: Sequence[str], files: Sequence[str], total: int) -> str:
    """The coder's note on an abandoned attempt; empty if it left no commit."""
    if not commits:
        return ""
    listed = "\n".join(f"- {path}" for path in files)
    more = f"\n- and {total - len(files)} more files" if total > len(files) else ""
    kept = ", ".join(commit[:12] for commit in commits)
    return (
        f"An earlier attempt was abandoned: {why} Its changes are not in this directory, but its commits are kept: "
        f"{kept}. They touched:\n{listed}{more}\n\nInspect them with `git show` and reuse what is correct."
    )


def interrupted_work(commit: str, files: Sequence[str], total: int) -> str:
    """The coder's note on what its killed turn left uncommitted."""
    more = f" and {total - len(files)} more" if total > len(files) else ""
    return (
        "Your last turn was interrupted. Its changes are not in this directory, but the commit "
        f"{commit[:12]} has them: {', '.join(files)}{more}. Inspect it with `git show` and reuse what is correct."
    )
