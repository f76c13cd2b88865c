"""How an agent is started, in whichever client."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from faber.errors import InvalidInput

MAX_OUTPUT = 512 * 1024 * 1024
EDITS = "acceptEdits"  # the permission mode of an agent that may change files; any other one only reads


@dataclass(frozen=True)
class AgentOptions:
    """How an agent is started.

    - `cwd`: its working directory. `command`: starts the client; default: what the environment names.
    - `agent`: the agent's name (`faber:reviewer`); its plugin is at `plugin_dir`, or installed.
    - `permission_mode`: Claude Code's word for what it may do without asking. `allowed_tools`: the tools that it may
      use besides (`Bash(git *)`).
    - Limits: `max_turns` steps per turn, `max_budget_usd` US dollars for the conversation, `timeout` seconds per turn,
      `max_output` bytes printed per turn. `grace`: the seconds that an interrupted client has to save its work.
      `patience`: the seconds for which a client may repeat refused requests, where it sets itself no bound.
    - `environment`: added to `inherited` (default: this process's environment).
    - `label`: marks the processes of its turns, for `end_turns` after a crash.

    Raises `InvalidInput` for limits that are not positive and finite, and for a malformed label.
    """

    cwd: str
    command: Sequence[str] = ()
    agent: str | None = None
    model: str | None = None
    permission_mode: str | None = None
    allowed_tools: Sequence[str] = ()
    plugin_dir: str | None = None
    max_turns: int = 50
    max_budget_usd: float = 5.0
    timeout: float = 1800.0
    grace: float = 3.0
    patience: float = 120.0
    max_output: int = MAX_OUTPUT
    environment: Mapping[str, str] = field(default_factory=dict)
    inherited: Mapping[str, str] | None = None
    label: str = "turn"

    def __post_init__(self) -> None:
        if self.max_turns < 1 or not 0 < self.max_budget_usd < float("inf") or not 0 < self.timeout < float("inf"):
            raise InvalidInput("An agent needs at least one turn, a budget and a time limit.")
        if not re.fullmatch(r"[\w/.-]*[^\W_][\w/.-]*", self.label):
            raise InvalidInput("A label consists of letters, digits, '/', '-', '_' and '.'.", label=self.label)

    @property
    def edits(self) -> bool:
        """True if the agent may change files."""
        return self.permission_mode == EDITS
