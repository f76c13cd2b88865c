"""One process of the client, talked to over its streams: prompts in, events out; interrupted, or killed with all it
started."""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from faber.agents import supervisor

MARKER = "FABER_TRIAL"  # in the environment of everything that a run starts
# What every arm may do without being asked. The trial belongs into a container: a shell is a shell.
TOOLS = ("Bash", "Edit", "Read", "Write", "Skill", "Glob", "Grep", "TodoWrite")
TURNS = 150  # of one process: a call that is cut again and again would never end
SECONDS_TO_STOP = 20.0
Event = dict[str, Any]


@dataclass(frozen=True)
class Setup:
    """The client and the endpoint that a person named. `key_variable` is what the client calls the key."""

    client: str
    base_url: str
    model: str
    key: str = field(repr=False)
    key_variable: str = "ANTHROPIC_API_KEY"
    plugin: Path = Path()
    start_usd: float = 1.0  # what one start of the client may spend
    minutes: float = 30.0  # that one run may take
    extra: Mapping[str, str] = field(default_factory=dict)

    def environment(self, home: Path, marker: str) -> dict[str, str]:
        """All that a client is told of its surroundings; of this machine's environment it gets PATH and the locale."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if os.environ.get(name)}
        (home / "tmp").mkdir(parents=True, exist_ok=True)
        return {
            **kept,
            "HOME": str(home),
            "TMPDIR": str(home / "tmp"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "ANTHROPIC_BASE_URL": self.base_url,
            self.key_variable: self.key,
            # Side requests go to the same model: nothing else is asked.
            "ANTHROPIC_SMALL_FAST_MODEL": self.model,
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": self.model,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            MARKER: marker,
            **self.extra,
        }


class Session:
    """A client process in `project`; a resumed one continues the conversation `session_id`."""

    def __init__(self, setup: Setup, project: Path, home: Path, session_id: str, *, resume: bool, faber: bool) -> None:
        self.id = session_id
        marker = uuid4().hex
        self._marker = f"{MARKER}={marker}"
        command = [setup.client, "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
        command += ["--model", setup.model, "--permission-mode", "acceptEdits", "--max-turns", str(TURNS)]
        command += ["--max-budget-usd", f"{setup.start_usd:.6f}", "--resume" if resume else "--session-id", session_id]
        command += ["--plugin-dir", str(setup.plugin)] if faber else []
        command += ["--allowedTools", *TOOLS]
        environment = setup.environment(home, marker)
        # The supervisor ends it all when this process is gone, however it went: nobody else would stop the spending.
        held, self._lifeline = os.pipe()
        command = [sys.executable, supervisor.__file__, str(held), "0", self._marker, *command]
        with (home / "stderr").open("ab") as errors:
            self._process = subprocess.Popen(
                command, cwd=project, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                pass_fds=[held], start_new_session=True,
            )  # fmt: skip
        os.close(held)
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def say(self, prompt: str) -> None:
        """Give the client a prompt."""
        self._send({"type": "user", "message": {"role": "user", "content": prompt}})

    def hear(self, take: Callable[[Event], bool], deadline: float) -> str:
        """Pass events to `take` until it returns true (`point`), a result came (`result`), the client has ended
        (`ended`), or the time is up (`late`)."""
        while True:
            try:
                event = self._events.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return "late"
            if event is None:
                return "ended"
            reached = take(event)
            if event.get("type") == "result":
                return "result"
            if reached:
                return "point"

    def interrupt(self, take: Callable[[Event], bool]) -> str:
        """End the turn as a person does with a key: the client stops, says what it cost, and waits for a prompt."""
        self._send({"type": "control_request", "request_id": uuid4().hex, "request": {"subtype": "interrupt"}})
        deadline = time.monotonic() + SECONDS_TO_STOP
        while (heard := self.hear(take, deadline)) == "point":
            pass
        return heard

    def close(self) -> None:
        """Let the client end as it does by itself, and end what it has left behind."""
        self._hang_up()
        try:
            self._process.wait(SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            pass
        self.kill()

    def kill(self) -> None:
        """SIGKILL the client and everything it started, however far that has wandered."""
        supervisor.kill_marked(self._marker)
        self._process.kill()
        self._process.wait()
        self._hang_up()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def _send(self, message: Mapping[str, object]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass  # it has ended, which is heard

    def _hang_up(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # what was not yet written is lost with the client

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as printed:
            for line in printed:
                try:
                    event = json.loads(line)
                except ValueError:
                    continue  # cut off by a kill
                if isinstance(event, dict):
                    self._events.put(event)
        self._events.put(None)


def answer_as_a_person(faber: Path, project: Path, words: str, environment: Mapping[str, str]) -> str:
    """Answer the open request of the project's run in a terminal with these words, or, where it takes only options,
    with the first one and the words as a remark. The code of a refusal, else `answered` or `chosen`."""
    bare = {name: value for name, value in environment.items() if not name.startswith(("ANTHROPIC", "CLAUDE"))}

    def said(*arguments: str) -> dict[str, Any]:
        command = [str(faber), "feedback", "respond", "latest", *arguments]
        done = subprocess.run(command, cwd=project, env=bare, capture_output=True, timeout=SECONDS_TO_STOP, check=False)
        return dict(json.loads(done.stdout or b"{}").get("error") or {})

    error = said(words)
    if error.get("code") == "not_an_option":
        error = said(str(error["options"][0]), "--comment", words)
        return str(error.get("code") or "chosen")
    return str(error.get("code") or "answered")
