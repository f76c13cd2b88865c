"""`faber heal …`: diagnosing a failure and planning its remediation phase, by hand."""

import os
import threading
from typing import TYPE_CHECKING

import click

from faber.console.arguments import Amount, format_option, run_named
from faber.console.invocation import Invocation
from faber.console.output import print_answer, say, write
from faber.errors import Exit, InvalidInput
from faber.model.documents import nebula_of
from faber.text.safe_text import redact, redact_json

if TYPE_CHECKING:
    from faber.nebula.healing.failure_loader import PhaseFailure
    from faber.nebula.healing.heal_report import HealReport

BUDGET = 2.0  # US dollars for the architect

target_argument = click.argument("target", metavar="[DIR|RUN]", required=False)
place_argument = click.argument("place", metavar="[PHASE|STEP]", required=False)


@click.group()
def heal() -> None:
    """Diagnose a failure and plan its remediation phase. Changes nothing.

    DIR PHASE names a failed phase of the nebula in DIR; RUN [STEP] a failed step of a workflow's run, by default
    the last one that failed.
    """


@heal.command("diagnose")
@target_argument
@place_argument
@format_option
@click.pass_obj
def diagnose_command(obj: Invocation, target: str | None, place: str | None, form: str) -> None:
    """Show why it failed, whether it can be healed, and which of its work is kept.

    `prompt` is the prompt for the architect.
    """
    from faber.nebula.healing.heal_report import heal_report

    _print(heal_report(_failure(obj, target, place)), form)


@heal.command("plan")
@target_argument
@place_argument
@click.option("--prompt-only", is_flag=True, help="Print the architect's prompt instead of asking it.")
@click.option("--model", metavar="M", help="The architect's model. Default: the nebula's, else the client's own.")
@click.option(
    "--max-budget-usd",
    type=Amount(min=0, min_open=True, max=1_000),
    default=BUDGET,
    show_default=True,
    help="The architect's budget.",
)
@format_option
@click.pass_obj
def plan_command(
    obj: Invocation,
    target: str | None,
    place: str | None,
    prompt_only: bool,
    model: str | None,
    max_budget_usd: float,
    form: str,
) -> int:
    """Ask an architect for the remediation phase.

    `phase_file` is the phase, ready to be inserted; it is never wider than the one that failed. In a nebula with
    healing on, `faber nebula apply DIR --resume` does this by itself.
    """
    from faber.nebula.healing.heal_report import heal_report, new_id

    failure = _failure(obj, target, place)
    report = heal_report(failure)
    if prompt_only:
        write(report["prompt"])
        return Exit.OK
    from faber.nebula.healing.architect import plan_remediation
    from faber.nebula.phase.agents import ARCHITECT, AgentFactory
    from faber.responses.recovery_log import RecoveryLog

    factory = AgentFactory(failure.nebula, "heal", model=model)
    client = factory.client(ARCHITECT, failure.spec, obj.layout.root, max_budget_usd, threading.Event())
    planned = plan_remediation(
        client,
        failure.diagnosis,
        failure.nebula,
        failure.spec,
        failure.partial_work,
        new_id=new_id(failure),
        record=RecoveryLog(obj.layout).record,
    )
    report |= {
        "remediation": planned.spec.id,
        "title": planned.spec.title,
        "phase_file": planned.text,
        "architect_cost": planned.cost_usd,
        "corrections": planned.corrections,
        "warnings": [*report["warnings"], *(notice.as_dict() for notice in planned.notices)],
    }
    _print(report, form)
    return Exit.OK


def _failure(obj: Invocation, target: str | None, place: str | None) -> "PhaseFailure":
    from faber.foreign.resolve import open_named
    from faber.nebula.healing.failure_loader import load_phase_failure, load_step_failure
    from faber.nebula.plan.parse import MANIFEST

    if target is not None and os.path.isfile(os.path.join(target, MANIFEST)):
        if place is None:
            raise InvalidInput(
                "No phase is named.",
                recovery=f"Name a failed phase after DIR; `faber nebula status {target}` lists them.",
            )
        return load_phase_failure(obj.layout, target, place)
    run = open_named(obj.layout, run_named(obj, target))
    nebula = nebula_of(run.state)
    if nebula is not None:
        directory = nebula["directory"] or ""
        raise InvalidInput(
            f"{run.run_id} is a nebula's run.", recovery=f"Name the directory and the phase instead: {directory} PHASE."
        )
    from faber.steps.step_evidence import worktree

    return load_step_failure(run, worktree(obj.layout), place)


def _print(report: "HealReport", form: str) -> None:
    from faber.nebula.healing.heal_report import heal_text

    shown = redact_json(report)
    print_answer(shown, form, lambda answer: redact(heal_text(answer)))
    if form == "text":
        for notice in shown["warnings"]:
            say(f"faber: {notice['message']}")
