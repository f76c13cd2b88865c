"""What makes a trial this one: the first line of its results, with which whoever continues it has to agree."""

import argparse
import json
from collections.abc import Mapping, Sequence
from hashlib import scrypt, sha256
from pathlib import Path
from typing import Any

from faber.text.credentials import secret_values
from faber.text.safe_text import has_secret
from trials import tasks
from trials.session import MARKER

PROTOCOL = Path(__file__).resolve().parents[1] / "trial-protocol.md"
# What the trial itself sets for the client.
_TAKEN = {"HOME", "TMPDIR", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", MARKER}
_AT_LEAST = {"seeds": 1, "interruptions": 0, "start_usd": 0.0, "minutes": 0.0, "cap_usd": 0.0}


class Refused(Exception):
    """The trial cannot begin; the message says why."""


def header(given: argparse.Namespace, client: str, plugin: Path, key: str) -> dict[str, Any]:
    """The first line of the results; `client` is its version, `plugin` the copy that the agents get."""
    return {
        "protocol": protocol(),
        "tasks": {"names": given.tasks, "digest": tasks.digest([tasks.load(name) for name in given.tasks])},
        "seeds": given.seeds,
        "interruptions": given.interruptions,
        "base_url": given.base_url.partition("?")[0],
        "model": given.model,
        "client": client,
        "faber": f"{_version(plugin)} ({_digest(plugin)})",
        "variables": told(variables(given.variable), key),
        "start_usd": given.start_usd,
        "minutes": given.minutes,
    }


def protocol() -> str:
    """The SHA-256 of the protocol as it is now."""
    return sha256(PROTOCOL.read_bytes()).hexdigest()


def check(given: argparse.Namespace) -> None:
    """Raise Refused for numbers with which there is no trial."""
    for name, least in _AT_LEAST.items():
        value = getattr(given, name, None)
        # Anything compared to NaN is false: a cap of it would stop nothing.
        if value is not None and not (value >= least and (value > 0 or isinstance(value, int)) and value < 1e9):
            raise Refused(f"--{name.replace('_', '-')} cannot be {value:g}")
    if len(set(given.tasks)) < len(given.tasks):
        raise Refused("--tasks names a task twice")


def variables(words: Sequence[str]) -> dict[str, str]:
    """The client's further variables, as `--variable` names them."""
    for word in words:
        name, equals, _ = word.partition("=")
        if not (name and equals):
            raise Refused("--variable takes NAME=VALUE")
        if name in _TAKEN:
            raise Refused(f"--variable cannot set {name}: the trial does")
    return dict(word.split("=", 1) for word in words)


def told(given: Mapping[str, str], key: str) -> dict[str, str]:
    """The variables as the results name them. Of a value that looks like a credential they have a digest too slow to
    guess from, which still differs where the value does."""

    def hidden(name: str, value: str) -> bool:
        if "TOKENS" in name and value.isdecimal():
            return False  # a number of them
        by_name = secret_values({name: "any value"}) or name.endswith("_HEADERS")
        return bool(by_name) or has_secret(f"{name}={value}") or has_secret(value) or key in value

    return {name: _hidden(name, value) if hidden(name, value) else value for name, value in sorted(given.items())}


def _hidden(name: str, value: str) -> str:
    return f"hidden:{scrypt(value.encode(), salt=name.encode(), n=2**13, r=8, p=1, dklen=8).hex()}"


def _version(plugin: Path) -> str:
    return str(json.loads((plugin / ".claude-plugin" / "plugin.json").read_text())["version"])


def _digest(plugin: Path) -> str:
    """The beginning of a digest of the plugin's files: between two releases the version stays."""
    found = sha256()
    for path in sorted(path for path in plugin.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        found.update(f"{path.relative_to(plugin)}\0".encode() + sha256(path.read_bytes()).digest())
    return found.hexdigest()[:12]
