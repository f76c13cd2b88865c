"""A phase of a nebula as its loop is given it. Pure."""

from faber.nebula.phase.filters import Check
from faber.nebula.phase.task import PhaseTask
from faber.nebula.plan.specs import Command, Filter, Nebula, PhaseSpec

SETUP = "setup"


def phase_task(
    nebula: Nebula, spec: PhaseSpec, *, top: str = "", project_context: str = "", partial_work: str = ""
) -> PhaseTask:
    """What `spec`'s agents are told in the tree at `top`, with the limits in force."""
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
        filters=[check_of(each) for each in nebula.filters],
        directory=nebula.context.working_dir,
        top=top,
    )


def check_of(one: Filter) -> Check:
    """A `[[filter]]` as the loop runs it."""
    return Check(one.name, _command(one.command), one.timeout)


def setup_check(nebula: Nebula) -> Check | None:
    """`setup` as a check to run once in a new worktree; None if there is none."""
    execution = nebula.execution
    return None if execution.setup is None else Check(SETUP, _command(execution.setup), execution.setup_timeout)


def _command(command: Command) -> str | tuple[str, ...]:
    return command


def abandoned_work(why: str, commits: list[str], files: list[str], total: int) -> str:
    """What a phase that starts afresh is told of an attempt that was given up; empty where it left no commit."""
    if not commits:
        return ""
    listed = "\n".join(f"- {path}" for path in files)
    more = f"\n- and {total - len(files)} more files" if total > len(files) else ""
    kept = ", ".join(commit[:12] for commit in commits)
    return (
        f"An earlier attempt was given up: {why} It is not in this directory, but its commits are kept: {kept}. "
        f"They touched:\n{listed}{more}\n\nLook at them with `git show` and take over what is right."
    )
