"""One session at a time works on a run: who holds it, who waits, and who takes over."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from faber.context import session_record
from faber.context.session_record import SessionRecord
from faber.hooks.ending import session_end
from faber.hooks.hook_call import Call
from faber.hooks.start import session_start
from faber.store import log
from faber.store.layout import Layout
from support.logs import change_event

Faber = Callable[..., Any]
Enter = Callable[[str | None], None]
STEP = "frame:fetch-work"
ENTRY = Path(__file__).resolve().parents[2] / "scripts" / "faber" / "__main__.py"


@pytest.fixture
def begun(faber: Faber, session: Enter) -> str:
    """A run whose first step session a has started; both sessions have its context, and b asks now."""
    assert faber("run", "init", "--run-id", "r").status == 0
    for name in ("b", "a"):
        session(name)
        assert faber("context", "r", "--record").status == 0
    assert faber("step", "start", "r", STEP).status == 0
    session("b")
    return "r"


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """`later(20)`: twenty minutes from now, for whoever looks at the clock."""
    now = time.time

    def advance(minutes: float) -> None:
        monkeypatch.setattr("time.time", lambda: now() + minutes * 60)

    return advance


def layout_of(project: Path) -> Layout:
    """The project's store."""
    return Layout(str(project))


def may_work(faber: Faber) -> bool:
    """Whether the session may start the step: `next` hands it out and `step start` accepts it."""
    asked, started = faber("next", "r", "--peek").json["action"], faber("step", "start", "r", STEP)
    assert (asked, started.status) in (("step", 0), ("wait", 4)), (asked, started.out)
    return bool(asked == "step")


def test_a_second_session_waits(faber: Faber, begun: str) -> None:
    """`next` says to wait, who works on the run since when, and how a person lets this session take over."""
    for options in ([], ["--peek"], ["--only"]):
        answer = faber("next", "r", *options).json
        assert (answer["action"], answer.get("start_with"), answer.get("complete_with")) == ("wait", None, None)
        assert "session a does since 20" in answer["why"]
        assert "faber run takeover r`" in answer["instruction"]
        assert not answer.get("recorded")


