"""`faber nebula …`: directories of phases that agents work through."""

import os
from typing import Any

import click

from faber.cli.app import Invocation
from faber.cli.arguments import format_option
from faber.cli.output import print_json, say, write
from faber.errors import Exit, Notice
from faber.model.text import inert, redact, redact_json

directory_argument = click.argument("directory", metavar="DIR")


@click.group()
def nebula() -> None:
    """Check, plan and follow nebulas: directories of phases that agents work through.

    DIR holds a nebula.toml and a Markdown file for each phase.
    """


@nebula.command("validate")
@directory_argument
@format_option
@click.pass_obj
def validate_command(obj: Invocation, directory: str, form: str) -> int:
    """Check everything about a nebula at once.

    `problems` holds category, severity, file, line, message and fix of each. Exit status 1 if one is an ERROR;
    warnings and keys that faber does not know keep nothing from running.
    """
    from faber.nebula.plan.nebula_files import load_nebula
    from faber.nebula.plan.problems import is_valid

    parsed = load_nebula(directory)
    problems = _problems(obj, parsed)
    valid = is_valid(problems)
    if form == "text":
        errors = sum(problem.severity == "ERROR" for problem in problems)
        marks = {"ERROR": "✗", "WARNING": "!", "INFO": "·"}
        lines = [f"{marks[problem.severity.value]} {redact(problem.described())}" for problem in problems]
        phases = len(parsed.nebula.phases)
        word = "valid" if valid else f"not valid: {errors} error{'s' if errors > 1 else ''}"
        write("\n".join([*lines, f"{inert(parsed.nebula.name)}: {phases} phases, {word}"]) + "\n")
    else:
        answer = {
            "valid": valid,
            "name": parsed.nebula.name,
            "phases": len(parsed.nebula.phases),
            "problems": [problem.as_dict() for problem in problems],
        }
        print_json(redact_json(answer))
    return Exit.OK if valid else Exit.FAILED


def _problems(obj: Invocation, parsed: Any) -> list[Any]:
    import shutil

    from faber.nebula.plan.validate import Programs, validate

    base = os.path.join(obj.layout.root, parsed.nebula.context.working_dir)

    def is_program(name: str) -> bool:
        path = os.path.join(base, name)
        return os.path.isfile(path) and os.access(path, os.X_OK)

    return validate(parsed, Programs(lambda name: shutil.which(name) is not None, is_program))


@nebula.command("plan")
@directory_argument
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "text", "dot", "mermaid"]),
    default="json",
    show_default=True,
    help="Form of the answer.",
)
@click.option("--retry-failed", is_flag=True, help="As if failed and skipped phases were to be tried again.")
@click.option("--force", is_flag=True, help="As if checkpoints held although others have committed to the branch.")
@click.pass_obj
def plan_command(obj: Invocation, directory: str, form: str, retry_failed: bool, force: bool) -> None:
    """Show the order of a nebula's phases, and what a resume would do with each and why. Changes nothing."""
    from faber.nebula.plan import draw

    plan, notices = _plan(obj, directory, retry_failed, force)
    if form == "json":
        print_json(redact_json({**plan, "warnings": [notice.as_dict() for notice in notices]}))
        return
    drawn = {"text": draw.text, "dot": draw.dot, "mermaid": draw.mermaid}[form](redact_json(plan))
    write(drawn)
    for notice in notices:
        say(f"faber: {notice.source}: {notice.message}")


@nebula.command("status")
@directory_argument
@format_option
@click.pass_obj
def status_command(obj: Invocation, directory: str, form: str) -> None:
    """Show where a nebula's phases stand: status, cycle, cost, and what is wrong.

    Read from nebula.state.toml, whoever wrote it; a nebula that was never begun is pending.
    """
    plan, notices = _plan(obj, directory, False, False)
    rows = [
        {key: phase[key] for key in ("id", "title", "status", "record", "resume", "checkpoint")}
        for phase in plan["phases"]
    ]
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["status"]] = counts.get(row["status"], 0) + 1
    healing = _healing(obj, plan["run"]["run_id"] if plan["run"] else "")
    answer = {"name": plan["name"], "run": plan["run"], "counts": counts, "phases": rows, "healing": healing}
    if form == "json":
        print_json(redact_json({**answer, "warnings": [notice.as_dict() for notice in notices]}))
        return
    from faber.nebula.plan.draw import status_text

    write(status_text(redact_json(answer)))


