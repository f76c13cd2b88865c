"""`faber phase …` and `faber step …`."""

import click

from faber.cli.arguments import key_option, named_values, place, require_person, run_argument
from faber.cli.holding import check_held, held
from faber.cli.invocation import Invocation
from faber.cli.recorded_answer import record
from faber.cli.step_evidence import base_commit, verify
from faber.foreign.resolve import open_named
from faber.model import commands
from faber.model.ids import check_name
from faber.model.progress import next_place, step_state


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
    record(obj, run, held(obj, lambda state, plan: commands.start_phase(state, plan, name, message)), key=key)


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
    record(obj, run, held(obj, lambda state, plan: commands.fail_phase(state, plan, name, error)), key=key)


@phase.command("skip")
@run_argument
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
    base = base_commit(obj, made, in_phase, name) if is_next else None
    decide = held(obj, lambda s, p: commands.start_step(s, p, in_phase, name, message, base), begins=True)
    record(obj, made, decide, key=key)


@step.command("complete")
@run_argument
@step_argument
@message_option
@click.option(
    "--artifact", "artifacts", multiple=True, metavar="NAME=VALUE", help="Something that the step made; repeatable."
)
@click.option("--warning", is_flag=True, help="The step is done, but with the warning in --message.")
@click.option(
    "--no-change-needed",
    "no_change",
    metavar="WHY",
    help="Why no commit was needed; only if a command proves the step.",
)
@key_option
@click.pass_obj
def step_complete(
    obj: Invocation,
    run: str,
    where: str,
    message: str | None,
    artifacts: tuple[str, ...],
    warning: bool,
    no_change: str | None,
    key: str | None,
) -> None:
    """Complete the step in progress, if its evidence is found."""
    in_phase, name = place(where)
    made = named_values(artifacts)
    obj.run = run
    loaded = open_named(obj.layout, run)
    check_held(obj, loaded.state)
    verdicts = [] if loaded.foreign else verify(obj, loaded, in_phase, name, made, no_change)
    found = [verdict.as_dict() for verdict in verdicts]
    examined = commands.Examined(found, step_state(loaded.state, in_phase, name)["attempts"]) if found else None
    record(
        obj,
        loaded,
        held(
            obj,
            lambda state, plan: commands.complete_step(
                state, plan, in_phase, name, message, made, warning=warning, examined=examined
            ),
        ),
        key=key,
    )


@step.command("fail")
@run_argument
@step_argument
@error_option
@key_option
@click.pass_obj
def step_fail(obj: Invocation, run: str, where: str, error: str, key: str | None) -> None:
    """Record that the step in progress failed; the run stops. `step start` retries it."""
    in_phase, name = place(where)
    record(obj, run, held(obj, lambda state, plan: commands.fail_step(state, plan, in_phase, name, error)), key=key)


@step.command("skip")
@run_argument
@step_argument
@message_option
@key_option
@click.pass_obj
def step_skip(obj: Invocation, run: str, where: str, message: str | None, key: str | None) -> None:
    """Skip a step (people only)."""
    require_person(obj, "faber step skip", run)
    in_phase, name = place(where)
    record(obj, run, lambda state, plan: commands.skip_step(state, plan, in_phase, name, message), key=key)
