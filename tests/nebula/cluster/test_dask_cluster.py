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
import yaml

from faber.errors import InvalidInput
from faber.nebula.cluster import dask_cluster as module
from faber.nebula.cluster.cluster_errors import ClusterExtraMissing, SchedulerUnreachable
from faber.nebula.cluster.dask_cluster import Cluster, checked_address
from faber.store.load import load
from support.clusters import ROOT, Processes, SharedProject, service_command
from support.repositories import git

if os.environ.get("CI") != "true":  # there a missing package fails
    pytest.importorskip("distributed", reason="the extra `distributed` is not installed")

SECONDS = 30.0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, git_configuration: str) -> Iterator[Processes]:
    """A scheduler and two workers, for all tests of this module; who ends a worker that others need starts another."""
    place = tmp_path_factory.mktemp("cluster")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "CLAUDE", "DASK_"))}
    own = {"FABER_TEST_SCRIPT": str(place / "script"), "GIT_CONFIG_GLOBAL": git_configuration}
    made = Processes(place, {**kept, **own, "GIT_CONFIG_NOSYSTEM": "1"})
    for _ in range(2):
        made.start_worker()
    yield made
    made.end()


@pytest.fixture
def cluster(running: Processes) -> Iterator[Cluster]:
    """A connection to it."""
    with Cluster.connect(running.address, seconds=SECONDS, stop=20.0) as made:
        running.await_agents(made, sum(worker.poll() is None for worker in running.workers))
        yield made


@pytest.fixture
def make(running: Processes, tmp_path: Path, git_user: None) -> Any:
    """Makes a project whose script the workers read."""

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
    with Cluster.connect(running.address, seconds=SECONDS) as again:
        applied = project.over(again, resume=True)
    assert applied.status == "done", project.said
    assert project.coded() == ["a 1"]
    assert load(project.layout, applied.report["run_id"]).state["status"] == "completed"


def test_a_killed_leaders_jobs_are_taken_over(make: Any, running: Processes, cluster: Cluster) -> None:
    """`kill -9` and at once `--resume`: the turns in progress continue, no turn is repeated, and each is paid once."""
    project: SharedProject = make({"a": [], "b": ["a"]})
    project.say("cycles-a", "2")
    hold = project.say("hold-coder-a-2")
    leader = running.start_leader(project)
    project.await_turn("coder", "a", "2")
    leader.kill()
    leader.wait()
    thread, answers = in_background(project, cluster, resume=True)
    time.sleep(0.5)
    hold.unlink()
    thread.join(60)
    (applied,) = answers
    assert applied.status == "done", project.said
    assert project.coded() == ["a 1", "a 2", "b 1"]
    assert {turn[-1] for turn in project.turns("ended")} == {"done"}
    assert applied.report["cost_usd"] == pytest.approx(0.6)
    assert cluster.left(applied.report["run_id"]) == {}


@pytest.mark.full
def test_workers_do_what_is_ready_without_a_leader(make: Any, running: Processes, cluster: Cluster) -> None:
    """They end what they have started, begin what was handed out, and push; a later leader only merges."""
    running.start_worker()
    running.await_agents(cluster, 2)
    project: SharedProject = make({name: [] for name in "abcd"})
    holds = [project.say(f"hold-coder-{name}-1") for name in "abcd"]
    leader = running.start_leader(project, max_workers=4)
    give_up = time.monotonic() + SECONDS
    while len(project.turns()) < 2 or not cluster.left(*project.layout.run_ids()).keys() >= set("abcd"):
        assert time.monotonic() < give_up
        time.sleep(0.1)
    leader.kill()
    leader.wait()
    for hold in holds:
        hold.unlink()
    for name in "abcd":
        project.await_turn("reviewer", name, "1", file="ended")
    turns = project.turns()
    applied = project.over(cluster, resume=True)
    assert applied.status == "done", "\n".join(project.said)
    assert project.turns() == turns
    assert applied.report["cost_usd"] == pytest.approx(0.8)


@pytest.mark.full
def test_a_new_scheduler_is_found_by_all(tmp_path: Path, git_configuration: str, git_user: None) -> None:
    """Leader and supervised worker come back to it, only the turn in progress is repeated, and no traceback is
    printed."""
    project = SharedProject(tmp_path, {"a": [], "b": ["a"]})
    own = {"FABER_TEST_SCRIPT": str(project.script), "GIT_CONFIG_GLOBAL": git_configuration}
    processes = Processes(tmp_path, os.environ | own)
    try:
        processes.start_worker()
        project.say("cycles-a", "2")
        hold = project.say("hold-coder-a-2")
        leader = processes.start_leader(project)
        project.await_turn("coder", "a", "2")
        processes.restart_scheduler()
        assert processes.workers[0].wait(SECONDS) == 0
        processes.start_worker()
        hold.unlink()
        assert leader.wait(60) == 0
    finally:
        processes.end()
    assert project.coded() == ["a 1", "a 2", "a 2", "b 1"]
    said = "".join(log.read_text() for log in tmp_path.glob("*.log"))
    assert "The scheduler was lost" in said
    assert "Traceback" not in said


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


def test_every_way_to_start_a_worker_gives_it_the_same_options() -> None:
    """Container and Kubernetes give the service's options: nobody forgets the resource or the preload."""
    examples = ROOT / "examples/cluster"
    service = service_command("worker", {"SCHEDULER": "S", "AGENTS": "4", "THREADS": "5"})
    container = (examples / "Containerfile").read_text().splitlines()[-1]
    own = {"${SCHEDULER}": "S", "${AGENTS}": "4", "${THREADS}": "5", "/home/faber/work": "/var/lib/faber"}
    for name, value in own.items():
        container = container.replace(name, value)
    assert container.split() == ["CMD", "exec", "dask", *service]
    (pod,) = yaml.safe_load((examples / "kubernetes.yaml").read_text())["spec"]["worker"]["spec"]["containers"]
    assert {"agent=4", "5", "--preload", "faber.nebula.cluster.dask_cluster"} < set(service)
    options = " ".join(pod["args"]).replace("=", " ")
    assert all(option.replace("=", " ") in options for option in service if option not in ("S", "/var/lib/faber"))


def test_a_worker_stops_when_it_is_told_or_closes() -> None:
    """A job stops if its leader asked for it, or if its worker closes; a silent scheduler stops nothing."""
    said: list[Any] = [False]

    def metadata(keys: Any, default: Any = None) -> Any:
        if said[0] is None:
            raise OSError("the scheduler is gone")
        return said[0]

    worker = SimpleNamespace(status=SimpleNamespace(name="running"))
    job = SimpleNamespace(run_id="r", token="t", poll=0.01)
    given: Any = (job, worker, SimpleNamespace(get_metadata=metadata))
    link = module._Link(*given)
    try:
        said[0] = None
        time.sleep(0.05)
        assert not link.stop_wanted()
        worker.status.name = "closing"
        assert link.stop_wanted()
        worker.status.name, said[0] = "running", True
        give_up = time.monotonic() + SECONDS
        while not link.stop_wanted():
            assert time.monotonic() < give_up
            time.sleep(0.01)
    finally:
        link.close()
