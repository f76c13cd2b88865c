"""Nebulas worked on by a Dask cluster: a scheduler and workers in processes of their own, on loopback."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from faber.errors import InvalidInput
from faber.nebula.cluster import dask_cluster as module
from faber.nebula.cluster.cluster_errors import ClusterExtraMissing, SchedulerUnreachable
from faber.nebula.cluster.dask_cluster import Cluster, checked_address
from faber.store.load import load
from support.clusters import Processes, SharedProject
from support.repositories import git

if os.environ.get("CI") != "true":  # there a missing package fails
    pytest.importorskip("distributed", reason="the extra `distributed` is not installed")

SECONDS = 30.0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """A scheduler and two workers, for all tests of this module; those that kill a worker start another."""
    place = tmp_path_factory.mktemp("cluster")
    configuration = place / "gitconfig"
    configuration.write_text("[user]\n\tname = W\n\temail = w@example.com\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "CLAUDE", "DASK_"))}
    own = {"FABER_TEST_SCRIPT": str(place / "script"), "GIT_CONFIG_GLOBAL": str(configuration)}
    made = Processes(place, {**kept, **own, "GIT_CONFIG_NOSYSTEM": "1"})
    for _ in range(2):
        made.start_worker()
    yield made
    made.end()


@pytest.fixture
def cluster(running: Processes) -> Iterator[Cluster]:
    """A connection to it."""
    with Cluster.connect(running.address, seconds=SECONDS, beat=0.2, stop=20.0) as made:
        running.await_agents(made, 2)
        yield made


@pytest.fixture
def make(running: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a project whose script the workers read."""
    for name in list(os.environ):
        if name.startswith("GIT_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", running.environment["GIT_CONFIG_GLOBAL"])
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")

    def project(phases: dict[str, list[str]]) -> SharedProject:
        made = SharedProject(tmp_path, phases)
        link = running.place / "script"
        link.unlink(missing_ok=True)
        link.symlink_to(made.script)
        return made

    return project


def in_background(project: SharedProject, cluster: Cluster, **wanted: Any) -> tuple[threading.Thread, list[Any]]:
    """`apply` in a thread, and where its answer will be."""
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(project.over(cluster, **wanted)))
    thread.start()
    return thread, answers


def test_two_workers_work_a_diamond(make: Any, cluster: Cluster) -> None:
    """Both work, at the same time, and everything comes together here."""
    project: SharedProject = make({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]})
    holds = [project.say(f"hold-coder-{name}-1") for name in "bc"]
    thread, answers = in_background(project, cluster)
    workers = {project.await_turn("coder", name, "1")[3] for name in "bc"}
    assert len(workers) == 2
    for hold in holds:
        hold.unlink()
    thread.join(60)
    (applied,) = answers
    assert applied.status == "done", project.said
    made = [name for name in project.files(applied.report["branch"]) if name.endswith(".txt")]
    assert made == ["a.txt", "b.txt", "c.txt", "d.txt"]
    assert applied.report["cost_usd"] == pytest.approx(0.8)


def test_a_killed_workers_phase_goes_on_elsewhere(make: Any, running: Processes, cluster: Cluster) -> None:
    """`kill -9` in the second cycle: another worker continues there, and the first cycle is not coded again."""
    project: SharedProject = make({"a": []})
    project.say("cycles-a", "2")
    hold = project.say("hold-coder-a-2")
    thread, answers = in_background(project, cluster)
    victim = int(project.await_turn("coder", "a", "2")[3])
    os.kill(victim, signal.SIGKILL)
    hold.unlink()
    running.start_worker()
    thread.join(60)
    (applied,) = answers
    assert applied.status == "done", project.said
    assert project.coded() == ["a 1", "a 2", "a 2"]
    assert len({turn[3] for turn in project.turns() if turn[0] == "coder"}) == 2
    assert applied.report["cost_usd"] == pytest.approx(0.4)
    running.await_agents(cluster, 2)


