"""What a person sees of a real client's agents, while they work and afterwards."""

import subprocess
from pathlib import Path
from typing import Any

from e2e.messages_api import MessagesApi
from e2e.nebulas import Faber, Model
from e2e.replies import Reply, text, tool
from e2e.request import Request
from faber.nebula.plan.nebula_files import load_nebula
from faber.nebula.run.agent_log_view import log_text, read_log
from faber.nebula.run.status import load_status
from faber.store.clock import utc_now
from support.nebulas import Project, nebula_files

TOKEN = "ghp_" + "a1" * 15


class Talkative(Model):
    """A coder that tries what it may not, and says what it should not."""

    def code(self, phase: str, request: Request, *, first: bool) -> Reply:
        """The calls of one turn."""
        if len(request.results) == 0:
            return text(f"I try the tests with {TOKEN}.") + tool("Bash", command="npm test")
        if len(request.results) == 1:
            return super().code(phase, request, first=True)
        return super().code(phase, request, first=False)


def test_an_agents_log_and_its_session(tmp_path: Path, api: MessagesApi, claude_binary: str) -> None:
    """`log` shows what the coder said, did and was denied, while it works and afterwards; `status` counts its tokens
    and denied calls; what `attach` prints opens the session with all that was said, with its client's settings."""
    project, model = Project(tmp_path / "p", nebula_files({"a": []})), Talkative()
    faber = Faber(project.root, tmp_path / "home", api, claude_binary)
    faber.environment["CLAUDE_CONFIG_DIR"] = str(tmp_path / "its config")
    live: list[str] = []

    def look(role: str, phase: str, request: Request) -> None:
        if role == "coder" and len(request.results) == 1:
            (run_id,) = project.layout.run_ids()
            live.append(log_text(read_log(project.layout.agent_logs(run_id), "a"), 80))

    model.moment = look
    api.script.always(model)
    report = faber.run("nebula", "apply", "plan")
    assert report["status"] == "done"
    assert "The coder of a was denied 1 call: Bash: npm test. Allow what it needs in agent_tools" in faber.stderr
    assert "I try the tests with [REDACTED].\n> Bash: npm test\n  ! " in live[0]
    assert "== coder, cycle 1  " in live[0]
    shown = _shown(faber, "nebula", "log", "plan", "a")
    assert all(said in shown for said in ("== reviewer, cycle 1", "> Write: ", "Write a.", "approved after 1 cycle"))
    assert TOKEN not in shown + "".join(path.read_text() for path in project.root.glob(".fractary/faber/runs/**/*.*"))
    nebula = load_nebula(project.directory).nebula
    status: Any = load_status(project.layout, nebula, project.directory, utc_now())[0]
    (row,) = status["phases"]
    assert (row["denials"], row["denied"]) == (1, ["Bash: npm test"])
    assert row["tokens_in"] > 0 < row["tokens_out"]

    del faber.environment["CLAUDE_CONFIG_DIR"]  # as in another shell
    line = _shown(faber, "nebula", "attach", "a", "--role", "coder").strip()
    assert f"CLAUDE_CONFIG_DIR='{tmp_path}/its config' {claude_binary} --resume " in line
    asked: list[Request] = []
    api.script.always(lambda request: asked.append(request) or text("I wrote a."))  # type: ignore[func-returns-value]
    done: Any = subprocess.run(
        ["/bin/sh", "-c", f"{line} -p 'What did you do?'"],
        cwd="/", env=faber.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, "I wrote a."), done.stderr
    assert asked[-1].has("I try the tests with")
    assert asked[-1].has("What did you do?")


def _shown(faber: Faber, *arguments: str) -> str:
    out, err = (process := faber.start(*arguments)).communicate(timeout=60)
    assert process.returncode == 0, out + err
    return out
