"""Waits out the account's limits and the service's outages, which are nobody's failure.

All phases of a run share one door for each client. A turn that the service refused closes it; then no turn begins
until the limit is over, or a pause that grows. One turn tries first; the others follow once it came through. Where the
nebula names a fallback, the turns continue in that client meanwhile.
"""

import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from faber.agents.client_kinds import CLAUDE, KINDS
from faber.agents.limits import reset_time
from faber.agents.outcome import HOPELESS, TEMPORARY, Outcome, TurnFailed, TurnResult, failure
from faber.events.drafts import Draft
from faber.events.nebula_events import turns_refused, turns_resumed
from faber.model.state_parts import Pause
from faber.text.safe_text import sentence

HOURS = 12.0  # how long a run waits unless it is told otherwise
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 900.0  # seconds, where no time was named
AFTER = 5.0  # seconds after the time that was named
_LOOK = 0.5

T = TypeVar("T")


class Door:
    """The door of one client: open, or closed until a time. `fallback` is the client that continues meanwhile.

    `patience` are the seconds that a closed door is waited for, 0 for none; `tell` gets a line for people, `record` the
    events. `paused` is the pause that an earlier process of the run was in: the rest of it is waited for. `clock` is
    the time in seconds, `look` the seconds between two looks at it.
    """

    def __init__(
        self,
        patience: float = HOURS * 3600,
        tell: Callable[[str], None] = lambda text: None,
        *,
        client: str = CLAUDE,
        fallback: str | None = None,
        record: Callable[[Draft], object] = lambda draft: None,
        paused: Pause | None = None,
        clock: Callable[[], float] = time.time,
        look: float = _LOOK,
    ) -> None:
        self.client = client
        self.patience = self._first_patience = patience
        self.said = ""  # by the turn that closed it last
        self._tell = tell
        self._record = record
        self._paused = paused
        self._recorded = False
        self._clock = clock
        self._fallback = fallback
        self._family = {client: self}
        self._look = look
        self._changed = threading.Condition(threading.RLock())
        self._since: float | None = None  # closed since then
        self._until = 0.0
        self._pause = FIRST_PAUSE
        self._trying: int | None = None  # the thread whose turn tries
        self._take_up(paused)

    @property
    def is_open(self) -> bool:
        """False while no turn may begin but one that tries."""
        return self._since is None

    @property
    def lets_through(self) -> bool:
        """True if turns may begin, here or in the fallback."""
        return self.is_open or self._continues_in is not None

    def of(self, client: str) -> "Door":
        """The door of another client of the run."""
        with self._changed:
            if client not in self._family:
                door = Door(
                    self._first_patience,
                    self._tell,
                    client=client,
                    fallback=self._fallback,
                    record=self._record,
                    clock=self._clock,
                    look=self._look,
                )
                door._family, door._changed, door._paused = self._family, self._changed, self._paused
                self._family[client] = door
                door._take_up(self._paused)
            return self._family[client]

    def closed(self, clients: Sequence[str] = ()) -> "Door":
        """The door of those of `clients` (default: this one's) that opens first; one that waits for a person does not
        open."""
        doors = [self.of(client) for client in clients] or [self]
        return min(doors, key=lambda door: door._until if door.patience >= 0 else float("inf"))

    def that_said(self, said: str) -> "Door":
        """The door of the run that was closed with these words; this one if there is none."""
        return next((door for door in self._family.values() if door.said and said.startswith(door.said)), self)

    @property
    def _continues_in(self) -> str | None:
        other = self._fallback
        return other if other not in (None, self.client) and self.of(other or "").is_open else None

    def enter(self, cancel: threading.Event, clients: Sequence[str] = ()) -> "Door | None":
        """Wait until a turn may begin in one of `clients` (default: this door's); the door of the first where it may.
        None if it may not: `cancel` is set, or the patience is at its end for each."""
        doors = [self.of(client) for client in clients] or [self]
        with self._changed:
            while not cancel.is_set():
                entered = next((door for door in doors if door._lets_in()), None)
                if entered is not None or all(door._stays_closed for door in doors):
                    return entered
                self._changed.wait(self._look)
        return None

    def _lets_in(self) -> bool:
        """True if a turn begins now; where the door is closed, it is the one that tries."""
        if self._since is None:
            return True
        now = self._clock()
        if now < self._since:  # the clock was set back: nobody knows how long is left, so one turn tries
            self._since = self._until = now
        given_up = self._stays_closed if self._fallback is None else self.patience < 0
        if given_up or now < self._until or self._trying is not None:
            return False
        self._trying = threading.get_ident()
        return True

    @property
    def _stays_closed(self) -> bool:
        """True if nobody waits for it."""
        return self.patience < 0 or (self._since is not None and self._until - self._since > self.patience)

    def ask(self, cancel: threading.Event, turn: Callable[[], T]) -> T:
        """The value of `turn`, which is repeated while the service refuses it; raises `TurnFailed`."""
        while self.enter(cancel):
            outcome, said = Outcome.CANCELLED, ""
            try:
                value = turn()
                outcome = Outcome.COMPLETED
                return value
            except TurnFailed as error:
                outcome, said = error.result.outcome, error.message
                if outcome not in TEMPORARY:
                    raise
            finally:
                self.came_through(outcome, said)
        raise failure(TurnResult(Outcome.CANCELLED if cancel.is_set() else Outcome.UNAVAILABLE, error=self.said))

    def came_through(self, outcome: Outcome, said: str) -> bool:
        """Note how a turn ended, `said` being its error; False if the service refused it, so that it did not happen.

        Called after every `enter` that returned True, by the same thread; with `CANCELLED` where there was no turn.
        """
        with self._changed:
            tried = self._trying == threading.get_ident()
            if tried:
                self._trying = None
            telling = tried or self._since is None  # a turn that began before the door closed tells nothing new
            try:
                if outcome in HOPELESS:
                    self._close_for_good(outcome, said)
                elif outcome in TEMPORARY and telling:
                    self._close(outcome, said)
                elif outcome not in TEMPORARY and outcome is not Outcome.CANCELLED and telling:
                    self._open()
            finally:
                self._changed.notify_all()
        return outcome not in TEMPORARY

    def _take_up(self, paused: Pause | None) -> None:
        """Stay closed as long as the earlier process would have waited, if it was this client that was refused and that
        is within the patience."""
        if paused is None or paused.get("client", CLAUDE) != self.client:
            return
        self._recorded = True
        try:
            until = datetime.fromisoformat(paused["waiting_until"] or "").timestamp()
        except ValueError:
            return
        now = self._clock()
        if now < until <= now + self.patience:
            self._since, self._until, self.said = now, until, paused["message"]
            if (other := self._continues_in) is not None:
                self._tell(f"{sentence(self.said)} The run continues in {KINDS[other].title} until {_time_of(until)}.")
            else:
                self._tell(f"{sentence(self.said)} The run waits for the rest: until {_time_of(until)}.")

    def _open(self) -> None:
        if self._since is not None:
            self._since, self._pause = None, FIRST_PAUSE
            again = "the run continues" if self._fallback is None else f"the run continues in {self._title}"
            self._tell(f"The service answers again; {again}.")
        if self._recorded:
            self._recorded = False
            self._record(turns_resumed(self.client))

    def _close_for_good(self, outcome: Outcome, said: str) -> None:
        """Nobody waits for a person."""
        self._since = self._until = self._clock()
        self.patience = -1.0
        self.said = f"{sentence(said)} {failure(TurnResult(outcome, client=self.client)).recovery}"
        self._note(outcome, None)
        if (other := self._continues_in) is not None:
            self._tell(f"{self.said} The run continues in {KINDS[other].title}.")

    @property
    def _title(self) -> str:
        return KINDS[self.client].title

    def _note(self, outcome: Outcome, until: float | None) -> None:
        at = datetime.fromtimestamp(until, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if until is not None else None
        self._recorded = True
        said, other = self.said or outcome.value, self._continues_in
        self._record(
            turns_refused(said, reason=outcome.value, waiting_until=at, client=self.client, continues_in=other)
        )

    def _close(self, outcome: Outcome, said: str) -> None:
        now = self._clock()
        self._since = now if self._since is None else self._since
        self.said = said
        reset = reset_time(said, datetime.fromtimestamp(now).astimezone()) if outcome is Outcome.LIMITED else None
        if reset is not None:
            self._until = reset.timestamp() + AFTER
        else:
            self._until, self._pause = now + self._pause, min(2 * self._pause, LONGEST_PAUSE)
        self._note(outcome, self._until)  # first, so that whoever is told finds it recorded
        if (other := self._continues_in) is not None:
            until = f"{self._title} is tried again at {_time_of(self._until)}"
            self._tell(f"{sentence(said)} The run continues in {KINDS[other].title}; {until}.")
        elif self._until - self._since <= self.patience:
            self._tell(f"{sentence(said)} The run waits until {_time_of(self._until)}, then tries again.")


def _time_of(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds):%H:%M:%S}"
