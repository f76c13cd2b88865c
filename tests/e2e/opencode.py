"""The real OpenCode, started as a program would start it, in an environment of its own.

    opencode = OpenCode(binary, tmp_path / "home", make_project(tmp_path / "project"), api)
    result = opencode.run("continue")                    # `opencode run`: 3 seconds of CPU time a start
    with opencode.serve() as served:                  # `opencode serve`: the same once, a tenth for each prompt
        result = served.says("continue")
        served.compact(result.session_id)

It is scripted as Claude Code is (`api.script`): `tool("Bash", command=…)` reaches it as `bash`.
"""

import json
import re
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from e2e.client import ENGINE, Call, ClientFailed, Event, Installation, Result, Running
from e2e.opencode_wire import meant, named
from e2e.processes import until
from e2e.request import ToolResult

MODEL = "anthropic/scripted"
CHAT = "loop/scripted"  # the same script on the wire of most other providers
_LISTENING = re.compile(r"listening on (http://\S+)")
# Not for what it tests: each costs time in every start.
_OFF = {"autoupdate": False, "share": "disabled", "snapshot": False, "lsp": False, "formatter": False}


class OpenCodeResult(Result):
    """What OpenCode did for a prompt: the events of `opencode run --format json`."""

    def parts(self, kind: str) -> list[Event]:
        """The parts of the events of one type, such as `text` or `tool_use`."""
        return [each["part"] for each in self.of(kind)]

    @property
    def texts(self) -> list[str]:
        """What the model said, piece by piece."""
        return [str(each["text"]) for each in self.parts("text")]

    @property
    def text(self) -> str:
        """The final text."""
        return self.texts[-1] if self.texts else ""

    @property
    def session_id(self) -> str:
        """The session's id; raises ClientFailed if there is none."""
        for each in self.events:
            return str(each["sessionID"])
        raise ClientFailed(f"no event, exit status {self.status}; stderr:\n{self.stderr}")

    @property
    def denials(self) -> list[Event]:
        """The tool calls that permissions refused."""
        return [each for each in self.parts("tool_use") if "rejected permission" in str(each["state"].get("error"))]

    @property
    def tool_uses(self) -> list[Call]:
        """The tool calls, in order, with the names and keys of Claude Code."""
        return [
            Call(each["callID"], named(each["tool"]), meant(each["tool"], each["state"]["input"]))
            for each in self.parts("tool_use")
        ]

    @property
    def tool_results(self) -> list[ToolResult]:
        """The results of the tool calls, in order."""
        return [
            ToolResult(each["callID"], named(each["tool"]), str(said.get("output", said.get("error"))), "error" in said)
            for each in self.parts("tool_use")
            for said in [each["state"]]
        ]


