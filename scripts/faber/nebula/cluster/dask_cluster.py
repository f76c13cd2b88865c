"""A Dask cluster whose workers work on phases: connecting to it, running jobs on it, stopping them.

This is the only module that knows Dask, and `distributed` is loaded only when a cluster is asked for. A job takes one
unit of its worker's resource `agent`. If a worker is lost, Dask runs its job again on another; `worker` says why that
is safe. Each job is published under its phase's name, so that the scheduler keeps it when its leader is gone: workers
finish what they have started and take what is queued, and the next leader gets the reports. Nothing that the scheduler
keeps has to survive it.
"""

import logging
import queue
import re
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

from faber.errors import InvalidInput, Severity
from faber.git.refs import shown
from faber.nebula.cluster.cluster_errors import (
    ClusterExtraMissing,
    ClusterLost,
    JobLost,
    JobStopped,
    SchedulerUnreachable,
)
from faber.nebula.cluster.messages import Hear, Job, LeftJob, Report
from faber.nebula.cluster.worker import work

RESOURCE = "agent"
CONNECT_SECONDS = 10.0
STOP_SECONDS = 60.0  # in which a turn and its processes must end
SCHEDULER_SECONDS = 300.0  # for which a lost scheduler is waited for
_LEFT_SECONDS = 10.0  # to hear of a job that was left, and may still be queued
_ADDRESS = re.compile(r"(tcp|tls)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}", re.ASCII)


def checked_address(address: str) -> str:
    """`address` if it is `tcp://host:port` or `tls://host:port`; raises `InvalidInput`."""
    if not _ADDRESS.fullmatch(address) or not 0 < int(address.rpartition(":")[2]) < 65536:
        raise InvalidInput(
            f"Not a scheduler's address: {shown(address)!a}.", recovery="Give tcp://HOST:PORT or tls://…."
        )
    return address


