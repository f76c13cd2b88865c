"""Running agents: the Claude Code client as a supervised process, and the pipeline from a prompt to valid JSON."""