@pytest.mark.parametrize(
    "command",
    [
        ["step", "start", "r", STEP],
        ["step", "complete", "r", STEP],
        ["step", "fail", "r", STEP, "--error", "red"],
        ["phase", "start", "r", "frame"],
        ["phase", "fail", "r", "frame", "--error", "red"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_second_session_s_work_is_refused(faber: Faber, begun: str, command: list[str]) -> None:
    """What works on a step is refused in another session, with a code and the holder, and changes no step."""
    before = faber("run", "show", "r").json["state"]["phases"]
    refused = faber(*command)
    assert (refused.status, refused.code, refused.json["error"]["holder"]) == (4, "held_elsewhere", "a")
    assert faber("run", "show", "r").json["state"]["phases"] == before


def test_the_holder_goes_on(faber: Faber, begun: str, session: Enter, later: Callable[[float], None]) -> None:
    """The session that holds the run completes and begins steps, however long it was silent; so does a person."""
    later(600)
    session("a")
    assert faber("step", "complete", "r", STEP).status == 0
    assert faber("next", "r").json["action"] == "step"
    session(None)
    assert faber("step", "start", "r", "frame:classify").status == 0


def test_notes_of_others_change_nothing(faber: Faber, begun: str, session: Enter) -> None:
    """Another session may record a decision, a summary and a request; the run stays with its holder."""
    assert faber("event", "emit", "r", "--type", "decision_point", "--message", "Use CSV").status == 0
    assert faber("session", "save", "r", "--accomplished", "a look").status == 0
    assert not may_work(faber)


def test_a_silent_holder_is_replaced(faber: Faber, begun: str, session: Enter, later: Callable[[float], None]) -> None:
    """After 15 minutes without a sign another session continues the step; the first is then refused."""
    later(14)
    assert not may_work(faber)
    later(16)
    assert may_work(faber)
    later(0)
    assert faber("run", "show", "r").json["state"]["recent_events"][-1]["file"].endswith("-run_held.json")
    last = faber("run", "show", "r").json["state"]["last_event_id"]
    assert faber("step", "start", "r", STEP).json["last_event_id"] == last  # it holds the run now
    session("a")
    for command in (["step", "complete", "r", STEP], ["step", "start", "r", STEP], ["next", "r"]):
        refused = faber(*command)
        assert (refused.status, refused.code, refused.json["error"]["holder"]) == (4, "taken_over", "b")
    session("b")
    assert faber("step", "complete", "r", STEP).status == 0


def test_the_bound_is_configured(faber: Faber, project: Path, begun: str, later: Callable[[float], None]) -> None:
    """`sessions.silent_minutes` says after how many minutes a silent session counts as gone."""
    (project / ".fractary" / "faber" / "config.yaml").write_text("sessions: {silent_minutes: 60}\n")
    later(59)
    assert not may_work(faber)
    later(61)
    assert may_work(faber)


def brief(project: Path, name: str, transcript: Path | None = None, source: str = "startup") -> None:
    """The client starts the session, and names its transcript."""
    given = {"source": source, "transcript_path": str(transcript)} if transcript else {"source": source}
    session_start(Call(given, name, layout_of(project), str(project), "/bin/faber"))


def stamp(at: float) -> str:
    """The timestamp of an event at that time."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.mark.parametrize("sign", ["event", "transcript", "record"])
def test_each_sign_of_life_counts(
    faber: Faber, project: Path, begun: str, session: Enter, later: Callable[[float], None], sign: str
) -> None:
    """An event of the holder's, a change of its transcript and a new start of it each keep the run for it."""
    transcript = project.parent / "a.jsonl"
    transcript.write_text("{}\n")
    brief(project, "a", transcript)
    record = session_record.path_of(layout_of(project), "a")
    long_ago = time.time() - 3600
    for path in (record, transcript):
        os.utime(path, (long_ago, long_ago))
    later(16)
    if sign == "event":
        session("a")
        future = stamp(time.time() + 600)
        log = project / ".fractary" / "faber" / "runs" / "r" / "events"
        faber("event", "emit", "r", "--type", "checkpoint")
        newest = sorted(log.iterdir())[-1]
        change_event(newest, timestamp=future)
        faber("repair", "r")
        session("b")
    else:
        soon = time.time() + 10 * 60
        os.utime(record if sign == "record" else transcript, (soon, soon))
    assert not may_work(faber)


@pytest.mark.parametrize("sign", ["event", "transcript", "record"])
def test_a_sign_from_the_future_is_none(
    faber: Faber, project: Path, begun: str, later: Callable[[float], None], sign: str
) -> None:
    """What a wrong clock dated two days ahead keeps no run for two days."""
    transcript = project.parent / "a.jsonl"
    transcript.write_text("{}\n")
    brief(project, "a", transcript)
    record = session_record.path_of(layout_of(project), "a")
    long_ago, ahead = time.time() - 3600, time.time() + 2 * 86_400
    for path in (record, transcript):
        os.utime(path, (long_ago, long_ago))
    later(16)
    if sign == "event":
        newest = sorted((project / ".fractary/faber/runs/r/events").iterdir())[-1]
        newest.write_text(json.dumps(json.loads(newest.read_text()) | {"timestamp": stamp(ahead)}))
        faber("repair", "r")
    else:
        os.utime(record if sign == "record" else transcript, (ahead, ahead))
    assert may_work(faber)


def test_a_failed_run_waits_for_nobody(faber: Faber, begun: str, session: Enter) -> None:
    """While a run is not in progress nobody holds it, and the session that resumes it does."""
    session("a")
    assert faber("feedback", "request", "r", "--prompt", "Well?").status == 0
    assert faber("run", "fail", "r", "--error", "red").json["status"] == "failed"
    session("b")
    answer = faber("run", "resume", "r").json
    assert [event["type"] for event in answer["recorded"]] == ["workflow_resumed", "run_held"]
    session(None)
    assert faber("feedback", "respond", "r", "approve").status == 0
    session("b")
    assert may_work(faber)
    session("a")
    assert faber("next", "r").code == "taken_over"


def test_resuming_a_run_in_progress_takes_it_from_nobody(faber: Faber, begun: str, session: Enter) -> None:
    """`run resume` of a run that another session works on, or that a person took from this one, changes no holder."""
    assert [event["type"] for event in faber("run", "resume", "r").json["recorded"]] == ["workflow_resumed"]
    assert not may_work(faber)
    session(None)
    assert faber("run", "takeover", "r").status == 0
    session("a")
    assert [event["type"] for event in faber("run", "resume", "r").json["recorded"]] == ["workflow_resumed"]
    assert faber("next", "r").code == "taken_over"


def test_a_session_that_ends_leaves_every_run_it_holds(faber: Faber, project: Path, begun: str, session: Enter) -> None:
    """SessionEnd is recorded in each run that the session holds, and in the one it worked on last, and no other."""
    session("a")
    for run_id in ("noted", "last"):
        assert faber("run", "init", "--run-id", run_id).status == 0
        assert faber("event", "emit", run_id, "--type", "checkpoint").status == 0
    session_end(Call({"reason": "exit"}, "a", layout_of(project), str(project), "/bin/faber"))
    ended = {
        run_id: faber("run", "show", run_id).json["state"]["recent_events"][-1]["file"].endswith("session_end.json")
        for run_id in ("r", "noted", "last")
    }
    assert ended == {"r": True, "noted": False, "last": True}
    session("b")
    assert may_work(faber)


def test_a_session_is_bound_to_no_run_of_another(faber: Faber, session: Enter) -> None:
    """`run begin` for a run that another session works on leaves this session with its own."""
    session("a")
    held = faber("run", "begin", "Add a CSV export", "--next").json["run_id"]
    session("b")
    own = faber("run", "begin", "Own task").json["run_id"]
    answer = faber("run", "begin", "Add a CSV export", "--next").json
    assert (answer["run_id"], answer["action"], answer["continued"]) == (held, "wait", True)
    assert faber("run", "show").json["run_id"] == own


def test_a_session_that_ended_holds_nothing(faber: Faber, project: Path, begun: str, session: Enter) -> None:
    """Once the client recorded the session's end another continues at once, unless the session was started again."""
    session("a")
    assert faber("event", "emit", "r", "--type", "session_end", "--metadata", '{"reason": "exit"}').status == 0
    session("b")
    assert faber("next", "r", "--peek").json["action"] == "step"
    soon = time.time() + 5
    brief(project, "a", source="resume")
    os.utime(session_record.path_of(layout_of(project), "a"), (soon, soon))
    assert not may_work(faber)


def test_a_summary_is_no_end(faber: Faber, begun: str, session: Enter) -> None:
    """A session that saved its summary still holds the run."""
    session("a")
    assert faber("session", "save", "r", "--accomplished", "half of it").status == 0
    session("b")
    assert not may_work(faber)


def dead_client() -> int:
    """The id of a process that is gone."""
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    return dead.pid


def own_record(project: Path) -> SessionRecord:
    """What session `b` knows of itself once it has started."""
    brief(project, "b")
    own = session_record.read(layout_of(project), "b")
    assert own is not None
    return own


def test_a_client_that_died_holds_nothing(faber: Faber, project: Path, begun: str) -> None:
    """Once its client's process is gone a session holds nothing, if the one that asks sees its own client."""
    layout = layout_of(project)
    dead, own = dead_client(), own_record(project)
    assert own.client

    def client_of_a(pid: int, machine: str = own.machine) -> None:
        session_record.write(layout, "a", SessionRecord("r", 1, (), "", pid, machine))

    client_of_a(own.client)
    assert not may_work(faber)
    client_of_a(dead, "another-host")
    assert not may_work(faber)
    client_of_a(dead)
    session_record.write(layout, "b", own._replace(client=dead))  # as from inside a sandbox
    assert not may_work(faber)
    session_record.write(layout, "b", own)
    assert may_work(faber)


def test_the_first_brief_of_a_session_sees_that_the_holders_client_died(
    faber: Faber, project: Path, begun: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A session that starts after the holder's client was killed is told to continue, not to wait."""
    layout = layout_of(project)
    dead, own = dead_client(), own_record(project)
    os.unlink(session_record.path_of(layout, "b"))
    session_record.write(layout, "a", SessionRecord("r", 1, (), "", dead, own.machine))
    capfd.readouterr()
    brief(project, "b")
    assert "Next command: /bin/faber next r" in capfd.readouterr().out


def test_what_a_hook_saw_holds_in_a_sandbox(faber: Faber, project: Path, begun: str) -> None:
    """A client that a session's first brief saw dead is dead for the commands of that session, too, which see no
    process from inside a sandbox; until its session is resumed."""
    layout = layout_of(project)
    dead, own = dead_client(), own_record(project)
    session_record.write(layout, "a", SessionRecord("r", 1, (), "", dead, own.machine))
    brief(project, "b")
    session_record.write(layout, "b", own._replace(client=dead, machine="a sandbox"))
    assert faber("next", "r", "--peek").json["action"] == "step"
    brief(project, "a", source="resume")
    assert not may_work(faber)


def test_a_person_lets_another_session_take_over(faber: Faber, begun: str, session: Enter) -> None:
    """After `faber run takeover` another session continues the step, and the first is refused; only a person may."""
    refused = faber("run", "takeover", "r")
    assert (refused.status, refused.code) == (4, "person_required")
    session(None)
    answer = faber("run", "takeover", "r").json
    assert [event["type"] for event in answer["recorded"]] == ["run_released"]
    assert faber("run", "takeover", "r").json["recorded"] == []
    session("a")
    assert faber("next", "r").code == "taken_over"
    assert faber("step", "complete", "r", STEP).code == "taken_over"
    session("b")
    assert may_work(faber)
    session("a")
    assert faber("step", "complete", "r", STEP).code == "taken_over"


def test_a_run_of_an_older_faber_has_a_holder(faber: Faber, project: Path, begun: str) -> None:
    """A state that an older faber wrote has no holder; it is found from the log, which has the session of each step."""
    path = project / ".fractary" / "faber" / "runs" / "r" / "state.json"
    state = json.loads(path.read_text())
    assert state.pop("holder")["session_id"] == "a"
    path.write_text(json.dumps(state | {"reducer_version": 5}))
    assert not may_work(faber)
    for event in (path.parent / "events").iterdir():
        given = log.decode(event.read_bytes())
        event.write_text(json.dumps({k: v for k, v in given.items() if k != "session_id"}))
    path.write_text(json.dumps(state | {"reducer_version": 5}))
    assert faber("context", "r", "--record").status == 0
    assert may_work(faber)


@pytest.mark.parametrize("command", [["step", "start", "r", STEP], ["next", "r"]], ids=" ".join)
def test_sessions_that_race_never_get_the_same_step(
    faber: Faber, project: Path, session: Enter, command: list[str]
) -> None:
    """Of six sessions that start the same step at the same moment one gets it, and it alone holds the run."""
    assert faber("run", "init", "--run-id", "r").status == 0
    for number in range(6):
        session(f"s{number}")
        assert faber("context", "r", "--record").status == 0
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("FABER_", "CLAUDE"))}
    racers = [
        subprocess.Popen(
            [sys.executable, "-I", "-X", "utf8", ENTRY, *command],
            cwd=project,
            env=environment | {"CLAUDE_CODE_SESSION_ID": f"s{number}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for number in range(6)
    ]
    answers = [json.loads(racer.communicate()[0]) for racer in racers]
    said = [a["error"]["code"] if "error" in a else a.get("action", "step") for a in answers]
    assert sorted(said) == sorted(["step", *["wait" if command[0] == "next" else "held_elsewhere"] * 5])
    state = faber("run", "show", "r").json["state"]
    assert state["holder"]["session_id"] == f"s{said.index('step')}"
    assert [e["file"][7:-5] for e in state["recent_events"]].count("step_start") == 1


def test_next_takes_a_step_in_progress_over(faber: Faber, begun: str, session: Enter) -> None:
    """`next` in another session, once the first has ended, records that it continues the step, and once only."""
    session("a")
    assert faber("event", "emit", "r", "--type", "session_end").status == 0
    session("b")
    answer = faber("next").json
    assert (answer["step"], answer["mode"]) == ("fetch-work", "continue")
    assert [event["type"] for event in answer["recorded"]] == ["run_held"]
    assert "recorded" not in faber("next").json
    session("a")
    assert faber("next", "r").code == "taken_over"
