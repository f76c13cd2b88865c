"""The command that a person allowed faber to run on this machine. It is kept outside the repository, where agents and
whoever wrote the repository cannot change it."""

import hashlib
import os
from collections.abc import Mapping
from typing import NamedTuple

from faber.errors import FaberError, InvalidInput
from faber.store import strict_json
from faber.store.config import load_config
from faber.store.files import MAX_STATE, read_json, write_atomic
from faber.store.layout import Layout

Command = str | list[str]


class NotAllowed(FaberError):
    """`notify` names no command, or one that nobody allowed here."""

    code = "notify_not_allowed"
    recovery = "Read the command in config.yaml; then allow it in a terminal: `faber notify allow`."


class AllowedCommand(NamedTuple):
    """The command that was allowed, and the file that says so."""

    command: Command
    file: str


def permission(root: str, environ: Mapping[str, str]) -> AllowedCommand | None:
    """What a person allowed for the project at `root`; None if nothing."""
    path = _file(root, environ)
    try:
        given = read_json(path, MAX_STATE)
        return AllowedCommand(given["command"], path) if given["root"] == root else None
    except (OSError, FaberError, strict_json.InvalidJSON, KeyError, TypeError):
        return None


def configured(layout: Layout) -> Command | None:
    """The command in config.yaml; raises what reading that raises."""
    given: Command | None = load_config(layout).at("notify")
    return given


def command_to_run(layout: Layout, environ: Mapping[str, str]) -> Command:
    """The configured command, if exactly this one is allowed; raises `NotAllowed`."""
    wanted, allowed = configured(layout), permission(layout.root, environ)
    if wanted is None:
        raise NotAllowed("config.yaml has no `notify`.", recovery="Add `notify` to config.yaml: see docs/feedback.md.")
    if allowed is None or allowed.command != wanted:
        changed = "has changed since it was allowed" if allowed else "is not allowed on this machine"
        raise NotAllowed(f"The command of `notify` {changed}, so it does not run.", command=wanted)
    return wanted


def allow(layout: Layout, environ: Mapping[str, str]) -> AllowedCommand:
    """Record that a person allows the command that is in config.yaml now.

    Raises `NotAllowed` where there is none, `InvalidInput` for a program in the repository, `StoreUnwritable`.
    """
    wanted = configured(layout)
    if wanted is None:
        return AllowedCommand(command_to_run(layout, environ), "")  # raises
    if isinstance(wanted, list):
        program, root = wanted[0], os.path.realpath(layout.root)
        if "/" in program and (not os.path.isabs(program) or _below(os.path.realpath(program), root)):
            raise InvalidInput(
                "The program of `notify` must lie outside the repository, where agents write.",
                program=program,
                recovery="Name a program on the PATH, or an absolute path outside the repository.",
            )
    path = _file(layout.root, environ)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    write_atomic(path, strict_json.dumps({"root": layout.root, "command": wanted}))
    return AllowedCommand(wanted, path)


def _below(path: str, root: str) -> bool:
    return path == root or path.startswith(root + os.sep)


def _file(root: str, environ: Mapping[str, str]) -> str:
    given = environ.get("XDG_CONFIG_HOME", "")
    base = given if os.path.isabs(given) else os.path.join(os.path.expanduser("~"), ".config")
    name = hashlib.sha256(root.encode("utf-8", "surrogateescape")).hexdigest()[:24]
    return os.path.join(base, "faber", "notify", f"{name}.json")