@nebula.command("apply")
@directory_argument
@click.option("--resume", is_flag=True, help="Go on with an unfinished run.")
@click.option("--fresh", is_flag=True, help="Begin again; what was done stays on its branches.")
@click.option("--retry-failed", is_flag=True, help="Do failed and skipped phases again.")
@click.option("--force", is_flag=True, help="Go on from checkpoints though others have committed to the branch.")
@click.option("--max-workers", type=click.IntRange(1, 1000), help="Phases at once. Default: as the nebula says.")
@click.option("--max-budget-usd", type=click.FloatRange(0, min_open=True), help="For the whole run.")
@click.option("--gate", type=click.Choice(["trust", "review", "approve", "watch"]), help="Instead of the nebula's.")
@click.option("--heal", is_flag=True, help="With --resume: heal what failed in an earlier run.")
@click.option("--scheduler", metavar="ADDRESS", help="Have a Dask cluster do the work: tcp://HOST:PORT or tls://….")
@click.option(
    "--remote",
    metavar="NAME",
    default="origin",
    show_default=True,
    help="With --scheduler: the remote, or URL, that this machine and all workers fetch from and push to.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, as `plan` does.")
@format_option
@click.pass_obj
def apply_command(
    obj: Invocation,
    directory: str,
    resume: bool,
    fresh: bool,
    retry_failed: bool,
    force: bool,
    max_workers: int | None,
    max_budget_usd: float | None,
    gate: str | None,
    heal: bool,
    scheduler: str | None,
    remote: str,
    dry_run: bool,
    form: str,
) -> int:
    """Work through a nebula with headless agents, several phases at a time, each until its reviewer approves it.

    Exit status 0 if every phase is done, 5 if some failed, 3 if a person is asked, 130 if it was stopped; each time
    `next_steps` says how to go on.
    """
    if dry_run:
        plan, notices = _plan(obj, directory, retry_failed, force)
        print_json(redact_json({**plan, "warnings": [notice.as_dict() for notice in notices]}))
        return Exit.OK
    from faber.cli.nebula_apply import apply
    from faber.nebula.run.apply import Wanted

    wanted = Wanted(resume, fresh, retry_failed, force, max_workers, max_budget_usd, gate, heal)
    return apply(obj, directory, wanted, problems=_problems, form=form, scheduler=scheduler, remote=remote)


@nebula.command("land")
@directory_argument
@click.option("--branch", metavar="NAME", help="Where to. Default: the branch that the run began on.")
@click.pass_obj
def land_command(obj: Invocation, directory: str, branch: str | None) -> int:
    """Bring what the run integrated to the branch it began on, or say why not (exit status 4)."""
    from faber.cli.nebula_apply import land

    return land(obj, directory, branch, problems=_problems)


def _healing(obj: Invocation, run_id: str) -> str:
    """What healing did in the run, if it is in this store."""
    if not run_id or not os.path.isdir(obj.layout.run_dir(run_id)):
        return ""
    from faber.nebula.healing.healing_history import read_history

    return read_history(obj.layout, run_id).summary()


def _plan(obj: Invocation, directory: str, retry_failed: bool, force: bool) -> tuple[dict[str, Any], list[Notice]]:
    """The plan of a valid nebula, from its files, its state, its checkpoints and its branches."""
    from faber.nebula.plan.nebula_files import load_nebula
    from faber.nebula.plan.problems import require_valid
    from faber.nebula.run.plan_report import load_plan
    from faber.nebula.run.resumption import ResumeOptions

    parsed = load_nebula(directory)
    require_valid(_problems(obj, parsed), directory)
    return load_plan(obj.layout.root, parsed.nebula, directory, ResumeOptions(force, retry_failed))
