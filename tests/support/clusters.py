"""Projects with a bare repository that workers share, and a cluster whose workers are directories of this process."""

import json
import os
import pickle
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Any

from faber.nebula.cluster.cluster_errors import ClusterLost, JobLost, JobStopped
from faber.nebula.cluster.dask_cluster import Cluster
from faber.nebula.cluster.leader import Fleet
from faber.nebula.cluster.messages import Job, LeftJob, Report
from faber.nebula.cluster.worker import work
from faber.store.layout import Layout
from support import remote_agents
from support.nebulas import Author, Project, nebula_files
from support.repositories import git

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 30.0


class SharedProject(Project):
    """A project whose remote `origin` is a bare repository; `script` is what `remote_agents` reads."""

    def __init__(self, path: Path, phases: Mapping[str, list[str]], manifest: str = "", **extra: Any) -> None:
        super().__init__(path / "project", nebula_files(phases, manifest, **extra))
        self.origin = path / "origin.git"
        git(path, "clone", "-q", "--bare", str(self.root), str(self.origin))
        git(self.root, "remote", "add", "origin", str(self.origin))
        self.script = path / "script"
        self.script.mkdir()

    def over(self, cluster: Any, **wanted: Any) -> Any:
        """`faber nebula apply --scheduler …`; nothing may be worked on here."""
        author = Author()
        fleet = Fleet(cluster, agents=remote_agents.make, poll=0.1)
        applied = self.apply(author, fleet, **wanted)
        assert author.asked == []
        return applied

    def say(self, name: str, text: str = "") -> Path:
        """Put a file into the script."""
        path = self.script / name
        path.write_text(text)
        return path

    def turns(self, file: str = "asked") -> list[list[str]]:
        """The turns that were asked for, or ended, each as its words."""
        path = self.script / file
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def coded(self) -> list[str]:
        """`<phase> <cycle>` of every coder's turn, sorted."""
        return sorted(f"{phase} {cycle}" for role, phase, cycle, *_ in self.turns() if role == "coder")

    def await_turn(self, *words: str, file: str = "asked", seconds: float = 30.0) -> list[str]:
        """The first turn that begins with these words."""
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up:
            for turn in self.turns(file):
                if turn[: len(words)] == list(words):
                    return turn
            time.sleep(0.05)
        raise AssertionError(f"no {words} in {file}: {self.turns(file)}; {self.said}")

    def refs(self) -> dict[str, str]:
        """The shared repository's refs."""
        lines = git(self.origin, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return dict(line.split() for line in lines)

    def events(self, run_id: str, kind: str) -> list[Any]:
        """The events of one type in the run's log."""
        from faber.store import log

        directory = Layout(str(self.root)).run_dir(run_id)
        return [log.read_event(directory, e.file) for e in log.listing(directory) if e.type == kind]


class _Link:
    def __init__(self, hear: Callable[[Mapping[str, Any]], None], stop: Callable[[], bool]) -> None:
        self._hear = hear
        self._stop = stop
        self._lock = threading.Lock()

    def send(self, message: Mapping[str, object]) -> None:
        with self._lock:
            self._hear(message)

    def stop_wanted(self) -> bool:
        return self._stop()


class Directories:
    """A cluster without one: each job is pickled and done in this process, in a directory that stands for a worker.

    A job whose worker dies is done again in another. `alter` may change a job before, or a report after; with `deaf`
    what workers tell is lost on the way. `names` are what workers call themselves in reports.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self.jobs: list[Job] = []
        self.reports: list[Report] = []
        self.alter: Callable[[Any], Any] = lambda each: each
        self.deaf = False
        self.lost = False
        self.names = ["first"]
        self.avoided: list[Collection[str]] = []
        self._workers = 0

    def agents(self, avoid: Collection[str] = ()) -> int:
        return 2 * len([name for name in self.names if name not in avoid])

    def left(self, run_id: str) -> dict[str, LeftJob]:
        return {}

    def drop(self, run_id: str, phase: str) -> None:
        raise AssertionError(f"nothing was left for {phase}")

    def worker(self) -> str:
        """A worker's directory, empty."""
        self._workers += 1
        path = self.place / f"worker-{self._workers}"
        path.mkdir(parents=True)
        return str(path)

    def run(
        self, job: Job, hear: Callable[[Mapping[str, Any]], None], cancel: threading.Event, avoid: Any = ()
    ) -> Report:
        job = self.alter(pickle.loads(pickle.dumps(job)))
        self.jobs.append(job)
        self.avoided.append(avoid)
        link = _Link((lambda message: None) if self.deaf else hear, cancel.is_set)
        for _ in range(20):
            if self.lost:
                raise ClusterLost("The scheduler was lost.")
            try:
                report = self.alter(pickle.loads(pickle.dumps(work(job, link, self.worker()))))
            except remote_agents.Died:
                if cancel.is_set():
                    raise JobStopped from None
                continue
            self.reports.append(report)
            assert isinstance(report, Report)
            return replace(report, worker=next(name for name in self.names if name not in avoid))
        raise JobLost("Nobody finished it.")


def service_command(kind: str, given: Mapping[str, str]) -> list[str]:
    """The command of the service of systemd in examples/cluster, after `dask`, with these variables."""
    unit = (ROOT / f"examples/cluster/faber-{kind}.service").read_text()
    (line,) = re.findall(r"^ExecStart=\S+/dask (.*)$", unit, re.MULTILINE)
    return [Template(word).substitute(given) for word in line.split()]


class Processes:
    """A Dask scheduler on loopback and its workers, each in a process of its own with this environment."""

    def __init__(self, place: Path, environment: Mapping[str, str]) -> None:
        self.place = place
        self.file = place / "scheduler.json"
        self.environment = {
            **environment,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "scripts"), str(ROOT / "tests")]),
            # A worker that is not heard of for so long is lost.
            "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "5s",
            "DASK_DISTRIBUTED__ADMIN__TICK__LIMIT": "1h",
            # Watching itself is most of what an idle process does.
            "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "500ms",
            "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "10s",
            "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
        }
        self.workers: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._scheduler("0")
        self.address = self._address()

    def _scheduler(self, port: str) -> "subprocess.Popen[bytes]":
        program, *options = service_command("scheduler", {"HOST": "127.0.0.1"})
        assert program == "scheduler"
        options[options.index("8786")] = port
        return self._python("scheduler", "distributed.cli.dask_scheduler", "--scheduler-file", str(self.file), *options)

    def _python(self, name: str, module: str, *options: str) -> "subprocess.Popen[bytes]":
        with open(self.place / f"{name}-{len(self.workers)}.log", "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", module, *options],
                env=self.environment,
                cwd=self.place,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _address(self) -> str:
        give_up = time.monotonic() + SECONDS
        while time.monotonic() < give_up:
            try:
                return str(json.loads(self.file.read_text())["address"])
            except (FileNotFoundError, ValueError):
                time.sleep(0.05)
        raise AssertionError((self.place / "scheduler-0.log").read_text())

    def start_worker(self, agents: int = 1) -> None:
        """One more worker, for so many agents at a time."""
        given = {"SCHEDULER": self.address, "AGENTS": str(agents), "THREADS": str(agents + 1)}
        program, *options = service_command("worker", given)
        assert program == "worker"
        options[options.index("/var/lib/faber")] = str(self.place / f"worker-{len(self.workers)}")
        self.workers.append(self._python("worker", "distributed.cli.dask_worker", "--host", "127.0.0.1", *options))

    def start_leader(self, project: SharedProject, **wanted: Any) -> "subprocess.Popen[bytes]":
        """`faber nebula apply --scheduler …` as a process."""
        place = str(project.root.parent)
        return self._python("leader", "support.cluster_leader", place, self.address, json.dumps(wanted))

    def restart_scheduler(self) -> None:
        """Kill the scheduler, and start another at its address."""
        self.scheduler.kill()
        self.scheduler.wait()
        self.scheduler = self._scheduler(self.address.rpartition(":")[2])

    def await_agents(self, cluster: Cluster, count: int) -> None:
        """Until so many agents are offered."""
        give_up = time.monotonic() + SECONDS
        while cluster.agents() != count:
            assert time.monotonic() < give_up, [log.read_text() for log in self.place.glob("*.log")]
            time.sleep(0.05)

    def end(self) -> None:
        """Kill what was started."""
        for process in [*self.workers, self.scheduler]:
            if process.poll() is None:
                process.kill()
            process.wait()
