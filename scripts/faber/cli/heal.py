"""`faber heal …`: why something failed, and the narrower phase that would go on from it, asked for by hand."""

import os
import threading
from typing import TYPE_CHECKING, Any

import click

from faber.cli.app import Invocation
from faber.cli.arguments import format_option
from faber.cli.output import print_json, say, write
from faber.errors import Exit, InvalidInput
from faber.model.documents import nebula_of
from faber.model.text import inert, redact, redact_json

if TYPE_CHECKING:
    from faber.nebula.healing.failure_loader import PhaseFailure

BUDGET = 2.0  # US dollars that an architect may spend

target_argument = click.argument("target", metavar="DIR|RUN")
place_argument = click.argument("place", metavar="[PHASE|STEP]", required=False)


@click.group()
def heal() -> None:
    """Diagnose a failure, and plan the phase that remedies it. Changes nothing.

    DIR PHASE is a failed phase of the nebula in that directory; RUN [STEP] a failed step of a workflow's run, by
    default the one that failed last.
    """


@heal.command("diagnose")
@target_argument
@place_argument
@format_option
@click.pass_obj
def diagnose_command(obj: Invocation, target: str, place: str | None, form: str) -> None:
    """Say why it failed, whether it can be healed, and what of its work is kept.

    `prompt` is what an architect would be asked.
    """
    _answer(_diagnosed(obj, target, place), form)


@heal.command("plan")
@target_argument
@place_argument
@click.option("--prompt-only", is_flag=True, help="Print the architect's prompt instead of asking it.")
@click.option("--model", metavar="M", help="Of the architect. Default: the nebula's, else the client's own.")
@click.option(
    "--max-budget-usd",
    type=click.FloatRange(min=0, min_open=True, max=1_000),
    default=BUDGET,
    show_default=True,
    help="What the architect may spend.",
)
@format_option
@click.pass_obj
def plan_command(
    obj: Invocation,
    target: str,
    place: str | None,
    prompt_only: bool,
    model: str | None,
    max_budget_usd: float,
    form: str,
) -> int:
    """Ask an architect for the phase that remedies it.

    `phase_file` is that phase, made fit to be inserted: nothing of it is wider than what failed. With a nebula,
    `faber nebula apply DIR --resume` does this by itself where healing is on.
    """
    failure = _failure(obj, target, place)
    answer = _document(failure)
    if prompt_only:
        write(answer["prompt"])
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
        new_id=_new_id(failure),
        record=RecoveryLog(obj.layout).record,
    )
    answer |= {
        "remediation": planned.spec.id,
        "title": planned.spec.title,
        "phase_file": planned.text,
        "architect_cost": planned.cost_usd,
        "corrections": planned.corrections,
        "warnings": [*answer["warnings"], *(notice.as_dict() for notice in planned.notices)],
    }
    _answer(answer, form)
    return Exit.OK


def _diagnosed(obj: Invocation, target: str, place: str | None) -> dict[str, Any]:
    return _document(_failure(obj, target, place))


def _failure(obj: Invocation, target: str, place: str | None) -> "PhaseFailure":
    from faber.foreign.resolve import open_named
    from faber.nebula.healing.failure_loader import load_phase_failure, load_step_failure
    from faber.nebula.plan.parse import MANIFEST

    if os.path.isfile(os.path.join(target, MANIFEST)):
        if place is None:
            raise InvalidInput(
                "Which phase?", recovery=f"`faber nebula status {target}` shows which failed; name one after DIR."
            )
        return load_phase_failure(obj.layout, target, place)
    run = open_named(obj.layout, target)
    nebula = nebula_of(run.state)
    if nebula is not None:
        directory = nebula["directory"] or ""
        raise InvalidInput(
            f"{run.run_id} is the run of a nebula.", recovery=f"Name its directory and the phase: {directory} PHASE."
        )
    from faber.cli.step_evidence import worktree

    return load_step_failure(run, worktree(obj), place)


def _new_id(failure: "PhaseFailure") -> str:
    from faber.nebula.healing.remediation import remediation_id

    taken = [spec.id for spec in failure.nebula.phases]
    return remediation_id(failure.original, failure.attempts + 1, taken)


def _document(failure: "PhaseFailure") -> dict[str, Any]:
    from faber.nebula.healing.architect_request import build_remediation_request
    from faber.nebula.healing.diagnosis import policy_from

    diagnosis, policy = failure.diagnosis, policy_from(failure.nebula.execution)
    reason = policy.why_not(diagnosis, failure.attempts)
    prompt = build_remediation_request(
        diagnosis, failure.nebula, failure.spec, failure.partial_work, new_id=_new_id(failure)
    )
    return {
        "phase": diagnosis.phase_id,
        "diagnosis": diagnosis.as_dict(),
        "attempts": failure.attempts,
        "heals": reason is None,
        "why_not": reason.value if reason else None,
        "prompt": prompt,
        "warnings": [notice.as_dict() for notice in failure.notices],
    }


def _answer(answer: dict[str, Any], form: str) -> None:
    shown = redact_json(answer)
    if form == "json":
        print_json(shown)
        return
    found = shown["diagnosis"]
    lines = [
        f"{shown['phase']}: {found['kind']}. {found['summary']}",
        f"Cycles {found['cycles_used']}, {found['budget_spent']:.2f} dollars, healed {shown['attempts']} times before",
    ]
    if found["kind"] == "unhealable":
        lines.append("It cannot be healed.")
    work = found["partial_work"]
    if work is not None:
        lines.append(f"Kept: {len(work['commit_shas'])} commits, {work['files_total']} files")
    lines += [f"  {finding}" for finding in found["findings"]]
    text = "\n".join(lines) + "\n"
    write(inert(redact(text + "\n" + shown.get("phase_file", shown["prompt"]))))
    for notice in shown["warnings"]:
        say(f"faber: {notice['message']}")