def test_a_worker_that_comes_back_changes_nothing(make: Any, running: Processes, cluster: Cluster) -> None:
    """One that is stopped for so long that it counts as lost: its phase is done elsewhere and merged once, and what it
    does when it wakes changes neither branch nor run."""
    project: SharedProject = make({"a": []})
    project.say("cycles-a", "2")
    hold = project.say("hold-coder-a-2")
    thread, answers = in_background(project, cluster)
    sleeper = int(project.await_turn("coder", "a", "2")[3])
    os.kill(sleeper, signal.SIGSTOP)
    try:
        hold.unlink()
        thread.join(60)
        (applied,) = answers
        assert applied.status == "done", project.said
        before = project.refs()
    finally:
        os.kill(sleeper, signal.SIGCONT)
    project.await_turn("coder", "a", "2", str(sleeper), file="ended")
    # Told that it counts as lost, a worker without a nanny ends.
    next(each for each in running.workers if each.pid == sleeper).wait(SECONDS)
    running.start_worker()
    assert project.refs() == before
    assert project.coded() == ["a 1", "a 2", "a 2"]
    merges = git(project.root, "rev-list", "--merges", "--count", f"main..{applied.report['branch']}")
    assert merges == "1"
    assert len(project.events(applied.report["run_id"], "phase_merge")) == 1


def test_stopping_ends_the_turns_of_workers(make: Any, cluster: Cluster, running: Processes) -> None:
    """A stop reaches a turn that runs elsewhere; resumed, by another process as it were, the phase continues."""
    project: SharedProject = make({"a": []})
    hold = project.say("hold-reviewer-a-1")
    thread, answers = in_background(project, cluster)
    project.await_turn("reviewer", "a", "1")
    project.cancel.set()
    thread.join(30)
    assert answers[0].status == "cancelled", project.said
    assert project.await_turn("reviewer", "a", "1", file="ended")[-1] == "stopped"
    hold.unlink()
    project.cancel.clear()
    with Cluster.connect(running.address, seconds=SECONDS, beat=0.2) as again:
        applied = project.over(again, resume=True)
    assert applied.status == "done", project.said
    assert project.coded() == ["a 1"]
    assert load(project.layout, applied.report["run_id"]).state["status"] == "completed"


# --- without a cluster -----------------------------------------------------------------------------


def test_a_scheduler_that_does_not_answer_is_an_error(make: Any) -> None:
    """Within the time limit, with a code, and nothing is started."""
    with pytest.raises(SchedulerUnreachable) as raised:
        Cluster.connect("tcp://127.0.0.1:9", seconds=0.5)
    assert raised.value.as_dict()["code"] == "scheduler_unreachable"


def test_the_command_line_says_so(
    make: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`faber nebula apply` ends with the code, and there is no run."""
    from faber.cli import main

    project: SharedProject = make({"a": []})
    monkeypatch.setattr(module, "CONNECT_SECONDS", 0.5)
    for address, status, code in (("tcp://127.0.0.1:9", 1, "scheduler_unreachable"), ("udp://x:1", 2, "invalid_input")):
        root = ("--root", str(project.root))
        assert main([*root, "nebula", "apply", project.directory, "--scheduler", address]) == status
        assert json.loads(capsys.readouterr().out)["error"]["code"] == code
    assert project.left() == []
    assert not (project.root / ".fractary").exists()


def test_a_missing_package_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, it is said how to install it."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ClusterExtraMissing) as raised:
        Cluster.connect("tcp://127.0.0.1:9", seconds=0.5)
    assert "faber[distributed]" in raised.value.recovery or "[distributed]" in raised.value.recovery


@pytest.mark.parametrize(
    "address", ["", "127.0.0.1:1", "inproc://1", "tcp://x", "tcp://x:0", "tcp://x:99999", "tcp://a b:1"]
)
def test_only_addresses_of_schedulers_are_taken(address: str) -> None:
    """tcp:// and tls:// with a host and a port, and nothing else."""
    with pytest.raises(InvalidInput):
        checked_address(address)
    assert checked_address("tls://[::1]:8786") == "tls://[::1]:8786"
    assert checked_address("tcp://host.example:8786") == "tcp://host.example:8786"


def test_a_worker_that_hears_nothing_of_its_leader_stops() -> None:
    """The leader's sign of life must change: one that stays as it is, or cannot be asked for, counts as none."""
    said: list[Any] = [[1, False]]

    def metadata(keys: Any, default: Any = None) -> Any:
        if said[0] is None:
            raise OSError("the scheduler is gone")
        return said[0]

    job: Any = SimpleNamespace(session="s", token="t", poll=0.01, patience=0.3)
    link = module._Link(job, None, SimpleNamespace(get_metadata=metadata))
    try:
        for beat in range(2, 60):
            said[0] = [beat, False]
            time.sleep(0.01)
            assert not link.stop_wanted()
        said[0] = None
        give_up = time.monotonic() + SECONDS
        while not link.stop_wanted():
            assert time.monotonic() < give_up
            time.sleep(0.01)
    finally:
        link.close()
