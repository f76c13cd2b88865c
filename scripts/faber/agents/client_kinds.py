"""The clients that agents run in, and what each can do."""

import shutil
from collections.abc import Collection, Mapping
from typing import NamedTuple

from faber.agents.versions import client_program

CLAUDE, CODEX, OPENCODE = "claude", "codex", "opencode"


class ClientKind(NamedTuple):
    """A client: its name in nebula files, its name for people, its `program` on PATH, the `variable` that names another
    one, and what to do where nobody is logged in or it is missing.

    `bounds_money`: it takes a limit in US dollars, so that a turn which does not report its cost counts as that limit.
    `prices`: it reports dollars. `allows_single_tools`: its coder runs no command but those in `agent_tools`.
    """

    name: str
    title: str
    program: str
    variable: str
    log_in: str
    install: str
    bounds_money: bool = False
    prices: bool = False
    allows_single_tools: bool = False


KINDS: Mapping[str, ClientKind] = {
    each.name: each
    for each in (
        ClientKind(
            CLAUDE,
            "Claude Code",
            "claude",
            "FABER_CLAUDE",
            "Run `claude` once and log in, or set ANTHROPIC_API_KEY.",
            "Install Claude Code, or set FABER_CLAUDE to the path of a client.",
            bounds_money=True,
            prices=True,
            allows_single_tools=True,
        ),
        ClientKind(
            CODEX,
            "Codex",
            "codex",
            "FABER_CODEX",
            "Run `codex login`, or set the key that its configuration names.",
            "Install Codex, or set FABER_CODEX to the path of its program.",
        ),
        ClientKind(
            OPENCODE,
            "OpenCode",
            "opencode",
            "FABER_OPENCODE",
            "Run `opencode auth login`.",
            "Install OpenCode, or set FABER_OPENCODE to the path of its program.",
            prices=True,
            allows_single_tools=True,
        ),
    )
}


def program_of(client: str, environ: Mapping[str, str]) -> str:
    """What starts this client."""
    kind = KINDS[client]
    return client_program(environ) if client == CLAUDE else environ.get(kind.variable) or kind.program


def missing(clients: Collection[str], environ: Mapping[str, str]) -> list[str]:
    """Those of `clients` that cannot be started here, in order."""
    return [each for each in clients if shutil.which(program_of(each, environ), path=environ.get("PATH")) is None]
