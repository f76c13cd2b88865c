"""The real client, started as a person or a program would start it, in an environment of its own.

    client = Client(binary, tmp_path / "home", make_project(tmp_path / "project"), api, plugin_dir=root)
    result = client.run("/faber:status", allowed_tools=["Bash"])
    running = client.start("continue");  running.kill()        # as a crash would

The client sees nothing of the machine but the programs on PATH, and speaks to the scripted API alone.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID, uuid4

from e2e.messages_api import MessagesApi
from e2e.processes import Process, kill_all, processes
from e2e.repositories import compiled, directory_market, plugin_name, publish
from e2e.request import ToolResult

# A client here lives for seconds: compiling hot code and collecting garbage cost its engine a third of its CPU time.
ENGINE = {"BUN_JSC_useDFGJIT": "0", "BUN_JSC_useGC": "0"}
# Where no terminal is, a plugin's mod draws nothing: a thread of its own for it costs a sixth of a start.
HEADLESS = {"CLAUDE_CODE_HOOKS_SAME_THREAD": "1"}
# Both ends of the supported versions, by the variable that names the binary.
WINDOW = {"oldest": "FABER_TEST_CLAUDE_OLDEST", "newest": "FABER_TEST_CLAUDE"}
MARKER = "FABER_TEST_CLIENT"  # in the environment of every process that a client starts, however far it wanders

Event = dict[str, Any]


class ClientFailed(AssertionError):
    """The client did not end, or not as it had to."""


@dataclass(frozen=True)
class Call:
    """A tool call as the client reported it."""

    id: str
    name: str
    input: Mapping[str, Any]


@dataclass(frozen=True)
class Result:
    """How a run of the client ended: its exit status and the events it printed."""

    status: int
    events: Sequence[Event]
    stderr: str

    def of(self, kind: str, subtype: str | None = None) -> list[Event]:
        """The events of one type."""
        return [
            each
            for each in self.events
            if each.get("type") == kind and (subtype is None or each.get("subtype") == subtype)
        ]

    @property
    def result(self) -> Event:
        """The last result event; raises ClientFailed if there is none."""
        found = self.of("result")
        if not found:
            raise ClientFailed(f"no result event, exit status {self.status}; stderr:\n{self.stderr}")
        return found[-1]

    @property
    def text(self) -> str:
        """The final text, as the client gives it."""
        return str(self.result.get("result") or "")

    @property
    def session_id(self) -> str:
        """The session's id."""
        return str(self.result["session_id"])

    @property
    def denials(self) -> list[Event]:
        """The tool calls that permissions refused."""
        return list(self.result["permission_denials"])

    @property
    def texts(self) -> list[str]:
        """What the model said, piece by piece."""
        return [str(block["text"]) for block in self._blocks("assistant") if block.get("type") == "text"]

    @property
    def tool_uses(self) -> list[Call]:
        """The tool calls, in order."""
        return [
            Call(block["id"], block["name"], block["input"])
            for block in self._blocks("assistant")
            if block.get("type") == "tool_use"
        ]

    @cached_property
    def tool_results(self) -> list[ToolResult]:
        """The results of the tool calls, in order."""
        names = {each.id: each.name for each in self.tool_uses}
        return [
            ToolResult.of(block, names)
            for block in self._blocks("user")
            if isinstance(block, dict) and block.get("type") == "tool_result"
        ]

    def _blocks(self, kind: str) -> list[Any]:
        contents = [each["message"]["content"] for each in self.of(kind)]
        return [block for content in contents if isinstance(content, list) for block in content]


