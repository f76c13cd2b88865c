"""`notify` in config.yaml: who is told what, when, how often, and who lets the command run."""

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Faber
from faber.events import event_types, record_events
from faber.notify import delivery
from faber.notify.news import announce
from faber.store.appending import Writer
from faber.store.commit import commit
from faber.store.layout import Layout
from faber.store.load import load
from faber.store.schema import problems


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, where a person's permission is kept."""
    path = tmp_path / "home"
    path.mkdir()
    monkeypatch.setenv("HOME", str(path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return path


@pytest.fixture
def told(project: Path, home: Path) -> Path:
    """A config.yaml whose command appends to the file that is returned, which is not there yet."""
    configured(project, f"cat >> {home / 'told'}")
    return home / "told"


def configured(project: Path, command: str | list[str]) -> None:
    """Write `notify` into config.yaml."""
    place = project / ".fractary" / "faber"
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.yaml").write_text(json.dumps({"notify": command}))


def asked(faber: Faber, run: str) -> int:
    """Ask a question; the id of its event."""
    faber("feedback", "request", run, "--prompt", "May I?")
    number: int = faber("event", "list", run).json["events"][-1]["event_id"]
    return number


def lines(file: Path, count: int) -> list[dict[str, Any]]:
    """The objects in `file`, once there are `count`."""
    end = time.monotonic() + 30
    while not file.exists() or file.read_text().count("\n") < count:
        assert time.monotonic() < end, "nobody was told"
        time.sleep(0.02)
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_person_is_told_what_they_are_asked(faber: Faber, run: str, told: Path) -> None:
    """A question reaches the allowed command as one JSON object, while the command that asked has returned."""
    assert faber("notify", "allow").json["command"] == f"cat >> {told}"
    faber("feedback", "request", run, "--prompt", "May I use ghp_0123456789abcdefghijABCDEFGHIJ?")
    (got,) = lines(told, 1)
    assert (got["event"], got["run_id"], got["command"]) == ("asked", run, f"faber feedback respond {run}")
    assert got["request"]["options"] == ["approve", "reject"]
    assert "ghp_" not in json.dumps(got)
    assert "[REDACTED]" in got["text"]
    assert problems("notification", got) == []


def test_the_command_waits_for_no_notifier(faber: Faber, run: str, project: Path) -> None:
    """A notifier that hangs costs the command that caused it nothing."""
    configured(project, ["sleep", "3"])
    faber("notify", "allow")
    before = time.monotonic()
    faber("feedback", "request", run, "--prompt", "May I?")
    assert time.monotonic() - before < 2


def test_each_ending_is_told_once(faber: Faber, run: str, told: Path) -> None:
    """Failed and cancelled are told in their own words, and a second delivery of the same events tells nobody."""
    faber("run", "fail", run, "--error", "disk full")
    faber("run", "resume", run)
    faber("run", "cancel", run, "--reason", "no time")
    events = faber("event", "list", run).json["events"]
    ends = [str(e["event_id"]) for e in events if e["type"] in ("workflow_error", "workflow_cancelled")]
    faber("notify", "allow")
    first = faber("notify", "deliver", run, *ends).json["told"]
    again = faber("notify", "deliver", run, *ends).json["told"]
    assert ([each["event"] for each in first], again) == (["failed", "cancelled"], [])
    texts = [each["text"] for each in lines(told, 2)]
    assert [text.partition(": ")[2] for text in texts] == ["failed: disk full", "cancelled: no time"]


def test_a_killed_delivery_tells_nobody_twice(faber: Faber, run: str, told: Path, project: Path) -> None:
    """An event that a killed process had claimed is not told again, and doctor names it."""
    number = asked(faber, run)
    directory = Path(load(Layout(str(project)), run).directory) / "told"
    directory.mkdir()
    (directory / f"{number}.json").touch()
    faber("notify", "allow")
    assert faber("notify", "deliver", run, str(number)).json["told"] == []
    assert not told.exists()
    report = faber("doctor", run).json["reports"][0]["findings"]
    assert [each["message"] for each in report if each["code"] == "not_told"] == [
        f"Nobody was told about event {number}: interrupted, or still running."
    ]


def test_a_limit_is_told_when_it_is_reached_and_when_it_is_over(run: str, project: Path, faber: Faber) -> None:
    """A limit is told once however often turns fail in it, and again when the work continues."""
    seen: list[list[str]] = []
    layout = Layout(str(project))

    def recorded(*drafts: Any) -> None:
        from faber.notify.news import kind_of, news

        def note(before: Any, made: Any, events: Any) -> None:
            ids = news(before, made.state, events)
            seen.append([kind_of(event) for event in events if event["event_id"] in ids])

        commit(layout, run, lambda state, plan: list(drafts), Writer(tell=note))

    limit = record_events.stop_failure("rate_limit", "You've hit your limit", waiting_until="2026-01-01T15:00:00Z")
    recorded(limit)
    recorded(limit)
    recorded({"type": event_types.CHECKPOINT})
    recorded({"type": event_types.DECISION_POINT, "message": "on"})
    assert seen == [["limit_reached"], [], [], ["limit_over"]]
    made = load(layout, run)
    event = next(e for e in faber("event", "list", run).json["events"] if e["type"] == "hook_execute")
    got = delivery.notification(made, event)
    assert got["waiting_until"] == "2026-01-01T15:00:00Z"
    assert "You've hit your limit" in got["text"]


def test_only_a_person_lets_a_command_run(
    faber: Faber, run: str, told: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that the repository names runs nothing, committed or not, until a person allowed exactly that one."""
    git = ["git", "-C", str(project)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-f", ".fractary/faber/config.yaml"], check=True)
    subprocess.run([*git, "commit", "-qm", "Have people told"], check=True)
    number = str(asked(faber, run))
    assert faber("notify", "deliver", run, number).code == "notify_not_allowed"
    with monkeypatch.context() as agent:
        agent.setenv("CLAUDECODE", "1")
        assert faber("notify", "allow").code == "person_required"
        assert faber("notify", "test").code == "person_required"
    assert faber("notify", "allow").status == 0
    configured(project, f"touch {told}.agent")  # what an agent may do: edit a file
    assert faber("notify", "deliver", run, number).code == "notify_not_allowed"
    assert "notify_not_allowed" in [each["code"] for each in faber("doctor").json["reports"][0]["findings"]]
    assert not Path(f"{told}.agent").exists()
    (project / ".fractary" / "faber" / "config.yaml").write_text("{}")
    assert faber("notify", "deliver", run, number).code == "notify_not_allowed"


@pytest.mark.parametrize("program", ["./tell.sh", "tools/tell.sh", "{project}/tell.sh"])
def test_a_program_of_the_repository_is_refused(faber: Faber, project: Path, program: str) -> None:
    """A program that agents could rewrite cannot be allowed."""
    configured(project, [program.format(project=project)])
    assert faber("notify", "allow").code == "invalid_input"


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        ("echo no network >&2; exit 3", "exit status 3: no network"),
        (["/nowhere/ntfy"], "missing: "),
        (["sh", "-c", "kill -9 $$"], "signal 9"),
        (["sh", "-c", 'test "$FABER_EVENT $FABER_RUN" = "asked test" && test -n "$FABER_TEXT"'], "told"),
        ('test "$PWD" = "$HOME"', "told"),
    ],
)
def test_a_notifier_is_tried_and_its_failure_said(
    faber: Faber, project: Path, command: str | list[str], outcome: str
) -> None:
    """`faber notify test` says how the command ended; it has the short facts as variables and starts in the home."""
    configured(project, command)
    faber("notify", "allow")
    tried = faber("notify", "test")
    assert tried.json["outcome"].startswith(outcome)
    assert tried.status == (0 if outcome == "told" else 1)


def test_a_failed_notifier_fails_no_run(faber: Faber, run: str, project: Path) -> None:
    """The run continues where its notifier fails, and doctor says what went wrong."""
    configured(project, ["sh", "-c", "echo no display >&2; exit 1"])
    number = str(asked(faber, run))
    faber("notify", "allow")
    faber("notify", "deliver", run, number)
    found = [each for each in faber("doctor", run).json["reports"][0]["findings"] if each["code"] == "not_told"]
    assert found[0]["message"] == f"Nobody was told about event {number}: exit status 1: no display."
    assert faber("feedback", "respond", run, "approve").status == 0


def test_a_notifier_that_hangs_is_ended(faber: Faber, project: Path, monkeypatch: pytest.MonkeyPatch, run: str) -> None:
    """The command has a time limit of its own."""
    monkeypatch.setattr(delivery, "SECONDS", 0.2)
    assert delivery.send(["sleep", "60"], delivery.sample(Layout(str(project))), os.environ).startswith("timeout")


def test_every_writer_tells(project: Path) -> None:
    """Commands, hooks, comments and a nebula's worker group have people told of what they record."""
    from faber.console.invocation import Invocation
    from faber.github_events.comment_command import PERSON

    assert Invocation().writer.tell is announce
    assert PERSON.tell is announce