class Cluster:
    """A connection to one scheduler, safe to use from many threads.

    A scheduler that is lost is waited for, for `patience` seconds: it may be started again at the same address.
    """

    def __init__(
        self, address: str, client: Any, *, stop: float = STOP_SECONDS, patience: float = SCHEDULER_SECONDS
    ) -> None:
        self._address = address
        self._client = client
        self._stop_seconds = stop
        self._patience = patience
        self._inboxes: dict[str, queue.Queue[Any]] = {}
        self._topics: set[str] = set()
        self._lock = threading.Lock()

    @classmethod
    def connect(cls, address: str, *, seconds: float | None = None, **options: float) -> Self:
        """Connect to the scheduler at `address` within `seconds` (default: 10).

        Raises `ClusterExtraMissing`, `SchedulerUnreachable`, `InvalidInput`. Certificates for tls:// are set in Dask's
        own configuration.
        """
        checked_address(address)
        return cls(address, _client(address, CONNECT_SECONDS if seconds is None else seconds), **options)

    def agents(self, avoid: Collection[str] = ()) -> int:
        """How many jobs the present workers take at once, without the workers in `avoid`."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"].items()
        return int(sum(each.get("resources", {}).get(RESOURCE, 0) for name, each in workers if name not in avoid))

    def left(self, run_id: str) -> dict[str, LeftJob]:
        """The jobs of a run that an earlier leader left, by phase."""
        prefix = _name(run_id, "")
        names = [str(name) for name in self._client.list_datasets()]
        found = {name.removeprefix(prefix): self._kept(self._client, name) for name in names if name.startswith(prefix)}
        return {phase: kept[1] for phase, kept in found.items() if kept is not None}

    def drop(self, run_id: str, phase: str) -> None:
        """Stop the job that an earlier leader left for a phase, and forget it."""
        name = _name(run_id, phase)
        kept = self._kept(self._client, name)
        if kept is not None:
            _stop(self._client, kept[1].token)
            self._client.unpublish_dataset(name)

    def run(self, job: Job, hear: Hear, cancel: threading.Event, avoid: Collection[str] = ()) -> Report:
        """Have `job` done by a worker, if possible by none in `avoid`; its messages go to `hear`, in this thread.

        A job that an earlier leader left, with the same token, is not started again. Once `cancel` is set, the worker
        is asked to stop and its report is awaited. Raises `JobStopped` if none comes, `ClusterLost`, `JobLost`.
        """
        inbox = self._inboxes[job.token] = queue.Queue()
        try:
            while True:
                client = self._client
                try:
                    return self._run(client, job, inbox, hear, cancel, avoid)
                except ClusterLost:
                    if not self._renewed(client, hear, cancel):
                        raise
        finally:
            del self._inboxes[job.token]

    def close(self) -> None:
        """Disconnect. The workers continue the jobs that still run."""
        self._client.close(timeout=5)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- one job -----------------------------------------------------------------------------------

    def _run(
        self,
        client: Any,
        job: Job,
        inbox: "queue.Queue[Any]",
        hear: Hear,
        cancel: threading.Event,
        avoid: Collection[str],
    ) -> Report:
        future, left = self._started(client, job, avoid)
        future.add_done_callback(lambda done: inbox.put(None))
        # A job that still waits for a worker sends no report.
        patience, give_up = _LEFT_SECONDS if left else 0.0, float("inf")
        while (message := _next(inbox)) is not None:
            if message:
                patience = self._stop_seconds
                hear(message)
            if cancel.is_set() and give_up == float("inf"):
                _stop(client, job.token)
                give_up = time.monotonic() + patience
            if time.monotonic() > give_up:
                future.cancel()
                client.unpublish_dataset(_name(job.run_id, job.spec.id))
                raise JobStopped
        while not inbox.empty():
            if message := inbox.get():
                hear(message)
        try:
            return _report(future, cancel)
        finally:
            if client.status == "running":
                client.unpublish_dataset(_name(job.run_id, job.spec.id))

    def _started(self, client: Any, job: Job, avoid: Collection[str]) -> tuple[Any, bool]:
        """The future of the job, and whether an earlier leader started it."""
        name = _name(job.run_id, job.spec.id)
        try:
            with self._lock:
                if job.run_id not in self._topics:
                    client.subscribe_topic(_topic(job.run_id), self._sort)
                    self._topics.add(job.run_id)
            kept = self._kept(client, name)
            if kept is not None and kept[1].token == job.token:
                return kept[0], True
            known = client.scheduler_info(n_workers=-1)["workers"] if avoid else ()
            chosen = [worker for worker in known if worker not in avoid]
            future = client.submit(
                on_worker,
                job,
                key=f"faber-{job.token}",
                resources={RESOURCE: 1},
                workers=chosen or None,
                allow_other_workers=bool(chosen),
                pure=False,
            )
            client.publish_dataset([future, list(job.left())], name=name, override=True)
        except Exception as error:
            if client.status == "running":
                raise
            raise ClusterLost("The scheduler was lost.") from error
        return future, False

    def _kept(self, client: Any, name: str) -> tuple[Any, LeftJob] | None:
        kept = client.get_dataset(name, default=None)
        return None if kept is None else (kept[0], LeftJob(*kept[1]))

    def _renewed(self, lost: Any, hear: Hear, cancel: threading.Event) -> bool:
        """Connect to a new scheduler, unless another thread did; False if none came in time."""
        with self._lock:
            if self._client is not lost:
                return True
            text = f"The scheduler was lost; it is waited for, {self._patience:g} s. What was pushed stays."
            hear({"notice": ["scheduler_lost", Severity.WARNING.value, text, "Start it again at the same address."]})
            give_up = time.monotonic() + self._patience
            while not cancel.wait(1.0) and time.monotonic() < give_up:
                try:
                    client = _client(self._address, CONNECT_SECONDS)
                except SchedulerUnreachable:
                    continue
                lost.close(timeout=1)
                self._client = client
                self._topics.clear()
                return True
        return False

    def _sort(self, event: tuple[Any, Any]) -> None:
        # Runs in the client's own thread, so nothing here may block.
        message = event[1]
        if isinstance(message, Mapping):
            inbox = self._inboxes.get(str(message.get("token")))
            if inbox is not None:
                inbox.put(message)


def _client(address: str, seconds: float) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise ClusterExtraMissing(f"A cluster needs the package distributed: {error}.") from None
    _quiet()
    try:
        return Client(address, timeout=seconds, set_as_default=False, name="faber")
    except (OSError, TimeoutError, TypeError) as error:
        raise SchedulerUnreachable(
            f"No scheduler answered at {address} within {seconds:g} s: {shown(str(error))}.", address=address
        ) from None


def _next(inbox: "queue.Queue[Any]") -> Any:
    """The next message, an empty one after half a second, None at the end of the job."""
    try:
        return inbox.get(timeout=0.5)
    except queue.Empty:
        return {}


def _report(future: Any, cancel: threading.Event) -> Report:
    if future.status == "finished":
        report = future.result(timeout=30)
        if not isinstance(report, Report):
            raise JobLost("The job did not return a report.")
        return report
    if future.status == "error":
        error = future.exception(timeout=30)
        raise JobLost(f"The job failed on its worker: {type(error).__name__}: {shown(str(error))}")
    if cancel.is_set():
        raise JobStopped
    raise ClusterLost("The scheduler was lost.")


def _topic(run_id: str) -> str:
    return f"faber-{run_id}"


def _name(run_id: str, phase: str) -> str:
    """The name under which the scheduler keeps the job of a phase."""
    return f"faber {run_id} {phase}"


def _stop(client: Any, token: str) -> None:
    """Ask the worker that has the job to stop it."""
    with suppress(Exception):  # whoever waits for the job notices that the scheduler is lost
        client.set_metadata(_stopped(token), True)


def _stopped(token: str) -> list[str]:
    return [f"faber-stop-{token}"]


# --- on a worker -----------------------------------------------------------------------------------


def dask_setup(worker: Any) -> None:
    """What `dask worker --preload` calls."""
    _quiet()


def on_worker(job: Job) -> Report:
    """What Dask runs on a worker: the job, in the worker's own directory."""
    from distributed import get_client, get_worker

    _quiet()
    worker = get_worker()
    link = _Link(job, worker, get_client())
    try:
        return replace(work(job, link, worker.local_directory), worker=worker.address)
    finally:
        link.close()


