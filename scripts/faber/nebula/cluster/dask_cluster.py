"""A Dask cluster whose workers work on phases: connecting to it, running jobs on it, stopping them.

This is the only module that knows Dask, and `distributed` is loaded only when a cluster is asked for. A job takes one
unit of its worker's resource `agent`. If a worker is lost, Dask runs its job again on another; `worker` says why that
is safe. The leader writes a heartbeat every few seconds; a worker stops the jobs of a leader without one.
"""

import queue
import re
import secrets
import threading
import time
from collections.abc import Mapping
from typing import Any, Self

from faber.errors import InvalidInput
from faber.git.refs import shown
from faber.nebula.cluster.cluster_errors import (
    ClusterExtraMissing,
    ClusterLost,
    JobLost,
    JobStopped,
    SchedulerUnreachable,
)
from faber.nebula.cluster.messages import Hear, Job, Report
from faber.nebula.cluster.worker import work

RESOURCE = "agent"
CONNECT_SECONDS = 10.0
BEAT_SECONDS = 2.0
STOP_SECONDS = 60.0  # in which a turn and its processes must end
_ADDRESS = re.compile(r"(tcp|tls)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}", re.ASCII)


def checked_address(address: str) -> str:
    """`address` if it is `tcp://host:port` or `tls://host:port`; raises `InvalidInput`."""
    if not _ADDRESS.fullmatch(address) or not 0 < int(address.rpartition(":")[2]) < 65536:
        raise InvalidInput(
            f"Not a scheduler's address: {shown(address)!a}.", recovery="Give tcp://HOST:PORT or tls://…."
        )
    return address


class Cluster:
    """A connection to one scheduler, safe to use from many threads. `session` is unique to it."""

    def __init__(self, client: Any, *, beat: float = BEAT_SECONDS, stop: float = STOP_SECONDS) -> None:
        self.session = secrets.token_hex(8)
        self._client = client
        self._stop_seconds = stop
        self._inboxes: dict[str, queue.Queue[Any]] = {}
        self._stopping = threading.Event()
        self._closed = threading.Event()
        self._wake = threading.Event()
        client.subscribe_topic(_topic(self.session), self._sort)
        self._beating = threading.Thread(target=self._beat, args=(beat,), name="faber-beat", daemon=True)
        self._beating.start()

    @classmethod
    def connect(cls, address: str, *, seconds: float | None = None, **options: float) -> Self:
        """Connect to the scheduler at `address` within `seconds` (default: 10).

        Raises `ClusterExtraMissing`, `SchedulerUnreachable`, `InvalidInput`. Certificates for tls:// are set in Dask's
        own configuration.
        """
        checked_address(address)
        seconds = CONNECT_SECONDS if seconds is None else seconds
        try:
            from distributed import Client
        except ImportError as error:
            raise ClusterExtraMissing(f"A cluster needs the package distributed: {error}.") from None
        try:
            client: Any = Client(  # type: ignore[no-untyped-call]
                address, timeout=seconds, set_as_default=False, name="faber"
            )
        except (OSError, TimeoutError, TypeError) as error:
            raise SchedulerUnreachable(
                f"No scheduler answered at {address} within {seconds:g} s: {shown(str(error))}.", address=address
            ) from None
        return cls(client, **options)

    def agents(self) -> int:
        """How many jobs the present workers take at once."""
        workers = self._client.scheduler_info()["workers"].values()
        return int(sum(worker.get("resources", {}).get(RESOURCE, 0) for worker in workers))

    def run(self, job: Job, hear: Hear, cancel: threading.Event) -> Report:
        """Have `job` done by a worker; its messages go to `hear`, in this thread.

        Once `cancel` is set, the worker is asked to stop and its report is awaited. Raises `JobStopped` if none comes,
        `ClusterLost`, `JobLost`.
        """
        inbox = self._inboxes[job.token] = queue.Queue()
        heard, give_up = False, float("inf")
        try:
            future = self._client.submit(on_worker, job, key=f"faber-{job.token}", resources={RESOURCE: 1}, pure=False)
            future.add_done_callback(lambda done: inbox.put(None))
            while True:
                try:
                    message = inbox.get(timeout=0.5)
                except queue.Empty:
                    message = {}
                if message is None:
                    break
                if message:
                    heard = True
                    hear(message)
                if cancel.is_set() and give_up == float("inf"):
                    self.stop()
                    # A job that still waits for a worker sends no report.
                    give_up = time.monotonic() + (self._stop_seconds if heard else 0.0)
                if time.monotonic() > give_up:
                    future.cancel()
                    raise JobStopped
            while not inbox.empty():
                if message := inbox.get():
                    hear(message)
            return self._report(future, cancel)
        finally:
            del self._inboxes[job.token]

    def stop(self) -> None:
        """Ask the workers to stop every job of this session."""
        self._stopping.set()
        self._wake.set()

    def close(self) -> None:
        """Disconnect. Workers stop the jobs that still run."""
        self._closed.set()
        self._wake.set()
        self._beating.join(5.0)
        self._client.close(timeout=5)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _report(self, future: Any, cancel: threading.Event) -> Report:
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

    def _sort(self, event: tuple[Any, Any]) -> None:
        # Runs in the client's own thread, so nothing here may block.
        message = event[1]
        if isinstance(message, Mapping):
            inbox = self._inboxes.get(str(message.get("token")))
            if inbox is not None:
                inbox.put(message)

    def _beat(self, seconds: float) -> None:
        count = 0
        while not self._closed.is_set():
            count += 1
            try:
                self._client.set_metadata([_topic(self.session)], [count, self._stopping.is_set()])
            except Exception:  # noqa: BLE001 - whoever waits for a job notices that the scheduler is lost
                pass
            # A stop is written at once; then the usual interval applies again.
            self._wake.wait(seconds)
            if not self._closed.is_set():
                self._wake.clear()


def _topic(session: str) -> str:
    return f"faber-{session}"


# --- on a worker -----------------------------------------------------------------------------------


def on_worker(job: Job) -> Report:
    """What Dask runs on a worker: the job, in the worker's own directory."""
    from distributed import get_client, get_worker

    worker = get_worker()
    link = _Link(job, worker, get_client())
    try:
        return work(job, link, worker.local_directory)
    finally:
        link.close()


class _Link:
    """The `Link` of a job on this worker: messages through Dask's events, the heartbeat from its metadata."""

    def __init__(self, job: Job, worker: Any, client: Any) -> None:
        self._job = job
        self._worker = worker
        self._client = client
        self._beat: object = None
        self._heard = time.monotonic()
        self._stop = False
        self._closed = threading.Event()
        # A lost scheduler may never answer. So one thread asks, and `stop_wanted` never waits for it.
        threading.Thread(target=self._ask, name="faber-link", daemon=True).start()

    def send(self, message: Mapping[str, object]) -> None:
        """Send the message through the scheduler."""
        self._worker.log_event(_topic(self._job.session), {"token": self._job.token, **message})

    def stop_wanted(self) -> bool:
        """True if the leader asked for it, or its heartbeat has ended."""
        return self._stop or time.monotonic() - self._heard > self._job.patience

    def close(self) -> None:
        """The job has ended."""
        self._closed.set()

    def _ask(self) -> None:
        while not self._closed.wait(self._job.poll):
            try:
                said = self._client.get_metadata([_topic(self._job.session)], default=None)
            except Exception:  # noqa: BLE001 - counts as no heartbeat
                continue
            if isinstance(said, list | tuple) and len(said) == 2 and said[0] != self._beat:
                self._beat, self._heard, self._stop = said[0], time.monotonic(), bool(said[1])
