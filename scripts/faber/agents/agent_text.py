"""The text of a plugin's agent, for clients that do not read it themselves."""

import os

from faber.agents.agent_options import AgentOptions


def agent_text(options: AgentOptions) -> str:
    """What the agent of `options` is told besides its prompt: its file in the plugin, without the header."""
    if not options.agent or not options.plugin_dir:
        return ""
    path = os.path.join(options.plugin_dir, "agents", f"{options.agent.rpartition(':')[2]}.md")
    with open(path, encoding="utf-8") as file:
        return file.read().split("---\n", 2)[-1].strip()
