"""The bundle in the clients of whoever uses it: what installs it there, what removes it, and where it came from."""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from faber.agents.known_clients import CLIENTS
from faber.errors import FaberError
from faber.processes.runner import Program, run
from faber.store.bundle import PROGRAM, plugin_root

SECONDS = 60.0
PLUGIN = "faber@faber"
_OPENCODE_PLUGIN = "opencode/faber.js"
# For AGENTS.md, which is committed: the program is named as it is on everybody's PATH.
SENTENCE = (
    "Before you work on this project, run `faber next`; unless it says `run_not_found`, read all of "
    "`faber protocol step-loop` and do what both say."
)
Command = tuple[str, ...]


class SetupFailed(FaberError):
    """The bundle could not be installed in a client, or removed from it."""

    code = "setup_failed"


class Recipe(NamedTuple):
    """How the bundle gets into a client. In the commands, {root} is the bundle and {home} the client's folder; in
    `afterwards` is what a person has to know or do then."""

    home: Callable[[Mapping[str, str]], str]
    add: tuple[Command, ...]
    remove: tuple[Command, ...]
    source: Callable[[str], str | None]
    afterwards: tuple[str, ...] = ()


class Standing(NamedTuple):
    """A client: its program, None if it is not on PATH, and the bundle that is installed in it, None if none is."""

    client: str
    program: str | None
    installed_from: str | None

    @property
    def line(self) -> str:
        """This in words."""
        if self.installed_from:
            return f"{self.client} has faber, from {self.installed_from}"
        missing = f"does not have faber: `faber setup --client {self.client}`"
        return f"{self.client} {missing if self.program else 'is not on PATH'}"


def _below(home: Mapping[str, str], *parts: str) -> str:
    return os.path.join(home.get("HOME") or os.path.expanduser("~"), *parts)


def _claude_source(home: str) -> str | None:
    found = _read(os.path.join(home, "settings.json"), json.loads)
    enabled = _at(found, "enabledPlugins", PLUGIN)
    source = _at(found, "extraKnownMarketplaces", "faber", "source")
    return str(_at(source, "path") or _at(source, "url") or PLUGIN) if enabled is True else None


def _codex_source(home: str) -> str | None:
    import tomllib

    found = _read(os.path.join(home, "config.toml"), tomllib.loads)
    enabled = _at(found, "plugins", PLUGIN, "enabled")
    return str(_at(found, "marketplaces", "faber", "source") or PLUGIN) if enabled is True else None


def _opencode_source(home: str) -> str | None:
    link = os.path.join(home, "plugin", "faber.js")
    if not os.path.lexists(link):
        return None
    return os.path.realpath(link).removesuffix(f"/{_OPENCODE_PLUGIN}")


def _read(path: str, parse: Callable[[str], Any]) -> Any:
    try:
        with open(path, encoding="utf-8") as file:
            return parse(file.read())
    except (OSError, ValueError):
        return None


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


RECIPES = {
    "claude": Recipe(
        lambda env: env.get("CLAUDE_CONFIG_DIR") or _below(env, ".claude"),
        (("claude", "plugin", "marketplace", "add", "{root}"), ("claude", "plugin", "install", PLUGIN)),
        (("claude", "plugin", "uninstall", PLUGIN), ("claude", "plugin", "marketplace", "remove", "faber")),
        _claude_source,
    ),
    "codex": Recipe(
        lambda env: env.get("CODEX_HOME") or _below(env, ".codex"),
        (("codex", "plugin", "marketplace", "add", "{root}"), ("codex", "plugin", "add", PLUGIN)),
        (("codex", "plugin", "remove", PLUGIN), ("codex", "plugin", "marketplace", "remove", "faber")),
        _codex_source,
        (
            "Start codex once and trust faber's hooks: type /hooks. Until then no session is told of its run, and "
            "`codex exec` says nothing about it.",
            f"With faber on PATH, this sentence in your project's AGENTS.md does without hooks: {SENTENCE}",
        ),
    ),
    "opencode": Recipe(
        lambda env: (
            env.get("OPENCODE_CONFIG_DIR")
            or os.path.join(env.get("XDG_CONFIG_HOME") or _below(env, ".config"), "opencode")
        ),
        (("mkdir", "-p", "{home}/plugin"), ("ln", "-s", f"{{root}}/{_OPENCODE_PLUGIN}", "{home}/plugin/faber.js")),
        (("rm", "{home}/plugin/faber.js"),),
        _opencode_source,
    ),
}
NAMES = tuple(client.program for client in CLIENTS if client.program)


def standings(environ: Mapping[str, str]) -> list[Standing]:
    """Each client that the bundle can be installed in."""
    return [standing(name, environ) for name in NAMES]


def standing(name: str, environ: Mapping[str, str]) -> Standing:
    """One client, from its configuration alone: it is not started."""
    import shutil

    recipe = RECIPES[name]
    return Standing(name, shutil.which(name, path=environ.get("PATH")), recipe.source(recipe.home(environ)))


def commands(name: str, environ: Mapping[str, str], *, undo: bool = False) -> list[Command]:
    """What installs the bundle in a client, or removes it."""
    recipe = RECIPES[name]
    filled = {"root": plugin_root(), "home": recipe.home(environ)}
    return [tuple(word.format(**filled) for word in each) for each in (recipe.remove if undo else recipe.add)]


def change(name: str, environ: Mapping[str, str], *, undo: bool = False) -> list[Command]:
    """Install the bundle in a client, or remove it; returns the commands that were run: none if it is so already.

    What is there from another bundle, or is a file of somebody's, is left alone. Raises SetupFailed.
    """
    if not os.path.exists(PROGRAM):
        raise SetupFailed(
            "This faber is a Python package without the bundle that a client installs.",
            recovery="Clone faber's repository and run its bin/faber setup.",
        )
    found, here = standing(name, environ), plugin_root()
    source = found.installed_from
    if source is not None and os.path.realpath(source) != os.path.realpath(here):
        other = os.path.join(source, "bin", "faber")
        way = f"Remove that first: `{other} setup --client {name} --undo --yes`." if os.path.exists(other) else None
        raise SetupFailed(
            f"{name} has a faber already that is not this one: {source}.", recovery=way or "Move that away first."
        )
    if (found.installed_from is None) == undo:
        return []
    if found.program is None:
        raise SetupFailed(f"There is no {name} on PATH.", recovery=f"Install {name}, or run this where it is on PATH.")
    done = []
    for command in commands(name, environ, undo=undo):
        result = run(Program(command, environ), seconds=SECONDS)
        if not result.ok:
            said = result.complaint or result.line or f"exit status {result.code}"
            raise SetupFailed(
                f"`{' '.join(command)}` failed: {said}",
                recovery="Correct that and run it again; repeating is harmless.",
            )
        done.append(command)
    _keep_compiled(RECIPES[name].home(environ))
    return done


def _keep_compiled(home: str) -> None:
    """Give the copies of this bundle that a client has made below `home` the times of their sources: what is compiled
    names these, and where a sandbox keeps Python from compiling, each call would do so again."""
    import glob

    here = plugin_root()
    for copy in glob.glob(os.path.join(glob.escape(home), "plugins", "cache", "faber", "faber", "*")):
        for source in glob.glob(os.path.join(glob.escape(here), "scripts", "**", "*.py"), recursive=True):
            try:
                made = os.stat(source)
                other = os.path.join(copy, os.path.relpath(source, here))
                if os.stat(other).st_size == made.st_size:
                    os.utime(other, ns=(made.st_atime_ns, made.st_mtime_ns))
            except OSError:
                pass