class _Link:
    """The `Link` of a job on this worker: messages through Dask's events, the wish to stop from its metadata."""

    def __init__(self, job: Job, worker: Any, client: Any) -> None:
        self._job = job
        self._worker = worker
        self._client = client
        self._stop = False
        self._closed = threading.Event()
        # A lost scheduler may never answer. So one thread asks, and `stop_wanted` never waits for it.
        threading.Thread(target=self._ask, name="faber-link", daemon=True).start()

    def send(self, message: Mapping[str, object]) -> None:
        """Send the message through the scheduler."""
        with suppress(Exception):  # the scheduler is lost
            self._worker.log_event(_topic(self._job.run_id), {"token": self._job.token, **message})

    def stop_wanted(self) -> bool:
        """True if the leader asked for it, or the worker closes: it was told to, or lost its scheduler."""
        return self._stop or self._worker.status.name in ("closing", "closed", "failed")

    def close(self) -> None:
        """The job has ended."""
        self._closed.set()

    def _ask(self) -> None:
        while not self._closed.wait(self._job.poll):
            with suppress(Exception):  # the scheduler is lost, and the worker closes
                self._stop = self._stop or bool(self._client.get_metadata(_stopped(self._job.token), default=False))


class _OneLine(logging.Filter):
    """Shortens an error in Dask's log to its last line: a lost scheduler takes a hundred otherwise."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[0] is not None:
            if record.exc_info[0].__name__ == "CancelledError":
                return False
            text = f"{record.getMessage()} ({record.exc_info[0].__name__}: {record.exc_info[1]})"
            record.msg, record.args = " ".join(text.split()), ()
            record.exc_info = record.exc_text = None
        return True


def _quiet() -> None:
    for handler in logging.getLogger("distributed").handlers:
        if not any(isinstance(each, _OneLine) for each in handler.filters):
            handler.addFilter(_OneLine())
