"""The trial drives the real client, and its figures come out as the scripted models make them. None of them says
anything about a real model."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import trial
from trials import figures, header, schedule, tasks
from trials.conduct import conduct
from trials.results import Results, charged, read
from trials.schedule import ARMS, KINDS, Planned, Point
from trials.session import Setup

from e2e.client import ENGINE
from e2e.messages_api import MessagesApi
from e2e.processes import processes, until
from e2e.replies import error, hang
from e2e.trial_models import BEFORE, BETWEEN, Worker

KEY = "a-key-of-the-trial"
TASK = "ledger-export"


@pytest.fixture
def setup(claude_binary: str, api: MessagesApi, plugin_root: Path) -> Iterator[Setup]:
    """The pinned client against the scripted model, with the plugin as it is."""
    venv = {name: os.environ[name] for name in ("FABER_VENV",) if name in os.environ}
    mark = uuid4().hex
    extra = {**ENGINE, **venv, "STARTED_BY": mark}
    yield Setup(
        claude_binary, api.url, "claude-sonnet-4-5", KEY, plugin=plugin_root, start_usd=0.5, minutes=2, extra=extra
    )
    assert processes(f"STARTED_BY={mark}") == []


def came(setup: Setup, directory: Path, faber: bool, *points: Point) -> dict[str, Any]:
    """What a run of the task comes to."""
    return conduct(Planned(tasks.load(TASK), 1, schedule.Arm(faber, bool(points)), points), setup, directory / "run")


def test_a_killed_client_is_resumed(setup: Setup, api: MessagesApi, tmp_path: Path) -> None:
    """The client is killed at the result of the call that was drawn, resumed with one word, and the verifier sees the
    tree; the killed turn has no price and counts as a whole start."""
    worker = Worker(tasks.load(TASK), quick=True, remembers=True)
    api.script.always(worker)
    found = came(setup, tmp_path, False, Point("kill", 2))
    assert [found[name] for name in ("solved", "ended", "void", "unpriced_turns")] == [True, "done", "", 1]
    assert found["points"] == [{"kind": "kill", "after": 2, "reached": True, "happened": True}]
    assert 0.5 < found["charged_usd"] < 0.6
    assert sum(request.prompt.rstrip().endswith("continue") for request in api.turns) >= 1


@pytest.mark.full
def test_an_endpoint_that_refuses_makes_the_run_void(setup: Setup, api: MessagesApi, tmp_path: Path) -> None:
    """A refusal of the endpoint is no result of the arm: the run is void and says what the endpoint said, but
    for the key."""
    api.script.always(error(400, f"no such model here for {KEY}"))
    found = came(setup, tmp_path, False)
    assert "no such model here for [key]" in found["void"]
    assert not found["solved"]


@pytest.mark.full
def test_a_model_that_needs_what_it_was_told_succeeds_with_faber_alone(
    setup: Setup, api: MessagesApi, tmp_path: Path
) -> None:
    """A model that knows only what its request holds solves the task in every undisturbed run and after a kill; after
    a compaction or in a new session between the person's answer and the work that needs it, only with faber. The
    figures say exactly that."""
    task = tasks.load(TASK)
    api.script.always(Worker(task))
    results = Results(tmp_path / "results", {"protocol": header.protocol()})
    place = BEFORE + BETWEEN  # after the answer, before the writing
    runs = [
        Planned(task, seed, arm, (Point(kind, place),) if arm.interrupted else ())
        for seed, kind in enumerate(KINDS)
        for arm in ARMS
    ]
    assert trial.trial(runs, setup, results, 99, conduct, tmp_path) == 0
    found = figures.figures(read(tmp_path / "results"))
    assert [found["arms"][arm.name]["solved"] for arm in ARMS] == [3, 3, 1, 3]
    assert [(each["only_first"], each["only_second"]) for each in found["compared"]] == [(2, 0), (0, 2), (0, 0), (0, 0)]
    assert found["loss"]["estimate"] == pytest.approx(2 / 3)
    assert {arm: each["reached"] for arm, each in found["arms"].items() if each["interruptions"]} == {
        "plain, interrupted": 3,
        "faber, interrupted": 3,
    }
    assert found["unpriced_turns"] == 2  # the killed ones


@pytest.mark.full
def test_a_whole_trial_from_its_command(
    claude_binary: str,
    api: MessagesApi,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`trial.py run` stops at the cap; killed, it leaves no client behind and is continued, until a model that always
    succeeds has done every arm of a task, and then does nothing. The results hold no key, the report has all arms."""
    monkeypatch.setenv("TRIAL_KEY", KEY)
    results = tmp_path / "results"
    words = ["run", "--results", str(results), "--base-url", api.url, "--key-from", "TRIAL_KEY", "--seeds", "1"]
    words += ["--model", "claude-sonnet-4-5", "--client", claude_binary, "--tasks", TASK, "--start-usd", "0.5"]
    mark = f"STARTED_BY={uuid4().hex}"
    for each in (mark, *(f"{name}={value}" for name, value in ENGINE.items())):
        words += ["--variable", each]
    assert trial.main([*words, "--cap-usd", "0.4"]) == trial.STOPPED
    assert api.turns == []
    api.script.always(hang())
    killed = subprocess.Popen([sys.executable, trial.__file__, *words, "--cap-usd", "9"])
    api.wait_for()
    killed.kill()
    killed.wait()
    until(lambda: not processes(mark))
    api.script.always(Worker(tasks.load(TASK), remembers=True))
    assert trial.main([*words, "--cap-usd", "9"]) == 0
    asked = len(api.requests)
    assert trial.main([*words, "--cap-usd", "9"]) == 0
    assert len(api.requests) == asked
    assert KEY not in results.read_text()
    lines = read(results)
    assert [line["solved"] for line in lines if line["kind"] == "finished"] == [True] * 4
    assert [line["cap_usd"] for line in lines if line["kind"] == "begun"] == [0.4, 9.0, 9.0, 9.0]
    assert charged(lines) > 0.5  # the killed run's
    capsys.readouterr()
    assert trial.main(["report", "--results", str(results)]) == 0
    said = capsys.readouterr().out
    assert [arm.name for arm in ARMS if f"\n{arm.name} " not in said] == []
