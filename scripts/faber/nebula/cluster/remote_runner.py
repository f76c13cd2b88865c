"""What the work on all phases of a run shares at its leader: the cluster, workers that rest, jobs that were left."""

import threading
from collections.abc import Collection
from typing import NamedTuple, Protocol

from faber import __version__
from faber.errors import Notice, Severity
from faber.nebula.cluster.messages import Hear, Job, LeftJob, Report
from faber.nebula.cluster.rests import Resting
from faber.nebula.cluster.shared_repository import Shared, url_of
from faber.nebula.phase.budget import Grant
from faber.nebula.run.recorder import Journal
from faber.nebula.run.workshop import Workshop


class JobRunner(Protocol):
    """Has jobs done by workers; `dask_cluster.Cluster` is one."""

    def agents(self, avoid: Collection[str] = ()) -> int:
        """How many jobs the present workers take at once, without the workers in `avoid`."""

    def left(self, run_id: str) -> dict[str, LeftJob]:
        """The jobs of a run that an earlier leader left, by phase."""

    def drop(self, run_id: str, phase: str) -> None:
        """Stop the job that an earlier leader left for a phase, and forget it."""

    def run(self, job: Job, hear: Hear, cancel: threading.Event, avoid: Collection[str] = ()) -> Report:
        """Have `job` done, or the one that was left with its token, if possible by no worker in `avoid`; raises
        `JobStopped`, `ClusterLost`, `JobLost`."""


class LeftShare(NamedTuple):
    """The token of a job that an earlier leader left, and what it may still spend."""

    token: str
    grant: Grant


class RemoteRunner:
    """What all `RemoteWork` of a run shares."""

    def __init__(self, cluster: JobRunner, remote: str, shop: Workshop, workers: int) -> None:
        self.cluster = cluster
        self.shop = shop
        self.workers = workers
        worktrees = self.shop.worktrees
        self.run_id = worktrees.names.run_id
        self.shared = Shared(worktrees.main, url_of(worktrees.main, remote), worktrees.names)
        self.publishing = threading.Lock()
        self.resting = Resting()
        self.left = self._left()
        if not cluster.agents():
            text = "No worker of the cluster offers the resource `agent`; phases wait until one does."
            recovery = 'Start workers with `--resources "agent=1"`.'
            self.shop.notice(Notice("no_agents_offered", Severity.WARNING, text, recovery))

    def _left(self) -> dict[str, LeftShare]:
        """The jobs that an earlier leader left and this one takes over, with the money that they hold; others end."""
        cluster, shop, found = self.cluster, self.shop, dict[str, LeftShare]()
        assert isinstance(shop.journal, Journal)
        specs, phases = {spec.id: spec for spec in shop.nebula.phases}, shop.journal.phases
        for phase, job in cluster.left(self.run_id).items():
            known = phases.get(phase, {"status": "pending"})
            fits = (job.faber, job.digest) == (__version__, specs[phase].digest if phase in specs else None)
            if not fits or known["status"] not in ("pending", "in_progress"):
                cluster.drop(self.run_id, phase)
                continue
            # At most what is left: what the job has spent may be recorded already.
            grant = shop.ledger.grant(job.budget or 0.0, healing="remedies" in known, least=0.0)
            assert grant is not None
            found[phase] = LeftShare(job.token, grant)
        return found

    def drop_left(self) -> None:
        """Stop the jobs that were left and are not taken over yet, since another phase needs their money."""
        while self.left:
            phase, (_, grant) = self.left.popitem()
            self.cluster.drop(self.run_id, phase)
            grant.settle(0.0)
