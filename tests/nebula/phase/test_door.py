"""Phases that wait for the service never wait for a turn that will not come."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from faber.agents.outcome import Outcome, TurnResult
from faber.nebula.phase.budget import Ledger
from faber.nebula.phase.door import FIRST_PAUSE, Door
from faber.nebula.phase.turns import Turns


class Progress:
    """What `Turns` needs of a phase: a door, and a grant that may be refused."""

    def __init__(self, door: Door, error: Exception | None = None) -> None:
        self.setup, self.error, self.door, self.cancel = self, error, door, threading.Event()

    def grant(self) -> object:
        """The money, or the error."""
        if self.error:
            raise self.error
        return Ledger().grant(1.0)

    def count(self, role: str, turn: object, grant: object) -> None:
        """Nothing is counted."""

    def stop_if_cancelled(self, when: str) -> None:
        """Nothing is cancelled."""

    def fail(self, kind: type, reason: str) -> None:
        """Raise what a phase would."""
        raise RuntimeError(kind.__name__, reason)


def turns(progress: Progress) -> Any:
    """The turns of that phase; no agent is asked."""
    return Turns(cast(Any, None), cast(Any, progress))


def closed_door(patience: float = 3600) -> Door:
    """A door that was closed, and may be tried again by who waits."""
    now = [0.0]
    door = Door(patience, clock=lambda: now[0], look=0.01)
    assert door.enter(threading.Event())
    assert not door.came_through(Outcome.UNAVAILABLE, "It is overloaded.")
    now[0] += FIRST_PAUSE + 1
    return door


def test_a_turn_that_does_not_begin_lets_another_try() -> None:
    """If the turn that tries finds no budget, the next phase tries; nobody waits for ever."""
    door = closed_door()
    with pytest.raises(ValueError, match="no money"):
        turns(Progress(door, ValueError("no money")))._turn("coder", lambda agents, budget: None)
    done = TurnResult(Outcome.COMPLETED, cost_usd=0.0)
    with ThreadPoolExecutor(1) as executor:
        other = Progress(door)
        future = executor.submit(turns(other)._turn, "coder", lambda agents, budget: done)
        try:
            assert future.result(timeout=5) is done
        finally:
            other.cancel.set()


def test_a_closed_account_lets_nobody_wait() -> None:
    """If the turn that tries finds that there is no credit, the phases that wait stop too, and say why."""
    door = closed_door()
    gone = TurnResult(Outcome.NO_CREDIT, error="No credit.", cost_usd=0.0)
    with pytest.raises(RuntimeError, match="No credit"):
        turns(Progress(door))._turn("coder", lambda agents, budget: gone)
    assert not door.enter(threading.Event())
    assert door.said == "No credit. Add credit to the account, or use another one."


def test_nobody_tries_where_nobody_waits() -> None:
    """Where a run waits for nothing, a phase that comes late finds the door closed, though the pause is over."""
    assert not closed_door(0)._lets_in()


def test_a_clock_that_is_set_back_is_not_waited_for() -> None:
    """What a door waits for is unknown once the clock was set back: one turn tries, and nobody waits for hours."""
    now = [100_000.0]
    door = Door(3600, clock=lambda: now[0], look=0.01)
    assert door.enter(threading.Event())
    assert not door.came_through(Outcome.UNAVAILABLE, "It is overloaded.")
    now[0] -= 50_000
    impatient = threading.Event()
    threading.Timer(0.2, impatient.set).start()
    assert door.enter(impatient)
    assert not door.came_through(Outcome.UNAVAILABLE, "It is overloaded.")
    now[0] += 2 * FIRST_PAUSE + 1
    assert door.enter(threading.Event())


def test_many_refusals_close_the_door_once() -> None:
    """Turns that began together and are refused one after the other lengthen no pause and record one event."""
    now, recorded = [0.0], list[Any]()
    door = Door(3600, record=recorded.append, clock=lambda: now[0], look=0.01)
    for _ in range(3):
        assert door.enter(threading.Event())
    for _ in range(3):
        assert not door.came_through(Outcome.UNAVAILABLE, "It is overloaded.")
        now[0] += FIRST_PAUSE
    assert door.enter(threading.Event())
    assert door.came_through(Outcome.COMPLETED, "")
    assert [each["type"] for each in recorded] == ["turns_refused", "turns_resumed"]
    assert recorded[0]["metadata"]["waiting_until"] == "1970-01-01T00:00:30Z"