class Running:
    """A client that was started. Its output goes to files, so that no child of its can keep a reader waiting."""

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        *,
        api: MessagesApi,
        output: Path,
        talks: bool = False,
        kind: type[Result] = Result,
    ) -> None:
        self.marker = f"{MARKER}={environment[MARKER]}"
        self._api = api
        self._out = output.with_suffix(".out")
        self._err = output.with_suffix(".err")
        self._turns = 0
        self._kind = kind
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                command,
                cwd=cwd,
                env=dict(environment),
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The client's process id."""
        return self.process.pid

    @property
    def processes(self) -> list[Process]:
        """The running processes: the client and all its descendants."""
        return processes(self.marker)

    @property
    def result(self) -> Result:
        """What it has printed so far; the status is -1 while it runs."""
        status = self.process.poll()
        return self._kind(-1 if status is None else status, _events(self._out.read_bytes()), self.stderr)

    @property
    def stderr(self) -> str:
        """What it has printed on stderr so far."""
        return self._err.read_text(errors="replace")

    @property
    def stdout(self) -> str:
        """What it has printed on stdout so far, as it is."""
        return self._out.read_text(errors="replace")

    def wait(self, timeout: float = 60) -> Result:
        """Let it end by itself. Raises ClientFailed if it does not (all of it is killed), ScriptFailed."""
        self._hang_up()
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ClientFailed(self._told(f"the client did not end within {timeout} s")) from None
        self._api.raise_failures()
        return self.result

    def turn(self, prompt: str, timeout: float = 60) -> Result:
        """Say `prompt` to a client that was started with `prompt=None`, and let it answer: this turn's events."""
        if self.process.stdin is None:
            raise ValueError("this client has its prompt; start it with None to talk to it")
        before = len(self.result.events)
        message = {"type": "user", "message": {"role": "user", "content": prompt}}
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, which is told below
        self._turns += 1
        deadline, seen = time.monotonic() + timeout, -1
        while True:
            over = self.process.poll() is not None or time.monotonic() > deadline
            if (size := self._out.stat().st_size) != seen:  # a long conversation takes long to read
                seen, now = size, self.result
                if len(now.of("result")) >= self._turns:
                    break
            if over:
                self.kill()
                raise ClientFailed(self._told(f"no answer to {prompt!r} (exit status {now.status})"))
            time.sleep(0.01)
        self._api.raise_failures()
        return Result(now.status, now.events[before:], now.stderr)

    def signal(self, number: int) -> None:
        """Send the client, and only it, a signal."""
        self.process.send_signal(number)

    def kill(self) -> list[Process]:
        """End all of it at once, as a crash of the machine would; returns the processes that this ended."""
        killed = kill_all(self.marker)
        self.collect()
        return killed

    def collect(self) -> None:
        """Take note of a client that has ended."""
        self.process.wait()
        self._hang_up()

    def _hang_up(self) -> None:
        if self.process.stdin:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass  # what was not yet written is lost with the client

    def _told(self, what: str) -> str:
        return f"{what}; stderr:\n{self.stderr}\nthe last requests were:\n{self._api.shown()}"


def _events(printed: bytes) -> list[Event]:
    """The events printed; a last line without its end was cut off by a kill, or is still being written."""
    lines = printed.split(b"\n")[:-1]
    try:
        return [json.loads(line) for line in lines if line.strip()]
    except ValueError:
        raise ClientFailed(f"stdout is not stream-json:\n{printed.decode(errors='replace')[:2000]}") from None


@dataclass
class Installation:
    """One installation of a client: its HOME, the project it works in.

    `extra_environment` is added to every start.
    """

    binary: str | Path
    home: Path
    project: Path
    api: MessagesApi
    extra_environment: Mapping[str, str] = field(default_factory=dict)

    results: ClassVar[type[Result]] = Result

    def __post_init__(self) -> None:
        self._id = uuid4().hex
        self._numbers = count(1)
        self._started: list[Running] = []
        for name in ("tmp", "output"):
            (self.home / name).mkdir(parents=True, exist_ok=True)

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """All that a client is told of its surroundings; each call's has a marker of its own."""
        kept = {name: os.environ[name] for name in ("FABER_VENV",) if os.environ.get(name)}
        return {
            "HOME": str(self.home),
            "PATH": _path(),
            "TMPDIR": str(self.home / "tmp"),
            "GIT_CONFIG_NOSYSTEM": "1",
            **self.variables(),
            MARKER: f"{self._id}-{next(self._numbers)}.",
            **kept,
            **self.extra_environment,
            **(extra or {}),
        }

    def variables(self) -> dict[str, str]:
        """What this kind of client is told in variables."""
        return {}

    def _start(
        self,
        command: Sequence[str],
        cwd: Path | None,
        environment: Mapping[str, str] | None = None,
        *,
        talks: bool = False,
    ) -> Running:
        variables = self.environment(environment)
        output = self.home / "output" / str(len(self._started))
        cwd = cwd or self.project
        running = Running(command, cwd, variables, api=self.api, output=output, talks=talks, kind=self.results)
        self._started.append(running)
        return running

    def command(self, *arguments: str, cwd: Path | None = None, timeout: float = 60) -> str:
        """What another command of the client prints (`plugin`, `mcp` …); raises ClientFailed if it fails."""
        running = self._start([str(self.binary), *arguments], cwd)
        try:
            status: int | None = running.process.wait(timeout)
        except subprocess.TimeoutExpired:
            status = None
            running.kill()
        if status != 0:
            said = f"{running.stdout}\n{running.stderr}"
            raise ClientFailed(f"{Path(self.binary).name} {' '.join(arguments)} ended with {status}:\n{said}")
        return running.stdout

    @property
    def running(self) -> list[Process]:
        """What runs of any client that was started here."""
        return processes(f"{MARKER}={self._id}-")

    def close(self) -> None:
        """Kill all that is left of every client that was started."""
        kill_all(f"{MARKER}={self._id}-")
        for each in self._started:
            each.collect()


