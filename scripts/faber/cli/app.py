"""The `faber` command: finds subcommands without importing the others, and prints errors as JSON.

Imports are most of what a short command costs. Hence the modules of this room import inside functions what only one
of their commands needs; everything else is imported at the top.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from faber import __version__
from faber.console.arguments import generic_format
from faber.console.invocation import Invocation
from faber.console.output import address, print_error, say, silence
from faber.errors import Exit, FaberError, InternalError, UsageError

# Every command, where it is defined, and its line in `--help`, which imports none of them.
COMMANDS = {
    "protocol": ("faber.cli.protocol_command:protocol", "Print a protocol: what an agent does step by step."),
    "context": ("faber.cli.context:context", "Show everything needed to resume a run."),
    "why": ("faber.cli.why_command:why", "Show what the next session would be given, and why."),
    "status": ("faber.cli.status_command:status", "Show open runs, or one run."),
    "watch": ("faber.cli.watch_command:watch", "Show a run, or all, live."),
    "report": ("faber.cli.report_command:report", "Write a report of a run as one HTML file."),
    "run": ("faber.cli.run:run", "Create, list and end runs."),
    "next": ("faber.cli.next_command:next_command", "Start what comes next in a run, and show it."),
    "phase": ("faber.cli.phase_step:phase", "Start, complete, fail or skip a phase."),
    "step": ("faber.cli.phase_step:step", "Start, complete, fail or skip a step."),
    "event": ("faber.cli.event:event", "Record and list events."),
    "feedback": ("faber.cli.feedback:feedback", "Ask people, and answer them."),
    "session": ("faber.cli.session:session", "Save and list session summaries."),
    "pull-request": (
        "faber.cli.pull_request_command:pull_request",
        "Open a run's pull request on GitHub, or update it.",
    ),
    "sync": ("faber.cli.sync:sync", "Exchange runs with other machines through a git remote."),
    "workflow": ("faber.cli.workflow:workflow", "List, show and check workflow definitions."),
    "nebula": ("faber.nebula.commands.nebula_group:nebula", "Check, plan and run nebulas (directories of phases)."),
    "heal": ("faber.nebula.commands.heal_command:heal", "Diagnose a failure and plan its remediation phase."),
    "setup": ("faber.cli.setup_command:setup", "Check faber's environment, and install it in a coding agent."),
    "notify": ("faber.cli.notify:notify", "Have a command of yours told what waits for you."),
    "config": ("faber.cli.config_command:config", "Show the project's settings."),
    "doctor": ("faber.cli.doctor_command:doctor", "Report problems, without changing anything."),
    "repair": ("faber.cli.doctor_command:repair", "Rebuild files from the event log."),
    "response": ("faber.cli.response:response", "Check and complete truncated responses."),
    "demo": ("faber.demo.killed_run:demo", "Watch a killed run being resumed in a sample project."),
}


# These print text for people, and no answer.
TEXT_ONLY = frozenset({"demo", "watch"})


def _give_format(command: click.Command) -> None:
    """Give `--format json|text` to the command, or to those in the group, unless it has its own."""
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            _give_format(inner)
    elif command.name not in TEXT_ONLY and all("--format" not in option.opts for option in command.params):
        command.params.append(generic_format())


class LazyGroup(click.Group):
    """A group that imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now; None if it does not exist."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        _give_format(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """What click does; an unknown command is compared with those that were not imported, too."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            raise click.NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, from `COMMANDS` alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="faber")
@click.option("--root", metavar="DIR", help="The project's root. Default: the one around the current directory.")
@click.option(
    "--exit-zero",
    is_flag=True,
    help="Exit with 0 instead of 1, 3, 4 or 5, for callers that drop the output of a failed command.",
)
@click.pass_context
def faber(ctx: click.Context, root: str | None, exit_zero: bool) -> None:
    """Long agent workflows that survive closed sessions, crashes and token limits.

    RUN is a run id, a unique part of one, or `latest`, the default: the most recently active
    run, or inside a session the run of that session. A command prints one JSON object on
    stdout, or text with --format text (the default of `status`, `why`, `protocol`, `setup`,
    `nebula log` and `nebula attach`).
    Messages for people go to stderr; on a terminal an error is only there.

    Exit status: 0 done; 1 failed; 2 wrong usage; 3 a person must decide; 4 refused;
    5 finished with failures; 130 interrupted.
    """
    ctx.obj.given_root = root


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    status = _run(given)
    hidden = (Exit.FAILED, Exit.PERSON_NEEDED, Exit.REFUSED, Exit.UNFINISHED)
    return int(Exit.OK if status in hidden and _exit_zero(given) else status)


def _exit_zero(arguments: list[str]) -> bool:
    """True if the option is among the global ones: a command's own arguments may contain it too."""
    left = iter(arguments)
    for argument in left:
        if argument == "--exit-zero":
            return True
        if argument == "--root":
            next(left, None)
        elif not argument.startswith("-"):
            return False
    return False


def _run(arguments: list[str]) -> int:
    invocation = Invocation()
    address(invocation.program)
    try:
        result: Any = faber.main(arguments, prog_name="faber", standalone_mode=False, obj=invocation)
        if sys.stdout is not None:
            sys.stdout.flush()
    except FaberError as error:
        if invocation.run is not None and not invocation.is_person:
            from faber.console.refusal_audit import keep_refusal

            keep_refusal(invocation.layout, invocation.run, error, arguments, invocation.writer)
        print_error(_explained(error, invocation), invocation.run)
        return error.exit_code
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:  # a group without a command: click's own answer to it
        say(error.format_message())
        return Exit.USAGE
    except click.UsageError as error:
        print_error(UsageError(error.format_message(), recovery=_help_line(error)))
        return Exit.USAGE
    except (KeyboardInterrupt, click.Abort):
        return Exit.INTERRUPTED
    except BrokenPipeError:
        silence()  # nobody reads stdout any more
        return Exit.FAILED
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        told = FaberError(
            f"The operating system reported an error: {error.strerror or error}{where}.",
            recovery="Fix the cause and run the command again; repeating is harmless.",
            error=error.strerror,
        )
        print_error(_explained(told, invocation))
        silence()
        return Exit.FAILED
    except Exception as error:  # noqa: BLE001 - a bug in faber is reported as JSON, too
        print_error(_internal(error))
        return Exit.FAILED
    return result if isinstance(result, int) else Exit.OK


def _explained(error: FaberError, invocation: Invocation) -> FaberError:
    """What the error means where an agent's sandbox caused it."""
    if not invocation.is_agent:
        return error
    from faber.agents.sandbox import explained

    try:
        return explained(error, os.environ, invocation.layout.root)
    except (FaberError, OSError):
        return error  # there is no project


def _internal(error: Exception) -> FaberError:
    import traceback

    if os.environ.get("FABER_DEBUG"):
        traceback.print_exc()
    last = traceback.extract_tb(error.__traceback__)[-1]
    return InternalError(f"{type(error).__name__}: {error} ({os.path.basename(last.filename)}:{last.lineno}).")


def _help_line(error: click.UsageError) -> str:
    path = error.ctx.command_path if error.ctx else "faber"
    return f"Run `{path} --help`."
