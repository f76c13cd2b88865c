"""`faber nebula apply` as a person starts it, with the real client for its agents and a scripted model."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from e2e.client import ENGINE
from e2e.messages_api import MessagesApi
from e2e.processes import kill_all, processes
from e2e.replies import STRUCTURED, Reply, text, tool
from e2e.request import Request
from e2e.terminal import Shown, on_terminal
from support.git_environment import CONFIGURATION

ROOT = Path(__file__).parents[2]
MARKER = "FABER_TEST_NEBULA"


_ROLES = {"Phase": "coder", "Review of phase": "reviewer", "Remediation of phase": "architect"}


class Model:
    """A coder that writes `<phase>.txt` and a reviewer that approves; `asked` says of whom a turn was asked.

    `deeds` replace what the coder of a phase does, turn by turn: each is (file, content). `verdicts` are a phase's
    reviews in turn, before it approves; `plans` what its architect says, turn by turn, before the usual file, and
    `spent` is the usage (output tokens) of a reviewer's answer. `moment` is called with role, phase and request.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.deeds: dict[str, list[Mapping[str, str]]] = {}
        self.verdicts: dict[str, list[Mapping[str, Any]]] = {}
        self.plans: dict[str, list[str]] = {}
        self.spent: dict[str, int] = {}
        self.prompts: list[str] = []
        self.moment: Callable[[str, str, Request], None] = lambda role, phase, request: None

    def __call__(self, request: Request) -> Reply:
        """The answer to one request."""
        prompt = "\n".join(request.texts)
        found = re.search(r"^# (Review of phase|Remediation of phase|Phase) (\S+):", prompt, re.MULTILINE)
        if found is None:
            return text("I do not know what to do.")
        role, phase = _ROLES[found[1]], found[2]
        first = not request.results
        if first:
            self.asked.append((role, phase))
            self.prompts.append(prompt)
        self.moment(role, phase, request)
        if role == "coder":
            return self.code(phase, request, first=first)
        said = self.plan(phase) if role == "architect" else self.review(phase, prompt)
        assert STRUCTURED in request.tools  # the client took the schema, and the agent may use the tool
        return said.called()

    def code(self, phase: str, request: Request, *, first: bool) -> Reply:
        """Write the files, then say so."""
        if not first:
            return text(f"Write {phase}.")
        directory = re.search(r"Your directory is `(.+)`\.", "\n".join(request.texts))
        assert directory
        deeds = self.deeds.get(phase)
        files = deeds.pop(0) if deeds else {f"{phase}.txt": f"{phase}\n"}
        paths = {os.path.join(directory[1], name): content for name, content in files.items()}
        calls = [tool("Read", file_path=path) for path in paths if os.path.exists(path)]  # else it may not be replaced
        calls += [tool("Write", file_path=path, content=content) for path, content in paths.items()]
        said = text("Writing.")
        for call in calls:
            said = said + call
        return said

    def plan(self, phase: str) -> Reply:
        """The file of a remediation."""
        plans = self.plans.get(phase)
        usual = f'+++\nid = "heal-{phase}"\ntitle = "Finish {phase}"\n+++\n\nDo what is missing.\n'
        return text(json.dumps({"phase_file": plans.pop(0) if plans else usual}))

    def review(self, phase: str, prompt: str) -> Reply:
        """Approve, or what the script says."""
        listed = prompt.partition("## Earlier findings")[2].partition("## Answer")[0]
        earlier = [
            {"id": each, "status": "fixed"} for each in re.findall(r"^- (f-[0-9a-f]{12}) ", listed, re.MULTILINE)
        ]
        tree = prompt.partition('"tree": "')[2].partition('"')[0]
        verdicts = self.verdicts.get(phase)
        said = verdicts.pop(0) if verdicts else {"verdict": "approved"}
        usual = {"tree": tree, "summary": f"{phase} is fine.", "findings": [], "earlier": earlier}
        return text(json.dumps({**usual, **said})).using(output_tokens=self.spent.get(phase, 10))


class Faber:
    """`bin/faber` in a project, with nothing of this machine but its programs."""

    def __init__(self, root: Path, home: Path, api: MessagesApi, client: str) -> None:
        self.root = root
        self.marker = uuid4().hex
        home.mkdir(parents=True, exist_ok=True)
        self.environment = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "FABER_CLAUDE": client,
            "ANTHROPIC_BASE_URL": api.url,
            "ANTHROPIC_API_KEY": "dummy",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            **ENGINE,
            "GIT_CONFIG_GLOBAL": str(home / "gitconfig"),
            "GIT_CONFIG_NOSYSTEM": "1",
            MARKER: self.marker,
        }
        if "FABER_VENV" in os.environ:
            self.environment["FABER_VENV"] = os.environ["FABER_VENV"]
        (home / "gitconfig").write_text(CONFIGURATION)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Begin a command."""
        return subprocess.Popen(
            [str(ROOT / "bin/faber"), *arguments],
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, status: int = 0, timeout: float = 120) -> dict[str, Any]:
        """The answer of a command that ends with `status`."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=timeout)
        assert process.returncode == status, f"{process.returncode}\n{out}\n{err}"
        self.stderr = err
        return dict(json.loads(out))

    def on_terminal(self, *arguments: str, **variables: str) -> Shown:
        """A command with a terminal of its own and further variables, run to its end."""
        environment = {**self.environment, "TERM": "xterm-256color", **variables}
        return on_terminal([str(ROOT / "bin/faber"), *arguments], cwd=self.root, environment=environment)

    def kill(self) -> None:
        """SIGKILL everything that the command started, however far it wandered."""
        kill_all(f"{MARKER}={self.marker}")

    def left(self) -> Sequence[Any]:
        """What still runs of it."""
        return processes(f"{MARKER}={self.marker}")


def interrupt(process: "subprocess.Popen[str]") -> int:
    """SIGTERM, and the exit status."""
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    return process.returncode


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for `condition`."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