@dataclass
class Client(Installation):
    """Claude Code, with the plugin it was given."""

    plugin_dir: Path | None = None

    def variables(self) -> dict[str, str]:
        """What this kind of client is told in variables."""
        return {
            "ANTHROPIC_BASE_URL": self.api.url,
            "ANTHROPIC_API_KEY": "dummy",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            **ENGINE,
        }

    def start(
        self,
        prompt: str | None,
        *,
        session_id: str | UUID | None = None,
        resume: str | UUID | None = None,
        allowed_tools: Sequence[str] = (),
        max_turns: int | None = None,
        extra: Sequence[str] = (),
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        under: Sequence[str] = (),
    ) -> Running:
        """Start a headless client; with `prompt` None it takes its prompts from `turn`.

        `extra` are further arguments, `environment` further variables, `under` a command to run it under
        (`["strace", …]`). It works in `cwd`, by default the project.
        """
        command = [*under, str(self.binary), "-p", "--output-format", "stream-json", "--verbose"]
        command += ["--input-format", "stream-json"] if prompt is None else []
        command += ["--plugin-dir", str(self.plugin_dir)] if self.plugin_dir else []
        command += ["--session-id", str(session_id)] if session_id else []
        command += ["--resume", str(resume)] if resume else []
        command += ["--max-turns", str(max_turns)] if max_turns is not None else []
        command += extra
        command += ["--allowedTools", *allowed_tools] if allowed_tools else []
        command += [] if prompt is None else ["--", prompt]
        return self._start(command, cwd, {**HEADLESS, **(environment or {})}, talks=prompt is None)

    def run(self, prompt: str, *, timeout: float = 60, **how: Any) -> Result:
        """Run a headless client to its end, started as by `start`. Raises ClientFailed, ScriptFailed."""
        return self.start(prompt, **how).wait(timeout)

    def configure(self, **settings: Any) -> None:
        """Set keys of the user's settings, such as `permissions={"allow": [...]}`."""
        path = self.home / ".claude" / "settings.json"
        path.parent.mkdir(exist_ok=True)
        before = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**before, **settings}))

    def transcript(self, session_id: str | UUID) -> list[Event]:
        """What the client has written of a session: up to a tenth of a second less than what it has done."""
        found = (self.home / ".claude" / "projects").glob(f"*/{session_id}.jsonl")
        return [event for path in found for event in _events(path.read_bytes())]

    def install(self, plugin: Path, *, folder: bool = False) -> Path:
        """Install a plugin as its users do, from a marketplace that names a git repository; its root in the cache.
        With `folder`, the marketplace is a folder with the plugin in it.

        What is installed is the plugin's files as they are now, also those not committed. Called again, it updates.
        """
        market = (directory_market if folder else publish)(plugin, self.home / "market")
        name = f"{plugin_name(plugin)}@{market.name}"
        if self._installed(name):
            self.command("plugin", "marketplace", "update", market.name)
            self.command("plugin", "update", name)
        else:
            self.command("plugin", "marketplace", "add", str(market))
            self.command("plugin", "install", name)
        [root] = self._installed(name)
        compiled(plugin, root)
        return root

    def _installed(self, name: str) -> list[Path]:
        registry = self.home / ".claude" / "plugins" / "installed_plugins.json"
        known = json.loads(registry.read_text())["plugins"] if registry.exists() else {}
        return [Path(each["installPath"]) for each in known.get(name, ())]


def _path() -> str:
    """The directories of this Python (as installed: an environment's may hold a faber), of git, and the system's."""
    python = Path(os.path.realpath(sys.executable)).parent
    git = Path(shutil.which("git") or "/usr/bin/git").parent
    system = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"]
    return os.pathsep.join(dict.fromkeys([str(python), str(git), *system]))
