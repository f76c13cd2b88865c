"""`faber nebula …`: checking, planning and running directories of phases."""

import os
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from faber.agents.client_kinds import CLAUDE, missing
from faber.console.arguments import Amount, format_choice, format_option
from faber.console.invocation import Invocation
from faber.console.output import columns, print_answer, print_json, say, write
from faber.errors import Exit, Notice
from faber.nebula.commands.log_command import attach_command, log_command
from faber.nebula.plan import draw
from faber.nebula.plan.agent_choice import AgentChoice, InClient, UnknownClient, choice_of_words, in_client
from faber.nebula.plan.nebula_files import load_nebula
from faber.nebula.plan.problems import is_valid, ordered, require_valid
from faber.nebula.plan.requirements import requirement_problems
from faber.nebula.plan.validate import Programs, validate
from faber.nebula.run.resumption import ResumeOptions
from faber.nebula.view.plan_report import load_plan
from faber.text.safe_text import redact, redact_json

if TYPE_CHECKING:
    from faber.nebula.plan.parse import Parsed
    from faber.nebula.plan.problems import NebulaProblem

T = TypeVar("T")
directory_argument = click.argument("directory", metavar="DIR")


@click.group()
def nebula() -> None:
    """Check, plan and run nebulas: directories of phases that agents work through.

    DIR holds a nebula.toml and a Markdown file for each phase.
    """


@nebula.command("validate")
@directory_argument
@format_option
@click.pass_obj
def validate_command(obj: Invocation, directory: str, form: str) -> int:
    """Check a nebula and report all problems at once.

    `problems` lists category, severity, file, line, message and fix. Exit status 1 if one is an ERROR; a nebula
    with warnings or unknown keys can still run.
    """
    parsed = load_nebula(directory)
    problems = ordered([*_problems(obj, parsed), *requirement_problems(parsed, obj.layout.root)])
    valid = is_valid(problems)
    answer = {
        "valid": valid,
        "name": parsed.nebula.name,
        "phases": len(parsed.nebula.phases),
        "problems": [problem.as_dict() for problem in problems],
    }
    print_answer(redact_json(answer), form, lambda shown: _validation_text(shown["name"], shown["phases"], problems))
    return Exit.OK if valid else Exit.FAILED


def _validation_text(name: str, phases: int, problems: "list[NebulaProblem]") -> str:
    errors = sum(problem.severity == "ERROR" for problem in problems)
    marks = {"ERROR": "✗", "WARNING": "!", "INFO": "·"}
    lines = [f"{marks[problem.severity.value]} {redact(problem.described())}" for problem in problems]
    word = f"not valid: {errors} error{'s' if errors > 1 else ''}" if errors else "valid"
    return "\n".join([*lines, f"{name}: {phases} phases, {word}"]) + "\n"


def _problems(obj: Invocation, parsed: "Parsed") -> "list[NebulaProblem]":
    base = os.path.join(obj.layout.root, parsed.nebula.context.working_dir)

    def is_program(name: str) -> bool:
        path = os.path.join(base, name)
        return os.path.isfile(path) and os.access(path, os.X_OK)

    def lacks(client: str) -> bool:
        # Whoever keeps to Claude Code hears of it from `apply`: the machine that validates may be another one.
        return client != CLAUDE and bool(missing([client], os.environ))

    return validate(parsed, Programs(lambda name: shutil.which(name) is not None, is_program, lacks))


@nebula.command("plan")
@directory_argument
@format_choice("json", "text", "dot", "mermaid")
@click.option("--retry-failed", is_flag=True, help="Plan to retry failed and skipped phases.")
@click.option("--force", is_flag=True, help="Plan to use checkpoints although others have committed to the branch.")
@click.pass_obj
def plan_command(obj: Invocation, directory: str, form: str, retry_failed: bool, force: bool) -> None:
    """Show the order of a nebula's phases, and what a resume would do with each. Changes nothing."""
    plan, notices = _plan(obj, directory, ResumeOptions(force, retry_failed))
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
    """Show where a nebula's run and each of its phases are.

    What works on it, money and tokens, what may start next and how long the rest may take; of a phase its stage,
    cycle, time and cost, why it failed with the last lines of a failing filter, and what it waits for. Where the run
    is not in this store, nebula.state.toml is the source, whoever wrote it. It is shown even where the nebula's files
    have errors, which are then in `problems`.
    """
    from faber.nebula.view.status import load_status
    from faber.nebula.view.status_lines import status_text
    from faber.store.clock import utc_now

    parsed = load_nebula(directory)
    status, notices = load_status(obj.layout, parsed, directory, _problems(obj, parsed), utc_now())
    shown = redact_json({**status, "warnings": [notice.as_dict() for notice in notices]})
    print_answer(shown, form, lambda answer: status_text(answer, columns()))


def _hours(context: click.Context, parameter: click.Parameter, given: str) -> float:
    return 0.0 if given == "none" else Amount(0, 24 * 14)(given, parameter, context)


