"""Who runs a command, and in which project."""

import os
from functools import cached_property
from typing import TYPE_CHECKING

from faber.agents.known_clients import client_of, is_agents, session_of
from faber.errors import FaberError
from faber.store.bundle import PROGRAM
from faber.store.layout import Layout, find_root
from faber.text.program_word import PERSONS, shell_word

if TYPE_CHECKING:
    from faber.store.appending import Writer


class Invocation:
    """What every command needs to know about its surroundings; the project's root is found when first needed."""

    def __init__(self) -> None:
        self.given_root: str | None = None
        # The run that the command is to change, once it is known.
        self.run: str | None = None
        self._layout: Layout | None = None

    @property
    def layout(self) -> Layout:
        """The store of this project."""
        if self._layout is None:
            self._layout = Layout(find_root(self.given_root, os.environ))
        return self._layout

    @property
    def session_id(self) -> str | None:
        """The client's session that runs this command, if any."""
        return session_of(os.environ)

    @property
    def writer(self) -> "Writer":
        """Who records what this command decides."""
        from faber.notify.news import announce
        from faber.store.appending import Writer

        client = client_of(os.environ)
        return Writer(self.session_id, self.actor, client=client.name if client else None, tell=announce)

    @property
    def is_agent(self) -> bool:
        """True if an agent is known to run this command."""
        return is_agents(os.environ)

    @cached_property
    def is_person(self) -> bool:
        """True if a person runs this command, or a program that may speak for one."""
        return not self.is_agent and (has_terminal() or self._scripts_allowed())

    def _scripts_allowed(self) -> bool:
        """True if the settings, as the commit that is checked out has them, let programs without a terminal speak for
        a person. They count for the runs of this repository: not for those that a link brings into the store."""
        from faber.store.config import load_config, parse_config

        try:
            runs, root = self.layout.runs, self.layout.root
            linked = os.path.realpath(runs) != os.path.join(os.path.realpath(root), os.path.relpath(runs, root))
            if linked or not load_config(self.layout).at("feedback.from_scripts"):
                return False
            from faber.git.inspect import committed_file

            committed = committed_file(self.layout.root, self.layout.config)
            given = parse_config(committed, self.layout.config) if committed is not None else {}
            return given.get("feedback", {}).get("from_scripts") is True
        except FaberError:
            return False

    @property
    def program(self) -> str:
        """How who reads the output calls faber: an agent by its path, a person by its name."""
        return shell_word(PROGRAM) if self.is_agent and os.path.exists(PROGRAM) else PERSONS

    @property
    def actor(self) -> str:
        """Who records events: `agent`, `person`, or `script` for a program without a terminal."""
        return "agent" if self.is_agent else "person" if self.is_person else "script"


def has_terminal() -> bool:
    """True if this process has a controlling terminal, whatever its input and output are connected to."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
