"""Invoking agents: the Claude Code client as a child process, the Messages API, and the pipeline of a turn."""
