"""The environment that a headless agent is started in: a person's own, without the traces of a session around it."""

from collections.abc import Mapping

CHILD = "FABER_CHILD"
TURN = "FABER_TURN"

# What a client sets for the programs it runs. Passed on, a child would take itself for a part of that session.
# Everything else stays: credentials and endpoints (ANTHROPIC_*, CLAUDE_CODE_*, cloud providers', proxies'), and what
# the project's own tools read.
_OF_A_SESSION = frozenset(
    {
        "AI_AGENT",
        "CLAUDECODE",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_EXECPATH",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_SSE_PORT",
        "CLAUDE_EFFORT",
        "CLAUDE_ENV_FILE",
        "CLAUDE_PROJECT_DIR",
        "NoDefaultCurrentDirectoryInExePath",
    }
)
_OF_A_PLUGIN = "CLAUDE_PLUGIN_"
# A git hook's variables would send the agent's git to the repository of the command that the hook hangs on.
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

    `inherited` without those of a surrounding session, plugin or git hook, then `extra`, then `FABER_CHILD=1` (faber's
    hooks stay silent in it, and commands that speak for a person are refused to it) and `FABER_TURN`, by which every
    process of the turn is known.
    """
    kept = {
        name: value
        for name, value in inherited.items()
        if name not in _OF_A_SESSION and name not in _OF_A_REPOSITORY and not name.startswith(_OF_A_PLUGIN)
    }
    return {**kept, **extra, CHILD: "1", TURN: turn}
