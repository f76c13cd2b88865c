"""The bundle in the clients of whoever uses it: what installs it there, what removes it, and where it came from."""

import json
import os
import shlex
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
    """How the bundle gets into a client. In the commands, {root} is the bundle and {home} the client's folder. `found`
    says where what each command of `add` makes came from, None if it is not there; those of `remove` undo them from
    the last to the first. In `afterwards` is what a person has to know or do then."""

    home: Callable[[Mapping[str, str]], str]
    add: tuple[Command, ...]
    remove: tuple[Command, ...]
    found: Callable[[str], tuple[str | None, ...]]
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


def _in_claude(home: str) -> tuple[str | None, ...]:
    settings = _read(os.path.join(home, "settings.json"), json.loads)
    source = _at(settings, "extraKnownMarketplaces", "faber", "source")
    named = next((str(source[key]) for key in ("path", "url", "repo") if _at(source, key)), None)
    return _with_plugin(named, _at(settings, "enabledPlugins", PLUGIN))


def _in_codex(home: str) -> tuple[str | None, ...]:
    import tomllib

    config = _read(os.path.join(home, "config.toml"), tomllib.loads)
    named = _at(config, "marketplaces", "faber", "source")
    return _with_plugin(str(named) if named else None, _at(config, "plugins", PLUGIN, "enabled"))


def _with_plugin(market: str | None, enabled: Any) -> tuple[str | None, ...]:
    return market, (market or PLUGIN) if enabled is True else None


def _in_opencode(home: str) -> tuple[str | None, ...]:
    link = os.path.join(home, "plugin", "faber.js")
    source = os.path.realpath(link).removesuffix(f"/{_OPENCODE_PLUGIN}") if os.path.lexists(link) else None
    return source, source


def _read(path: str, parse: Callable[[str], Any]) -> Any:
    try:
        with open(path, encoding="utf-8") as file:
            return parse(file.read())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise SetupFailed(
            f"{path} cannot be read: {error}", recovery="Correct that file; nothing was changed."
        ) from None


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


RECIPES = {
    "claude": Recipe(
        lambda env: env.get("CLAUDE_CONFIG_DIR") or _below(env, ".claude"),
        (("claude", "plugin", "marketplace", "add", "{root}"), ("claude", "plugin", "install", PLUGIN)),
        (("claude", "plugin", "uninstall", PLUGIN), ("claude", "plugin", "marketplace", "remove", "faber")),
        _in_claude,
    ),
    "codex": Recipe(
        lambda env: env.get("CODEX_HOME") or _below(env, ".codex"),
        (("codex", "plugin", "marketplace", "add", "{root}"), ("codex", "plugin", "add", PLUGIN)),
        (("codex", "plugin", "remove", PLUGIN), ("codex", "plugin", "marketplace", "remove", "faber")),
        _in_codex,
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
        _in_opencode,
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
    try:
        source = recipe.found(recipe.home(environ))[-1]
    except SetupFailed:
        source = None
    return Standing(name, shutil.which(name, path=environ.get("PATH")), source)


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
    recipe, here = RECIPES[name], plugin_root()
    found = recipe.found(recipe.home(environ))
    for source in found:
        if source is not None and os.path.realpath(source) != os.path.realpath(here):
            raise SetupFailed(
                f"{name} has a faber already that is not this one: {source}.", recovery=_way_out(name, environ, source)
            )
    listed = zip(commands(name, environ, undo=undo), reversed(found) if undo else found, strict=False)
    needed = [command for command, source in listed if (source is not None) == undo]
    if needed and standing(name, environ).program is None:
        raise SetupFailed(f"There is no {name} on PATH.", recovery=f"Install {name}, or run this where it is on PATH.")
    done = []
    for command in needed:
        result = run(Program(command, environ), seconds=SECONDS)
        if not result.ok:
            said = result.complaint or result.line or f"exit status {result.code}"
            raise SetupFailed(
                f"`{shlex.join(command)}` failed: {said}",
                recovery="Correct that and run it again; repeating is harmless.",
            )
        done.append(command)
    if done:
        _keep_compiled(recipe.home(environ))
    return done


def _way_out(name: str, environ: Mapping[str, str], source: str) -> str:
    """How a person removes the faber from elsewhere that a client has."""
    other = os.path.join(source, "bin", "faber")
    if os.path.exists(other):
        return f"Remove that first: `{shlex.quote(other)} setup --client {name} --undo --yes`."
    link = os.path.join(RECIPES[name].home(environ), "plugin", "faber.js")
    if name == "opencode" and not os.path.islink(link):
        return f"Move {link} away first."
    ways = " and ".join(f"`{shlex.join(each)}`" for each in commands(name, environ, undo=True))
    return f"Remove that first: {ways}."


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
