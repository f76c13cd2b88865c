"""The project's settings: `config.yaml` over the defaults."""

from typing import Any, NamedTuple

from faber.errors import FaberError
from faber.store import strict
from faber.store.cache import memo
from faber.store.files import read_bytes
from faber.store.layout import Layout
from faber.store.store_errors import InvalidConfiguration

MAX_CONFIG = 256 * 1024

# Branches that a build step never starts on; a project can only add to them.
ALWAYS_PROTECTED = ("main", "master", "production", "staging")

DEFAULTS: dict[str, Any] = {
    "schema_version": 1,
    "workflow": "default",
    "autonomy": "guarded",
    "work_items": {
        "provider": "file",
        # if None: host and repository come from the remote, api_url from the host
        "github": {
            "host": None,
            "repository": None,
            "api_url": None,
            "timeout_seconds": 10,
            "deadline_seconds": 20,
            "max_comments": 200,
        },
    },
    "feedback": {
        "from_comments": "record-only",
        "mention": "@faber",
        "post": "never",
        "post_refusals": False,
        "from_scripts": False,
        "ci_retries": 2,  # how often a failed check re-opens a run
    },
    "branches": {"protected": [], "agents_may_change": []},  # in addition to ALWAYS_PROTECTED
    # After how many minutes without a sign of life another session may take over a run.
    "sessions": {"silent_minutes": 15},
    "notify": None,
    "context": {"max_chars": 24_000, "default_branch": None},
}


class Config(NamedTuple):
    """The effective settings. `given` is the content of the file, None without a file."""

    values: dict[str, Any]
    given: dict[str, Any] | None

    def at(self, path: str) -> Any:
        """The value at a dotted path, `context.max_chars`."""
        value: Any = self.values
        for part in path.split("."):
            value = value[part]
        return value


def load_config(layout: Layout) -> Config:
    """The settings of the project; raises `InvalidConfiguration` with key, reason and nearest name."""
    try:
        text = read_bytes(layout.config, MAX_CONFIG).decode()
    except FileNotFoundError:
        return Config(DEFAULTS, None)
    except (OSError, UnicodeDecodeError, FaberError) as error:
        raise InvalidConfiguration(f"config.yaml cannot be read: {error}.", file=layout.config) from None
    # Parsed and checked once for each text of the file: yaml and jsonschema cost 70 ms to import.
    given = memo(layout, "config", text, lambda source: parse_config(source, layout.config))
    return Config(_merged(DEFAULTS, given), given)


def parse_config(text: str, path: str) -> dict[str, Any]:
    """The settings in the text of the file at `path`, without defaults; raises `InvalidConfiguration`."""
    from faber.store.schema import problems

    try:
        given = strict.yaml_value(text, MAX_CONFIG)
    except strict.Malformed as error:
        raise InvalidConfiguration(f"config.yaml: {error}.", file=path, line=error.line) from None
    given = {} if given is None else given
    found = problems("config", given)
    if found:
        listed = "; ".join(f"{problem.path or 'top level'}: {problem.message}" for problem in found)
        raise InvalidConfiguration(f"config.yaml: {listed}.", file=path, problems=[p._asdict() for p in found])
    return given


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    return {
        **base,
        **{
            key: _merged(base[key], value) if isinstance(value, dict) and isinstance(base.get(key), dict) else value
            for key, value in over.items()
        },
    }
