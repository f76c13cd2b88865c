"""OpenCode's wires: its tools are spelled as Claude Code's, and back.

What its plugin adds to the system prompt becomes a message of the role `system`, as other clients send it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from e2e.replies import Reply, Text, ToolUse
from e2e.wires import MessagesWire

_NAMES = {"bash": "Bash", "read": "Read", "write": "Write", "edit": "Edit", "skill": "Skill"}
_KEYS = {
    "filePath": "file_path", "oldString": "old_string", "newString": "new_string", "replaceAll": "replace_all",
}  # fmt: skip
_ADDED = re.compile(r"\n*<faber>\n(.*?)\n</faber>", re.DOTALL)


class OpenCodeWire(MessagesWire):
    """The Messages API as OpenCode's provider `anthropic` speaks it."""

    compaction = "anchored summary"

    def request(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The conversation, with the names of Claude Code's tools."""
        said = "\n".join(str(each.get("text", "")) for each in body.get("system", ()))
        added = [{"role": "system", "content": words} for words in _ADDED.findall(said)]
        messages = [
            {**each, "content": [_block(block) for block in each["content"]]}
            if isinstance(each.get("content"), list)
            else each
            for each in body.get("messages", ())
        ]
        tools = [{"name": named(each["name"])} for each in body.get("tools") or ()]
        system = [{"type": "text", "text": _ADDED.sub("", said)}]
        return {**body, "system": system, "messages": [*added, *messages], "tools": tools}

    def events(self, reply: Reply, number: int, body: Mapping[str, Any]) -> Iterator[str]:
        """The message, block by block."""
        return super().events(theirs(reply), number, body)

    def whole(self, reply: Reply, number: int, body: Mapping[str, Any]) -> dict[str, Any]:
        """The message in one piece."""
        return super().whole(theirs(reply), number, body)


class ChatWire(OpenCodeWire):
    """The chat completions that most other providers speak."""

    def request(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The same in the shape of the Messages API."""
        said = [each for each in body["messages"] if each["role"] == "system"]
        system = [{"type": "text", "text": "\n".join(text for each in said for text in _texts(each))}]
        messages = [_message(each) for each in body["messages"] if each["role"] != "system"]
        tools = [each["function"] for each in body.get("tools") or ()]
        return super().request({**body, "system": system, "messages": messages, "tools": tools})

    def events(self, reply: Reply, number: int, body: Mapping[str, Any]) -> Iterator[str]:
        """The choice, block by block."""
        calls = 0
        for index, block in enumerate(theirs(reply).blocks):
            if isinstance(block, Text):
                yield _chunk({"role": "assistant", "content": block.text})
                continue
            function = {"name": block.name, "arguments": block.sent}
            call = {"index": calls, "id": f"call_{number:04}_{index}", "type": "function", "function": function}
            yield _chunk({"role": "assistant", "tool_calls": [call]})
            calls += 1
        if not reply.hangs and not reply.breaks:
            cut = reply.stop_reason == "max_tokens"
            yield _chunk({}, "length" if cut else "tool_calls" if calls else "stop")
            spent = {"prompt_tokens": reply.input_tokens, "completion_tokens": reply.output_tokens}
            yield f"data: {json.dumps({'choices': [], 'usage': spent})}\n\n"
            yield "data: [DONE]\n\n"

    def whole(self, reply: Reply, number: int, body: Mapping[str, Any]) -> dict[str, Any]:
        """Fails the test: OpenCode always asks for a stream."""
        raise AssertionError("OpenCode asked for a response that is no stream.")


def _chunk(delta: Mapping[str, Any], finish: str | None = None) -> str:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return f"data: {json.dumps({'object': 'chat.completion.chunk', 'choices': choices})}\n\n"


def _texts(message: Mapping[str, Any]) -> list[str]:
    content = message.get("content") or ""
    return [content] if isinstance(content, str) else [str(each["text"]) for each in content if "text" in each]


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    said: list[dict[str, Any]] = [{"type": "text", "text": each} for each in _texts(message) if each]
    if message["role"] == "tool":
        result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": said}
        return {"role": "user", "content": [result]}
    for each in message.get("tool_calls") or ():
        given = json.loads(each["function"]["arguments"])
        said.append({"type": "tool_use", "id": each["id"], "name": each["function"]["name"], "input": given})
    return {"role": message["role"], "content": said}


def named(tool: str) -> str:
    """What Claude Code calls one of OpenCode's tools."""
    return _NAMES.get(tool, tool)


def meant(tool: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The input of one of OpenCode's tools with the keys of Claude Code."""
    kept = {name: value for name, value in given.items() if (tool, name) != ("bash", "description")}
    return {_KEYS.get(name, name): value for name, value in kept.items()}


def theirs(reply: Reply) -> Reply:
    """The reply in OpenCode's names; a call that was cut off keeps what was sent of it."""
    return replace(reply, blocks=tuple(map(_called, reply.blocks)))


def _called(block: Text | ToolUse) -> Text | ToolUse:
    names = {ours: name for name, ours in _NAMES.items()}
    keys = {ours: key for key, ours in _KEYS.items()}
    if isinstance(block, Text) or block.name not in names:
        return block
    try:
        given = {keys.get(name, name): value for name, value in json.loads(block.sent).items()}
    except ValueError:
        return replace(block, name=names[block.name])
    if block.name == "Bash":
        given.setdefault("description", "As told")
    return ToolUse(names[block.name], json.dumps(given, ensure_ascii=False))


def _block(block: Mapping[str, Any]) -> dict[str, Any]:
    if block.get("type") != "tool_use":
        return dict(block)
    return {**block, "name": named(block["name"]), "input": meant(block["name"], block["input"])}


__all__ = ["ChatWire", "OpenCodeWire"]