@dataclass
class OpenCode(Installation):
    """One installation of OpenCode. `settings` are keys of its global configuration."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    results = OpenCodeResult

    def __post_init__(self) -> None:
        super().__post_init__()
        self.configuration.mkdir(parents=True, exist_ok=True)
        options = {"baseURL": f"{self.api.url}/opencode/v1", "apiKey": "dummy"}
        limit = {"context": 200_000, "output": 8_000}
        models = {"scripted": {"name": "scripted", "tool_call": True, "limit": limit}}
        packages = {"anthropic": "@ai-sdk/anthropic", "loop": "@ai-sdk/openai-compatible"}
        providers = {name: {"npm": each, "options": options, "models": models} for name, each in packages.items()}
        chosen = {"enabled_providers": list(packages), "model": MODEL, "small_model": MODEL, "provider": providers}
        (self.configuration / "opencode.json").write_text(json.dumps({**_OFF, **chosen, **self.settings}))
        # Its list of all models in the world takes two seconds to read, and a package for plugins one to look for.
        (self.home / "models.json").write_text("{}")
        (self.configuration / "node_modules").mkdir()
        there = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "1"}}}}
        (self.configuration / "package-lock.json").write_text(json.dumps(there))

    def install(self, plugin: Path) -> None:
        """Install the plugin as its users do: a link in the folder of plugins."""
        (self.configuration / "plugin").mkdir(exist_ok=True)
        (self.configuration / "plugin" / "faber.js").symlink_to(plugin / "opencode" / "faber.js")

    @property
    def configuration(self) -> Path:
        """Where its user keeps settings, plugins and commands."""
        return self.home / ".config" / "opencode"

    def variables(self) -> dict[str, str]:
        """Nothing is fetched: neither models, nor a newer version, nor a package for its plugins."""
        return {
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_MODELS_PATH": str(self.home / "models.json"),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "npm_config_offline": "true",
            **ENGINE,
        }

    def start(
        self,
        prompt: str,
        *,
        resume: str | None = None,
        command: str | None = None,
        extra: Sequence[str] = (),
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        under: Sequence[str] = (),
    ) -> Running:
        """Start `opencode run`. `resume` continues a session, `command` is a slash command that the prompt is the
        argument of; the rest is as `Client.start` has it."""
        line = [*under, str(self.binary), "run", "--format", "json", *extra]
        line += ["--session", resume] if resume else ["--title", "Scripted"]
        line += ["--command", command] if command else []
        # It puts an argument with a space in quotes, and joins all of them.
        return self._start([*line, "--", *prompt.split(" ")], cwd, environment)

    def run(self, prompt: str, *, timeout: float = 60, **how: Any) -> OpenCodeResult:
        """Run it to its end, started as by `start`. Raises ClientFailed, ScriptFailed."""
        result = self.start(prompt, **how).wait(timeout)
        assert isinstance(result, OpenCodeResult)
        return result

    @contextmanager
    def serve(self, environment: Mapping[str, str] | None = None) -> Iterator["Served"]:
        """A running `opencode serve`; ended with the block. What it logs is on its stderr."""
        running = self._start([str(self.binary), "serve", "--port", "0", "--print-logs"], None, environment)
        try:
            until(lambda: _LISTENING.search(running.stdout) or running.process.poll() is not None, 60)
            found = _LISTENING.search(running.stdout)
            if found is None:
                raise ClientFailed(f"it does not listen; stderr:\n{running.stderr}")
            yield Served(self, running, found[1])
        finally:
            running.kill()


@dataclass
class Served:
    """A running OpenCode that is talked to as its terminal does. It works in any folder: each is set up once."""

    client: OpenCode
    running: Running
    url: str

    def says(
        self,
        prompt: str,
        *,
        resume: str | None = None,
        command: str | None = None,
        cwd: Path | None = None,
        model: str = MODEL,
    ) -> OpenCodeResult:
        """What it did for a prompt, or for a slash command with the prompt as its argument."""
        cwd = cwd or self.client.project
        session = resume or str(self.ask("POST", "/session", {"title": "Scripted"}, cwd=cwd)["id"])
        before = len(self.messages(session, cwd))
        if command:
            self.ask("POST", f"/session/{session}/command", {"command": command, "arguments": prompt}, cwd=cwd)
        else:
            provider, _, name = model.partition("/")
            body = {"parts": [{"type": "text", "text": prompt}], "model": {"providerID": provider, "modelID": name}}
            self.ask("POST", f"/session/{session}/message", body, cwd=cwd)
        self.client.api.raise_failures()
        kinds = {"text": "text", "tool": "tool_use"}
        events = [
            {"type": kinds.get(part["type"], part["type"]), "sessionID": session, "part": part}
            for message in self.messages(session, cwd)[before:]
            if message["info"]["role"] == "assistant"
            for part in message["parts"]
        ]
        return OpenCodeResult(0, events, self.running.stderr)

    def messages(self, session: str, cwd: Path | None = None) -> list[dict[str, Any]]:
        """The session's conversation as OpenCode keeps it."""
        return list(self.ask("GET", f"/session/{session}/message", cwd=cwd))

    def compact(self, session: str, cwd: Path | None = None) -> None:
        """Summarize the conversation, as its command `/compact` does."""
        provider, _, model = MODEL.partition("/")
        self.ask("POST", f"/session/{session}/summarize", {"providerID": provider, "modelID": model}, cwd=cwd)

    def ask(self, method: str, path: str, body: Any = None, *, cwd: Path | None = None, timeout: float = 60) -> Any:
        """A request to its server; raises HTTPError."""
        url = f"{self.url}{path}?{urlencode({'directory': str(cwd or self.client.project)})}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.loads(answer.read() or b"null")


__all__ = ["OpenCode", "OpenCodeResult", "Served"]
