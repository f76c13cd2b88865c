"""Workers that rest: the service refuses their turns, because of their account's limit, their login or their client.

A worker hands its job back and tells how long it rests. The others continue.
"""

import threading
import time
from collections.abc import Callable
from datetime import datetime

from faber.agents.limits import reset_time
from faber.nebula.cluster.messages import Report
from faber.nebula.phase.door import AFTER, Door
from faber.nebula.phase.outcomes import ServiceClosed

HERE = 60.0  # seconds that a worker waits with a job before it hands it back
PAUSE, LONG_PAUSE = 60.0, 300.0  # seconds of rest where no time was named, and where a person has to do something


class Rest:
    """The rest of one worker."""

    def __init__(self) -> None:
        self._until = 0.0
        self._said = ""
        self._hopeless = False

    def begin(self, door: Door, said: str) -> None:
        """Rest, since the service refused a turn and `said` why."""
        now = time.time()
        reset = reset_time(said, datetime.fromtimestamp(now).astimezone())
        self._hopeless = door.patience < 0
        pause = LONG_PAUSE if self._hopeless else PAUSE
        self._until, self._said = reset.timestamp() + AFTER if reset else now + pause, said

    def report(self, execution: str) -> Report | None:
        """What is reported of a job, as long as the worker rests."""
        left = self._until - time.time()
        if left <= 0:
            return None
        name = ServiceClosed.__name__
        return Report(execution, ended=name, reason=self._said, rest=left, hopeless=self._hopeless)


class Resting:
    """The workers that rest, as their leader knows them; thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, tuple[float, bool]] = {}
        self._lock = threading.Lock()

    def note(self, report: Report) -> None:
        """The worker handed a job back."""
        with self._lock:
            self._until[report.worker] = (self._clock() + report.rest, report.hopeless)

    def names(self) -> frozenset[str]:
        """The workers that rest now."""
        now = self._clock()
        with self._lock:
            return frozenset(name for name, (until, _) in self._until.items() if until > now)

    def soonest(self) -> float | None:
        """The seconds until one may be asked again for which no person has to do anything; None if there is none."""
        now = self._clock()
        with self._lock:
            return min((until - now for until, hopeless in self._until.values() if not hopeless), default=None)
