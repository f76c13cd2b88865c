"""Who runs a command, and in which project."""

import os
from typing import TYPE_CHECKING

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
        """The Claude Code session that runs this command, if any."""
        session = os.environ.get("CLAUDE_CODE_SESSION_ID", "")
        return session[:200] or None

    @property
    def writer(self) -> "Writer":
        """Who records what this command decides."""
        from faber.store.appending import Writer

        return Writer(self.session_id, self.actor)

    @property
    def is_agent(self) -> bool:
        """True if an agent runs this command, not a person."""
        named = ("CLAUDE_CODE_SESSION_ID", "CLAUDECODE", "FABER_CHILD")  # set, even to an empty value
        return any(name in os.environ for name in named)

    @property
    def program(self) -> str:
        """How who reads the output calls faber: an agent by its path, a person by its name."""
        return shell_word(PROGRAM) if self.is_agent and os.path.exists(PROGRAM) else PERSONS

    @property
    def actor(self) -> str:
        """Who records events: `agent` or `person`."""
        return "agent" if self.is_agent else "person"
