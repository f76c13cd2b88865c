"""`faber setup`: the environment checked, and the bundle in the clients of whoever uses it."""

import os
import re
import shlex
import sys
from compileall import compile_dir
from typing import Any

import click

from faber.agents.installing import NAMES, RECIPES, SetupFailed, Standing, change, commands, standing, standings
from faber.console.arguments import format_choice
from faber.console.invocation import Invocation
from faber.console.output import print_answer
from faber.store.bundle import plugin_root

_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)(?: *; *python_full_version < '3\.(\d+)')?", re.MULTILINE)


@click.command()
@click.option("--client", type=click.Choice(NAMES), help="Show what installs faber in this coding agent.")
@click.option("--yes", is_flag=True, help="Run what --client shows.")
@click.option("--undo", is_flag=True, help="With --client: what removes it again.")
@format_choice("json", "text", default="text")
@click.pass_obj
def setup(obj: Invocation, client: str | None, yes: bool, undo: bool, form: str) -> None:
    """Check faber's Python environment; say which coding agents have faber, and what installs it there.

    bin/faber builds the environment before its first command: call this once where there is a network, for an agent
    whose sandbox has none. Without --yes nothing is changed. What is installed from another folder is left alone.
    """
    if client is None and (yes or undo):
        raise click.UsageError("--yes and --undo want --client.")
    _check_environment()
    compile_dir(os.path.join(plugin_root(), "scripts", "faber"), quiet=2)  # an agent's sandbox may not write it there
    environ = dict(os.environ)
    answer: dict[str, Any] = {"environment": sys.prefix}
    if client is None:
        answer["clients"] = [each._asdict() for each in standings(environ)]
    else:
        shown = [shlex.join(each) for each in commands(client, environ, undo=undo)]
        done = [shlex.join(each) for each in change(client, environ, undo=undo)] if yes else None
        found = standing(client, environ)
        answer |= {**found._asdict(), "commands": shown, "ran": done}
        answer["afterwards"] = [] if undo else list(RECIPES[client].afterwards)
    print_answer(answer, form, lambda made: _text(made) if client is None else _client_text(made, undo))


def _check_environment() -> None:
    """Raises SetupFailed unless each package that is pinned is there in that version."""
    from importlib import metadata

    try:
        with open(os.path.join(plugin_root(), "requirements.lock"), encoding="utf-8") as lock:
            pinned = _PINNED.findall(lock.read())
    except FileNotFoundError:
        return  # installed as a package: its installer saw to that
    wrong = []
    for name, version, below in pinned:
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            found = None
        if found != version and not (below and sys.version_info >= (3, int(below))):
            wrong.append(f"{name} {version} (found: {found or 'none'})")
    if wrong:
        raise SetupFailed(
            f"faber's environment at {sys.prefix} lacks {', '.join(wrong)}.",
            recovery="Remove that directory, and call bin/faber where there is a network: it is built again.",
        )


def _text(answer: dict[str, Any]) -> str:
    lines = [f"faber's environment is ready: {answer['environment']}"]
    lines += [Standing(**each).line for each in answer["clients"]]
    return "\n".join(lines) + "\n"


def _client_text(answer: dict[str, Any], undo: bool) -> str:
    name, ran = answer["client"], answer["ran"]
    if ran is not None:
        lines = [f"Ran: {each}" for each in ran] or [
            f"Nothing to do: {name} {'has no faber' if undo else 'has faber'}."
        ]
    else:
        lines = [f"This {'removes faber from' if undo else 'installs faber in'} {name}; --yes runs it:", ""]
        lines += [f"    {each}" for each in answer["commands"]]
    if answer["afterwards"]:
        lines += ["", *(f"- {each}" for each in answer["afterwards"])]
    return "\n".join(lines) + "\n"
