"""The command that opens the session of a phase's agent in the client, for a person."""

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from faber.agents.client_kinds import CLAUDE, CODEX, KINDS, OPENCODE, program_of
from faber.errors import FaberError
from faber.events.event_types import AGENT_TURN
from faber.model.documents import nebula_of
from faber.nebula.plan.names import names_of, part
from faber.nebula.view.agent_log import AgentLine
from faber.store import log
from faber.store.layout import Layout
from faber.store.load import Run

_RESUME = {CLAUDE: "--resume", CODEX: "resume", OPENCODE: "--session"}


class NoSession(FaberError):
    """No agent of the phase has a session that can be opened here."""

    code = "no_agent_session"


class AgentSession(NamedTuple):
    """A session of an agent: where its client worked, where that keeps its sessions (empty: in its usual place), and
    the client's name."""

    role: str
    session_id: str
    directory: str
    config: str = ""
    cycle: int | None = None
    client: str = CLAUDE


def agent_session(layout: Layout, run: Run, phase: str, lines: Sequence[AgentLine], role: str | None) -> AgentSession:
    """The newest session of the phase, of `role` if it is given: from its agents' log, else from the run's.

    Raises `NoSession`.
    """
    for line in reversed(lines):
        session, directory = line.get("session"), line.get("directory")
        if line["kind"] == "turn" and session and directory and role in (None, line.get("role")):
            config, client = line.get("config", ""), line.get("client", CLAUDE)
            return AgentSession(line.get("role", ""), session, directory, config, line.get("cycle"), client)
    nebula = nebula_of(run.state)
    names = names_of(nebula["name"] if nebula else "", run.run_id)
    for entry in reversed(log.listing(run.directory)):
        if entry.type != AGENT_TURN:
            continue
        event = log.read_event(run.directory, entry.file)
        given = event.get("metadata", {})
        session = given.get("agent_session")
        if event.get("phase") == phase and session and role in (None, given.get("role")):
            directory = layout.worktree(names.run_id, part(phase))
            client = str(given.get("client") or CLAUDE)
            return AgentSession(str(given.get("role")), str(session), directory, "", given.get("cycle"), client)
    who = f"a {role}" if role else "an agent"
    raise NoSession(
        f"No session of {who} of {phase} is known.",
        phase=phase,
        recovery="A session is known as soon as its first turn starts on this machine.",
    )


def attach_command(session: AgentSession, environ: Mapping[str, str]) -> str:
    """The line for a shell that opens the session; raises `NoSession` if its worktree is gone.

    The client finds a session only from a directory of the repository, and not once the worktree that it began in is
    removed.
    """
    if not os.path.isdir(session.directory):
        raise NoSession(
            f"The worktree of the session is gone: {session.directory}.",
            session_id=session.session_id,
            recovery="`faber nebula log PHASE` shows what the agent said and did.",
        )
    client = session.client if session.client in KINDS else CLAUDE
    config = f"CLAUDE_CONFIG_DIR={shlex.quote(session.config)} " if session.config and client == CLAUDE else ""
    words = [program_of(client, environ), _RESUME[client], session.session_id]
    return f"cd {shlex.quote(session.directory)} && {config}{shlex.join(words)}"
