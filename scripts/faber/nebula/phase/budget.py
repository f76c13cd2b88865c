"""The budget of a run with many workers.

A turn gets a grant before it starts. However many turns run at once, their grants plus what was spent never exceed the
limit.
"""

import threading
from typing import Self

# In US dollars: the smallest useful grant, and the grant worth waiting for while others hold money.
LEAST = 0.01
ENOUGH = 0.5


class Grant:
    """What one turn may spend, in US dollars. Settle it once with the actual cost. A context manager that exits
    unsettled counts all of it as spent, because a killed turn does not report its cost."""

    def __init__(self, ledger: "Ledger", amount: float, *, healing: bool) -> None:
        self.amount = amount
        self.healing = healing
        self._ledger = ledger
        self._open = True

    def settle(self, spent: float | None, *, bound: bool = True) -> float:
        """Return the unspent rest to the ledger. None counts as all of it or, for a client that the limit does not
        bind, as nothing: nobody knows it. Returns the amount counted."""
        if not self._open:
            return 0.0
        self._open = False
        counted = (self.amount if bound else 0.0) if spent is None else max(0.0, spent)
        self._ledger._settle(self, counted)
        return counted

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.settle(None)


class Ledger:
    """What a run may spend and has spent, in US dollars; thread-safe.

    `limit` None: no limit, every grant is given in full. Only grants with `healing=True` may use `reserve`. `spent` is
    what earlier processes of the run spent, of which `healing_spent` on healing.
    """

    def __init__(
        self, limit: float | None = None, *, reserve: float = 0.0, spent: float = 0.0, healing_spent: float = 0.0
    ) -> None:
        self.limit = limit
        self.reserve = reserve
        self._spent = spent
        self._healing_spent = healing_spent
        self._granted = 0.0
        self._healing_granted = 0.0
        self._open = 0
        self._lock = threading.Condition()

    @property
    def spent(self) -> float:
        """The total spent."""
        with self._lock:
            return self._spent

    def left(self, *, healing: bool = False) -> float | None:
        """The largest possible grant now; None without a limit."""
        with self._lock:
            return self._left(healing)

    def grant(self, wanted: float, *, healing: bool = False, least: float = LEAST) -> Grant | None:
        """`wanted` dollars, or what is left; None if less than `least` is left."""
        with self._lock:
            left = self._left(healing)
            amount = wanted if left is None else min(wanted, left)
            if amount < least:
                return None
            self._open += 1
            self._granted += amount
            if healing:
                self._healing_granted += amount
            return Grant(self, amount, healing=healing)

    def grant_when_free(self, wanted: float, cancel: threading.Event, *, healing: bool = False) -> Grant | None:
        """Like `grant`, but waits while others hold the missing money.

        None if less than `LEAST` is left and nobody holds any, or if `cancel` is set.
        """
        while not cancel.is_set():
            with self._lock:
                left = self._left(healing)
                if left is None or left >= min(wanted, ENOUGH) or self._granted <= 0:
                    return self.grant(wanted, healing=healing)
                self._lock.wait(0.2)
        return None

    def _left(self, healing: bool) -> float | None:
        if self.limit is None:
            return None
        left = self.limit - self._spent - self._granted
        if not healing:
            # What healing has already used of its reserve is not kept again.
            left -= max(0.0, self.reserve - self._healing_spent - self._healing_granted)
        return max(0.0, left)

    def _settle(self, grant: Grant, spent: float) -> None:
        with self._lock:
            # Rounding errors add up; without an open grant nothing is held.
            self._open -= 1
            self._granted = self._granted - grant.amount if self._open else 0.0
            self._spent += spent
            if grant.healing:
                self._healing_granted = max(0.0, self._healing_granted - grant.amount)
                self._healing_spent += spent
            self._lock.notify_all()
