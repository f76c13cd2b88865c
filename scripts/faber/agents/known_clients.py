"""The coding agents that faber knows by the variables that they give to the programs they run."""

import os
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

CHILD = "FABER_CHILD"
MAX_SESSION = 200  # characters


class KnownClient(NamedTuple):
    """A client: its name in events, the variables that only programs started by its agents have, even if they are
    empty, the one that holds the session's id, if any does, and its program, if the bundle can be installed in it."""

    name: str
    signs: Collection[str]
    session: str | None = None
    program: str | None = None


CLIENTS = (
    KnownClient("claude-code", ("CLAUDECODE", "CLAUDE_CODE_SESSION_ID"), "CLAUDE_CODE_SESSION_ID", "claude"),
    KnownClient(
        "codex",
        ("CODEX_THREAD_ID", "CODEX_SESSION_ID", "CODEX_CI", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED"),
        "CODEX_THREAD_ID",
        "codex",
    ),
    # The session's id is set by faber's own plugin.
    KnownClient("opencode", ("OPENCODE", "OPENCODE_PID", "OPENCODE_SESSION_ID"), "OPENCODE_SESSION_ID", "opencode"),
    KnownClient("gemini-cli", ("GEMINI_CLI",)),
    KnownClient("cursor", ("CURSOR_AGENT",)),
    KnownClient("augment", ("AUGMENT_AGENT",)),
    KnownClient("antigravity", ("ANTIGRAVITY_AGENT",)),
)
# Signs of an agent that do not name its client.
UNNAMED = ("AGENT", "AI_AGENT", CHILD)


SIGNS = (*(sign for client in CLIENTS for sign in client.signs), *UNNAMED)


def client_of(environment: Mapping[str, str]) -> KnownClient | None:
    """The client whose agent this process belongs to; None if no sign names one.

    Where an agent of one client started another client, both have left their signs, and the inner one counts.
    """
    found = [client for client in CLIENTS if any(sign in environment for sign in client.signs)]
    return _innermost(found) if len(found) > 1 else next(iter(found), None)


def _innermost(clients: Sequence[KnownClient]) -> KnownClient:
    """The client that is nearest among the processes above this one: its own does not have its signs."""
    number = os.getppid()
    try:
        while number > 1:
            with open(f"/proc/{number}/stat", "rb") as stat:
                parent = int(stat.read().rpartition(b")")[2].split()[1])
            with open(f"/proc/{number}/environ", "rb") as file:
                names = {each.partition(b"=")[0].decode(errors="replace") for each in file.read().split(b"\0")}
            if outside := [client for client in clients if not names & set(client.signs)]:
                return outside[0]
            number = parent
    except (OSError, ValueError, IndexError):
        pass
    # Codex lets nobody look into its process, and its sandbox may hide those above.
    return next((client for client in clients if client.name == "codex"), clients[-1])


def is_agents(environment: Mapping[str, str]) -> bool:
    """True if a variable says that an agent's process has this environment."""
    return any(sign in environment for sign in SIGNS)


def persons(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without what says that it is an agent's."""
    return {name: value for name, value in environment.items() if name not in SIGNS}


def session_of(environment: Mapping[str, str]) -> str | None:
    """The id of the session that this process belongs to, at most 200 characters; None if its client names none."""
    client = client_of(environment)
    named = environment.get(client.session, "") if client is not None and client.session else ""
    return named[:MAX_SESSION] or None
