"""`faber phase …` and `faber step …`."""

from functools import partial
from typing import Any, NamedTuple

import click

from faber.console.arguments import (
    key_option,
    named_values,
    next_option,
    only_run_argument,
    place,
    require_person,
    run_argument,
)
from faber.console.invocation import Invocation
from faber.console.recorded_answer import record
from faber.foreign.resolve import open_named
from faber.model import commands
from faber.model.acceptance import Decision, Repeated
from faber.model.documents import Plan, State
from faber.model.ids import check_name
from faber.model.progress import next_place, step_state
from faber.steps.holding import after_failure, check_held, held
from faber.steps.step_decisions import check_decisions, new_decisions
from faber.steps.step_evidence import base_commit, verify


@click.group()
def phase() -> None:
    """Start, complete, fail or skip a phase."""


@click.group()
def step() -> None:
    """Start, complete, fail or skip a step."""


phase_argument = click.argument("name", metavar="PHASE")
step_argument = click.argument("where", metavar="PHASE:STEP")
message_option = click.option("--message", metavar="M", help="A remark (2,000 characters).")
error_option = click.option("--error", metavar="M", required=True, help="What went wrong (2,000 characters).")


@phase.command("start")
@run_argument
@phase_argument
@message_option
@key_option
@click.pass_obj
def phase_start(obj: Invocation, run: str, name: str, message: str | None, key: str | None) -> None:
    """Start PHASE, which must be that of the next unfinished step."""
    check_name(name, "phase")
    starts = partial(commands.start_phase, phase=name, message=message)
    record(obj, run, after_failure(starts, agent=not obj.is_person), key=key, work=True)


@phase.command("complete")
@run_argument
@phase_argument
@message_option
@key_option
@click.pass_obj
def phase_complete(obj: Invocation, run: str, name: str, message: str | None, key: str | None) -> None:
    """Complete a phase whose steps are all complete. The last step does so by itself."""
    check_name(name, "phase")
    record(obj, run, lambda state, plan: commands.complete_phase(state, plan, name, message), key=key)


@phase.command("fail")
@run_argument
@phase_argument
@error_option
@key_option
@click.pass_obj
def phase_fail(obj: Invocation, run: str, name: str, error: str, key: str | None) -> None:
    """Record that the phase failed; the run stops."""
    check_name(name, "phase")
    record(obj, run, lambda state, plan: commands.fail_phase(state, plan, name, error), key=key, work=True)


@phase.command("skip")
@only_run_argument
@phase_argument
@message_option
@key_option
@click.pass_obj
def phase_skip(obj: Invocation, run: str, name: str, message: str | None, key: str | None) -> None:
    """Skip the unfinished steps of a phase (people only)."""
    require_person(obj, "faber phase skip", run)
    check_name(name, "phase")
    record(obj, run, lambda state, plan: commands.skip_phase(state, plan, name, message), key=key)


@step.command("start")
@run_argument
@step_argument
@message_option
@key_option
@click.pass_obj
def step_start(obj: Invocation, run: str, where: str, message: str | None, key: str | None) -> None:
    """Start the step that `faber next` names."""
    in_phase, name = place(where)
    obj.run = run
    made = open_named(obj.layout, run)
    is_next = not made.foreign and next_place(made.state, made.plan) == (in_phase, name)
    base = base_commit(made, in_phase, name) if is_next else None
    starts = partial(commands.start_step, phase=in_phase, step=name, message=message, base_commit=base)
    begins = after_failure(held(obj.layout, obj.session_id, starts, begins=True), agent=not obj.is_person)
    record(obj, made, begins, key=key)


class CompletionOptions(NamedTuple):
    """The arguments of `faber step complete`, as its options declare them."""

    run: str
    where: str
    message: str | None
    artifacts: tuple[str, ...]
    decisions: tuple[str, ...]
    warning: bool
    no_change: str | None
    following: bool
    key: str | None


@step.command("complete")
@run_argument
@step_argument
@message_option
@click.option(
    "--artifact", "artifacts", multiple=True, metavar="NAME=VALUE", help="Something that the step made; repeatable."
)
@click.option(
    "--decision",
    "decisions",
    multiple=True,
    metavar="TEXT",
    help="A decision that was made, and why (500 characters); repeatable, at most 10.",
)
@click.option("--warning", is_flag=True, help="The step is done, but with the warning in --message.")
@click.option(
    "--no-change-needed",
    "no_change",
    metavar="WHY",
    help="Why no commit was needed: later phases and gates are told.",
)
@next_option
@key_option
@click.pass_obj
def step_complete(obj: Invocation, /, **given: Any) -> None:
    """Complete the step in progress, if its evidence is found."""
    options = CompletionOptions(**given)
    in_phase, name = place(options.where)
    made = named_values(options.artifacts)
    decided = check_decisions(options.decisions)
    obj.run = options.run
    loaded = open_named(obj.layout, options.run)
    check_held(obj.layout, obj.session_id, loaded.state)
    checks, said = ([], None) if loaded.foreign else verify(loaded, obj.writer, in_phase, name, made, options.no_change)
    found, message = [check.as_dict() for check in checks], options.message
    message, warning = (f"{said} {message or ''}".strip(), True) if said else (message, options.warning)
    examined = commands.Examined(found, step_state(loaded.state, in_phase, name)["attempts"]) if found else None

    def decide(state: State, plan: Plan) -> Decision:
        done = commands.complete_step(state, plan, in_phase, name, message, made, warning=warning, examined=examined)
        return done if isinstance(done, Repeated) else [*new_decisions(state, in_phase, name, decided), *done]

    record(obj, loaded, decide, key=options.key, following=options.following, work=True)


@step.command("fail")
@run_argument
@step_argument
@error_option
@next_option
@key_option
@click.pass_obj
def step_fail(obj: Invocation, run: str, where: str, error: str, *, following: bool, key: str | None) -> None:
    """Record that the step in progress failed; the run stops. `faber next` retries it as often as its plan says."""
    in_phase, name = place(where)
    record(
        obj,
        run,
        lambda state, plan: commands.fail_step(state, plan, in_phase, name, error),
        key=key,
        following=following,
        work=True,
    )


@step.command("skip")
@only_run_argument
@step_argument
@message_option
@key_option
@click.pass_obj
def step_skip(obj: Invocation, run: str, where: str, message: str | None, key: str | None) -> None:
    """Skip a step (people only)."""
    require_person(obj, "faber step skip", run)
    in_phase, name = place(where)
    record(obj, run, lambda state, plan: commands.skip_step(state, plan, in_phase, name, message), key=key)
