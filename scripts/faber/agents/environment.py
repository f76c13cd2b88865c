"""The environment of a headless agent: the inherited one, without the variables of a surrounding session."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from faber.agents.known_clients import CHILD as CHILD
from faber.agents.known_clients import SIGNS

TURN = "FABER_TURN"
SLOT = "FABER_SLOT"
_slot: ContextVar[int | None] = ContextVar(SLOT, default=None)

# What a client sets for the programs it runs. A child that inherited it would act as a part of that session.
# Everything else is passed on: credentials and endpoints (ANTHROPIC_*, CLAUDE_CODE_*, cloud providers, proxies), and
# what the project's own tools read.
_OF_A_SESSION = frozenset(
    {
        *SIGNS,
        "CLAUDE_CODE_CHILD_NOTES_DIR",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_EXECPATH",
        "CLAUDE_CODE_MESSAGING_SOCKET",
        "CLAUDE_CODE_MESSAGING_TOKEN",
        "CLAUDE_CODE_SESSION_ATTENDED",
        "CLAUDE_CODE_SSE_PORT",
        "CLAUDE_EFFORT",
        "CLAUDE_ENV_FILE",
        "CLAUDE_PID",
        "CLAUDE_PROJECT_DIR",
        "NoDefaultCurrentDirectoryInExePath",
    }
) - {"CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED"}  # that sandbox holds whatever is started in it
_OF_A_PLUGIN = "CLAUDE_PLUGIN_"
# A git hook's variables would point the agent's git at the repository that the hook runs for.
_OF_A_REPOSITORY = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_INDEX_FILE",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_QUARANTINE_PATH",
        "GIT_WORK_TREE",
    }
)


def agent_environment(inherited: Mapping[str, str], extra: Mapping[str, str], turn: str) -> dict[str, str]:
    """The variables of an agent's turn.

    They are `inherited` without those of a surrounding session, plugin or git hook, then `FABER_SLOT` (see `in_slot`),
    then `extra`, then `FABER_CHILD=1` (which silences faber's hooks and refuses commands that speak for a person) and
    `FABER_TURN`, which identifies every process of the turn.
    """
    slot = _slot.get()
    kept = {
        name: value
        for name, value in inherited.items()
        if name not in _OF_A_SESSION and name not in _OF_A_REPOSITORY and not name.startswith(_OF_A_PLUGIN)
    }
    own = {} if slot is None else {SLOT: str(slot)}
    return {**kept, **own, **extra, CHILD: "1", TURN: turn}


@contextmanager
def in_slot(number: int) -> Iterator[None]:
    """Programs that this thread starts meanwhile have `FABER_SLOT=<number>`: no two phases at work have the same."""
    before = _slot.set(number)
    try:
        yield
    finally:
        _slot.reset(before)