def _agents(context: click.Context, parameter: click.Parameter, given: str | None) -> AgentChoice | None:
    return _chosen(given, choice_of_words)


def _fallback(context: click.Context, parameter: click.Parameter, given: str | None) -> InClient | None:
    return _chosen(given, in_client)


def _chosen(given: str | None, read: Callable[[str], T]) -> T | None:
    try:
        return None if given is None else read(given)
    except UnknownClient as error:
        raise click.BadParameter(f"it is {error}.") from None


@nebula.command("apply")
@directory_argument
@click.option("--resume", is_flag=True, help="Continue an unfinished run.")
@click.option("--fresh", is_flag=True, help="Start again; earlier work stays on its branches.")
@click.option("--retry-failed", is_flag=True, help="Retry failed and skipped phases.")
@click.option("--force", is_flag=True, help="Use checkpoints although others have committed to the branch.")
@click.option("--max-workers", type=click.IntRange(1, 1000), help="Phases at the same time. Default: the nebula's.")
@click.option("--max-budget-usd", type=Amount(0, min_open=True), help="Budget of the whole run. Default: the nebula's.")
@click.option(
    "--gate",
    type=click.Choice(["trust", "review", "approve", "watch"]),
    help="When to ask a person. Default: the nebula's.",
)
@click.option(
    "--wait",
    "wait_hours",
    metavar="none|HOURS",
    default="12",
    show_default=True,
    callback=_hours,
    help="How long to wait when the account's limit is reached or the service is not available.",
)
@click.option(
    "--agents",
    metavar="CLIENT|coder=CLIENT,reviewer=CLIENT",
    callback=_agents,
    help="The agents' clients: claude, codex or opencode, each perhaps with :MODEL. Default: the nebula's.",
)
@click.option(
    "--fallback",
    metavar="CLIENT",
    callback=_fallback,
    help="The client that continues while another one is at its limit. Default: the nebula's.",
)
@click.option("--heal", is_flag=True, help="With --resume: heal what failed in an earlier run.")
@click.option(
    "--scheduler", metavar="ADDRESS", help="Run the phases on a Dask cluster: tcp://HOST:PORT or tls://HOST:PORT."
)
@click.option(
    "--remote",
    metavar="NAME",
    default="origin",
    show_default=True,
    help="With --scheduler: the git remote or URL that this machine and all workers share.",
)
@click.option("--dry-run", is_flag=True, help="Only show the plan, as `plan` does.")
@format_option
@click.pass_obj
def apply_command(
    obj: Invocation, /, directory: str, scheduler: str | None, remote: str, dry_run: bool, form: str, **given: Any
) -> int:
    """Run a nebula with headless agents, several phases at a time, each until its reviewer approves it.

    Exit status 0 if every phase is done, 5 if some failed, 3 if a person is needed, 130 if it was stopped.
    `next_steps` says how to continue.
    """
    from faber.nebula.commands.apply_command import apply
    from faber.nebula.run.apply_options import Wanted

    wanted = Wanted(**given)
    if dry_run:
        plan, notices = _plan(obj, directory, ResumeOptions(wanted.force, wanted.retry_failed, wanted.fresh))
        print_json(redact_json({**plan, "warnings": [notice.as_dict() for notice in notices]}))
        return Exit.OK
    return apply(obj, directory, wanted, problems=_problems, form=form, scheduler=scheduler, remote=remote)


nebula.add_command(log_command)
nebula.add_command(attach_command)


@nebula.command("land")
@directory_argument
@click.option("--branch", metavar="NAME", help="The target. Default: the branch that the run started on.")
@click.pass_obj
def land_command(obj: Invocation, directory: str, branch: str | None) -> int:
    """Merge the run's result into the branch it started on. Exit status 4 if that is refused."""
    from faber.nebula.commands.apply_command import land

    return land(obj, directory, branch, problems=_problems)


@nebula.command("clean")
@click.argument("directory", metavar="[DIR]", required=False)
@click.option("--remote", metavar="NAME", help="Also clean this git remote or URL, which a cluster's workers shared.")
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@format_option
@click.pass_obj
def clean_command(obj: Invocation, directory: str | None, remote: str | None, dry_run: bool, form: str) -> int:
    """Remove worktrees and branches of merged phases that runs left. Default: of all nebulas of the project.

    What has uncommitted work or commits that were not merged stays, and so does what a phase in progress or another
    process uses; `kept` says why. The integration branch goes when its run is completed and it was landed.
    """
    from faber.nebula.commands.clean_command import clean

    return clean(obj, directory, remote=remote, dry_run=dry_run, form=form)


def _plan(obj: Invocation, directory: str, options: ResumeOptions) -> tuple[dict[str, Any], list[Notice]]:
    """The plan of a valid nebula, from its files, state, checkpoints and branches."""
    parsed = load_nebula(directory)
    require_valid(_problems(obj, parsed), directory)
    return load_plan(obj.layout, parsed.nebula, directory, options)
