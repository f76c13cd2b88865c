"""The real Codex, started as a program would start it (`codex exec`), in an environment of its own.

    codex = Codex(binary, tmp_path / "home", make_project(tmp_path / "project"), api)
    codex.install(plugin_root)
    codex.trust_hooks()
    result = codex.run("continue", sandbox="workspace-write")

It is scripted as Claude Code is (`api.script`): `tool("Bash", command=…)` reaches it as `exec_command`.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.client import Call, ClientFailed, Event, Installation, Result, Running
from e2e.processes import until
from e2e.repositories import compiled, directory_market, plugin_name
from e2e.request import ToolResult

KEY = "FABER_TEST_KEY"
_CONFIG = """\
model = "scripted"
model_provider = "loop"
check_for_update_on_startup = false
{settings}
[model_providers.loop]
name = "loop"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "{key}"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
[features]
enable_request_compression = false
"""


class CodexResult(Result):
    """How `codex exec --json` ended: its exit status and the events it printed."""

    def items(self, kind: str) -> list[Event]:
        """The items of one type that were completed, such as `agent_message` or `command_execution`."""
        return [each["item"] for each in self.of("item.completed") if each["item"].get("type") == kind]

    @property
    def texts(self) -> list[str]:
        """What the model said, piece by piece."""
        return [str(each["text"]) for each in self.items("agent_message")]

    @property
    def text(self) -> str:
        """The final text."""
        return self.texts[-1] if self.texts else ""

    @property
    def session_id(self) -> str:
        """The thread's id; raises ClientFailed if there is none."""
        for each in self.of("thread.started"):
            return str(each["thread_id"])
        raise ClientFailed(f"no thread, exit status {self.status}; stderr:\n{self.stderr}")

    @property
    def denials(self) -> list[Event]:
        """None: what the sandbox refuses fails in the shell."""
        return []

    @property
    def tool_uses(self) -> list[Call]:
        """The commands, in order, as Codex started them: in a shell."""
        return [Call(each["id"], "Bash", {"command": each["command"]}) for each in self.items("command_execution")]

    @property
    def tool_results(self) -> list[ToolResult]:
        """What the commands printed, in order."""
        return [
            ToolResult(each["id"], "Bash", each["aggregated_output"], each["exit_code"] != 0)
            for each in self.items("command_execution")
        ]


@dataclass
class Codex(Installation):
    """One installation of Codex. `settings` are lines of TOML at the top of its configuration."""

    settings: str = ""
    results = CodexResult

    def __post_init__(self) -> None:
        super().__post_init__()
        self.codex_home.mkdir(exist_ok=True)
        config = _CONFIG.format(settings=self.settings, url=self.api.url, key=KEY)
        (self.codex_home / "config.toml").write_text(config)

    @property
    def codex_home(self) -> Path:
        """Where it keeps its configuration, plugins and sessions."""
        return self.home / ".codex"

    def variables(self) -> dict[str, str]:
        """Its home and a key that opens nothing."""
        return {"CODEX_HOME": str(self.codex_home), KEY: "dummy"}

    def start(
        self,
        prompt: str,
        *,
        sandbox: str = "danger-full-access",
        resume: str | None = None,
        settings: Sequence[str] = (),
        extra: Sequence[str] = (),
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        under: Sequence[str] = (),
    ) -> Running:
        """Start `codex exec`. `sandbox` is one of read-only, workspace-write, danger-full-access; `resume` continues a
        thread; `settings` are added to its configuration; the rest is as `Client.start` has it."""
        command = [*under, str(self.binary), "exec", "--json", "-s", sandbox, *extra]
        # What a test works in lies below /tmp, too.
        for each in ("sandbox_workspace_write.exclude_slash_tmp=true", *settings):
            command += ["-c", each]
        command += ["resume", resume] if resume else []
        return self._start([*command, "--", prompt], cwd, environment)

    def run(self, prompt: str, *, timeout: float = 60, **how: Any) -> CodexResult:
        """Run it to its end, started as by `start`. Raises ClientFailed, ScriptFailed."""
        result = self.start(prompt, **how).wait(timeout)
        assert isinstance(result, CodexResult)
        return result

    def install(self, plugin: Path) -> Path:
        """Install a plugin as its users do, from a marketplace that is a folder; its root in the cache."""
        market = directory_market(plugin, self.home / "market")
        self.command("plugin", "marketplace", "add", str(market))
        added = json.loads(self.command("plugin", "add", f"{plugin_name(plugin)}@{market.name}", "--json"))
        root = Path(added["installedPath"])
        compiled(plugin, root)
        return root

    def share(self, other: "Codex") -> Path:
        """Have what `other` installed, without the second that it takes; the plugin's root here."""
        shutil.copytree(other.codex_home / "plugins", self.codex_home / "plugins")
        installed = (other.codex_home / "config.toml").read_text()
        with (self.codex_home / "config.toml").open("a") as file:
            file.write(installed[installed.index("[marketplaces.") :])
        [root] = (self.codex_home / "plugins" / "cache").glob("*/*/*")
        return root

    def hooks(self) -> list[dict[str, Any]]:
        """The hooks as Codex lists them: `key`, `currentHash`, `trustStatus` …"""
        asked = {"cwds": [str(self.project)]}
        return list(self.ask("hooks/list", asked)["data"][0]["hooks"])

    def trust_hooks(self) -> None:
        """Trust every hook that is installed, as a person does in a session of Codex (`/hooks`)."""
        trusted = {each["key"]: {"trusted_hash": each["currentHash"]} for each in self.hooks()}
        edit = {"keyPath": "hooks.state", "value": trusted, "mergeStrategy": "upsert"}
        self.ask("config/batchWrite", {"edits": [edit]})

    def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """What Codex's own server, which its interactive sessions talk to, answers to one request."""
        asked = [
            {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "test", "version": "1"}}},
            {"method": "initialized"},
            {"id": 2, "method": method, "params": params},
        ]
        server = self._start([str(self.binary), "app-server"], None, talks=True)
        assert server.process.stdin is not None
        server.process.stdin.write("".join(json.dumps(each) + "\n" for each in asked).encode())
        server.process.stdin.flush()
        until(lambda: any(each.get("id") == 2 for each in server.result.events), timeout=20)
        [answer] = [each for each in server.result.events if each.get("id") == 2]
        server.wait()
        if "error" in answer:
            raise ClientFailed(f"{method}: {answer['error']}")
        return answer["result"]


__all__ = ["Codex", "CodexResult"]
