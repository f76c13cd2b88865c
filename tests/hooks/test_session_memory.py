"""What hooks keep about a session: its transcript and its client, and that it is still alive."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from faber.context import session_record
from faber.context.session_record import SessionRecord
from faber.hooks.hook_call import Call
from faber.hooks.start import session_start
from faber.hooks.tool_permission import pre_tool_use
from faber.model import commands
from faber.store.appending import Writer
from faber.store.commit import commit
from faber.store.create import NewRun, create_run
from faber.store.layout import Layout

FABER = Path(__file__).resolve().parents[2] / "bin" / "faber"
PLAN: Any = {
    "schema_version": 1,
    "workflow_id": "w",
    "phases": [
        {
            "id": "a",
            "name": "a",
            "steps": [
                {"id": "write", "name": "Write"},
                {"id": "test", "name": "Test", "evidence": [{"kind": "command", "value": "make test"}]},
            ],
        }
    ],
}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A store with run `r`, whose first step session a has started."""
    made = Layout(str(tmp_path.resolve()))
    create_run(
        made, NewRun("r", PLAN, work_id=None, target="Add an export", autonomy="autonomous", created_by="person")
    )
    commit(made, "r", lambda state, plan: commands.start_step(state, plan, "a", "write"), Writer("a"))
    return made


def call(layout: Layout, session: str, **given: object) -> Call:
    """A call of a hook for the session."""
    return Call(given, session, layout, layout.root, str(FABER))


def record(layout: Layout, session: str = "a") -> SessionRecord:
    """The session's record, which must exist."""
    found = session_record.read(layout, session)
    assert found is not None
    return found


def test_a_start_keeps_transcript_and_client(layout: Layout, tmp_path: Path) -> None:
    """A start notes the transcript; one that names a file that does not exist keeps the earlier transcript."""
    transcript = tmp_path / "a.jsonl"
    session_start(call(layout, "a", source="startup", transcript_path=str(transcript)))
    assert record(layout).transcript == str(transcript)  # the client writes it later
    transcript.write_text("{}\n")
    session_start(call(layout, "a", source="resume", transcript_path=str(tmp_path / "elsewhere.jsonl")))
    assert record(layout).transcript == str(transcript)
    for odd in ("relative.jsonl", 7, "/" + "x" * 5_000):
        session_start(call(layout, "a", source="resume", transcript_path=odd))
        assert record(layout).transcript == str(transcript)


def test_a_start_dates_its_record(layout: Layout) -> None:
    """A start with nothing new dates the record, because it is a sign of life."""
    session_start(call(layout, "a", source="startup"))
    path = session_record.path_of(layout, "a")
    os.utime(path, (1, 1))
    session_start(call(layout, "a", source="resume"))
    assert time.time() - session_record.signs(layout, "a", "b").started < 60


def test_the_client_is_found_behind_shells(layout: Layout) -> None:
    """The client is the process that started the shell that calls the hook, not the shell, which ends at once."""
    given = json.dumps({"source": "startup", "session_id": "a"})
    environment = {"PATH": os.environ["PATH"], "FABER_VENV": os.environ.get("FABER_VENV") or sys.prefix}
    for shell in ("sh", "bash"):
        subprocess.run(
            [shell, "-c", f'"{FABER}" hook session-start; true'],
            input=given.encode(),
            cwd=layout.root,
            env=environment,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        if os.path.exists("/proc/self/stat"):
            assert record(layout).client == os.getpid()
        os.unlink(session_record.path_of(layout, "a"))


def test_a_call_of_faber_is_a_sign_of_life(layout: Layout, capfd: pytest.CaptureFixture[str]) -> None:
    """An allowed call notes the transcript of a session that no start has noted, and keeps what a session knows."""
    given = {"tool_name": "Bash", "tool_input": {"command": f"{FABER} next"}, "transcript_path": "/tmp/a.jsonl"}
    pre_tool_use(call(layout, "a", **given))
    assert record(layout)[:4] == ("", 0, (), "/tmp/a.jsonl")
    session_record.write(layout, "a", SessionRecord("r", 3, ("step",)))
    pre_tool_use(call(layout, "a", **given))
    assert record(layout)[:4] == ("r", 3, ("step",), "/tmp/a.jsonl")
    session_record.write(layout, "b", SessionRecord("r", 1))
    pre_tool_use(call(layout, "b", **given | {"tool_input": {"command": "ls"}}))
    assert record(layout, "b").transcript == ""
    assert capfd.readouterr().out.count("allow") == 2


def test_a_call_without_the_sandbox_is_more_than_a_plain_one(layout: Layout, capfd: pytest.CaptureFixture[str]) -> None:
    """A call that asks to run outside the client's sandbox is left to the client."""
    given = {"command": f"{FABER} next", "dangerouslyDisableSandbox": True}
    pre_tool_use(call(layout, "a", tool_name="Bash", tool_input=given))
    assert capfd.readouterr().out == ""


def test_a_record_of_an_older_faber_is_read(layout: Layout) -> None:
    """A record without transcript and client is one of which these are unknown; odd values of them are, too."""
    path = Path(session_record.path_of(layout, "a"))
    session_record.write(layout, "a", SessionRecord("r", 2, ("step",), "/tmp/t", 7, "host"))
    whole = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in whole.items() if k not in ("transcript", "client", "machine")}))
    assert record(layout) == SessionRecord("r", 2, ("step",))
    path.write_text(json.dumps(whole | {"transcript": 1, "client": "x", "machine": None}))
    assert record(layout) == SessionRecord("r", 2, ("step",))


@pytest.mark.parametrize(
    ("session", "arguments", "allowed"),
    [
        ("a", "a:write", True),
        ("a", "r a:write", True),
        ("a", "latest a:write", True),
        ("a", "a:test", False),
        ("a", "r a:test", False),
        ("a", "latest a:test", False),
        ("a", "r --message done a:test", False),
        ("a", "--message done a:test", False),
        ("b", "a:write", False),
        ("b", "r a:write", True),
        ("a", "", False),
    ],
)
def test_a_step_without_run_is_the_session_s(
    layout: Layout, capfd: pytest.CaptureFixture[str], session: str, arguments: str, allowed: bool
) -> None:
    """Completing a step is allowed if the step of the session's run, where none is named, runs no command."""
    command = f"{FABER} step complete {arguments}".strip()
    pre_tool_use(call(layout, session, tool_name="Bash", tool_input={"command": command}))
    assert ("allow" in capfd.readouterr().out) == allowed
