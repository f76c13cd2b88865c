"""Codex's wire, the Responses API: `exec_command` is spelled as Claude Code's `Bash`, and back.

Codex has no tools that read and write files: `Read` and `Write` become shell commands, which are recognised when they
come back. What Codex adds to a conversation by itself comes in messages of the role `system`.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from e2e.replies import Reply, Text, ToolUse
from e2e.wires import event

# How the messages of the role `user` begin that Codex writes itself.
_ADDED = ("<environment_context>", "# AGENTS.md instructions", "<skill>", "<turn_aborted>", "<user_shell_command>")
_OUTPUT = re.compile(
    r"(?:Chunk ID: .*\n)?Wall time: .*\n(?:Process exited with code (?P<code>-?\d+)|Process running .*)\n"
    r"(?:Original token count: .*\n)?Output:\n(?P<said>.*)",
    re.DOTALL,
)
_PATIENCE = 30_000  # milliseconds until a command that still runs is reported


class ResponsesWire:
    """Codex's: the Responses API."""

    compaction = "CONTEXT CHECKPOINT COMPACTION"

    def request(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The conversation; the first message of the developer is the system prompt."""
        messages = [_message(item) for item in body.get("input", ())]
        known = [message for message in messages if message]
        system = [body["instructions"]] if body.get("instructions") else []
        if known and known[0]["role"] == "system":
            system += [block["text"] for block in known.pop(0)["content"]]
        tools = [{"name": _TOOLS.get(name, name)} for name in _names(body.get("tools") or ())]
        session = (body.get("client_metadata") or {}).get("session_id", "")
        kept = {name: value for name, value in body.items() if name not in ("input", "tools", "instructions")}
        shown = [{"type": "text", "text": words} for words in system]
        return {**kept, "system": shown, "messages": known, "tools": tools, "session": session}

    def events(self, reply: Reply, number: int, body: Mapping[str, Any]) -> Iterator[str]:
        """The items of the response, and its end with the usage."""
        yield event({"type": "response.created", "response": {"id": f"resp_{number:04}"}})
        whole = self.whole(reply, number, body)
        cut = whole["status"] == "incomplete"
        for index, item in enumerate(whole["output"]):
            if not (cut and item["type"] == "function_call" and index == len(whole["output"]) - 1):
                yield event({"type": "response.output_item.done", "output_index": index, "item": item})
        if not reply.hangs and not reply.breaks:
            yield event({"type": "response.incomplete" if cut else "response.completed", "response": whole})

    def whole(self, reply: Reply, number: int, body: Mapping[str, Any]) -> dict[str, Any]:
        """The response in one piece."""
        cut = reply.stop_reason == "max_tokens"
        return {
            "id": f"resp_{number:04}",
            "object": "response",
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "output": [_item(block, f"{number:04}_{index}") for index, block in enumerate(reply.blocks)],
            "usage": {
                "input_tokens": reply.input_tokens,
                "input_tokens_details": None,
                "output_tokens": reply.output_tokens,
                "output_tokens_details": None,
                "total_tokens": reply.input_tokens + reply.output_tokens,
            },
        }

    def error(self, reply: Reply) -> dict[str, Any]:
        """An error as OpenAI's services spell it."""
        kind = str(reply.error()["error"]["type"])
        return {"error": {"type": kind, "code": kind, "message": reply.message, "param": None}}


_TOOLS = {"exec_command": "Bash"}


def _names(tools: Any) -> Iterator[str]:
    for each in tools:
        yield str(each.get("name") or each["type"])


def _item(block: Text | ToolUse, suffix: str) -> dict[str, Any]:
    """An item of a response."""
    if isinstance(block, Text):
        said = [{"type": "output_text", "text": block.text, "annotations": []}]
        return {"type": "message", "id": f"msg_{suffix}", "role": "assistant", "status": "completed", "content": said}
    name, sent = block.name, block.sent
    try:
        given = json.loads(sent)
    except ValueError:
        given = None  # cut off
    if isinstance(given, dict) and (command := _command(name, given)) is not None:
        name, sent = "exec_command", json.dumps({"cmd": command, "yield_time_ms": _PATIENCE})
    return {"type": "function_call", "id": f"fc_{suffix}", "call_id": f"call_{suffix}", "name": name, "arguments": sent}


def _command(name: str, given: Mapping[str, Any]) -> str | None:
    """The shell command that does what the tool does; None for a tool that is Codex's own."""
    match name:
        case "Bash":
            return str(given["command"])
        case "Read":
            return f"cat {shlex.quote(given['file_path'])}"
        case "Write":
            path, content = shlex.quote(given["file_path"]), shlex.quote(given["content"])
            return f"mkdir -p {shlex.quote(given['file_path'].rpartition('/')[0])} && printf %s {content} > {path}"
    return None


def _tool(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The tool call that a command stands for."""
    if name != "exec_command":
        return {"name": name, "input": dict(given)}
    command = str(given.get("cmd", ""))
    name, given = "Bash", {"command": command}
    match _words(command):
        case ["cat", path]:
            name, given = "Read", {"file_path": path}
        case ["mkdir", "-p", _, "&&", "printf", "%s", content, ">", path]:
            name, given = "Write", {"file_path": path, "content": content}
    if _command(name, given) != command:
        name, given = "Bash", {"command": command}
    return {"name": name, "input": given}


def _words(command: str) -> list[str]:
    """The words of a shell command; none if it is not all of one."""
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _message(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """A message of the conversation; None for what belongs to none (reasoning)."""
    match item.get("type", "message"):
        case "message":
            texts = [str(part["text"]) for part in item.get("content", ()) if "text" in part]
            added = item["role"] == "developer" or (item["role"] == "user" and all(_is_added(each) for each in texts))
            content = [{"type": "text", "text": each} for each in texts]
            return {"role": "system" if added else item["role"], "content": content}
        case "function_call":
            try:
                given = json.loads(item["arguments"])
            except ValueError:
                given = {}
            call = {"type": "tool_use", "id": item["call_id"], **_tool(item["name"], given)}
            return {"role": "assistant", "content": [call]}
        case "function_call_output":
            return {"role": "user", "content": [_result(item)]}
    return None


def _is_added(words: str) -> bool:
    return words.lstrip().startswith(_ADDED)


def _result(item: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a call without the lines that Codex puts above a command's output."""
    output = item["output"]
    said = output if isinstance(output, str) else "\n".join(str(part.get("text", "")) for part in output)
    if found := _OUTPUT.fullmatch(said):
        said, failed = found["said"], (found["code"] or "0") != "0"
    else:
        failed = True  # no command ended or runs: it was refused
    return {"type": "tool_result", "tool_use_id": item["call_id"], "content": said, "is_error": failed}


__all__ = ["ResponsesWire"]
