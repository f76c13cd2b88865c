"""The ledger: with any number of workers nothing is granted that is not there."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faber.nebula.phase.budget import LEAST, Ledger

MONEY = st.integers(0, 500).map(lambda cents: cents / 100)


@given(
    limit=MONEY,
    reserve=MONEY,
    turns=st.lists(st.tuples(MONEY, st.floats(0, 1), st.booleans(), st.booleans()), max_size=30),
)
def test_grants_and_spending_stay_within_the_limit(
    limit: float, reserve: float, turns: list[tuple[float, float, bool, bool]]
) -> None:
    """Whatever order turns begin and end in, what is spent and held never exceeds the limit, nor do normal turns ever
    take what is kept for healing."""
    ledger, open_grants, normal, held = Ledger(limit, reserve=reserve), [], 0.0, 0.0
    for wanted, share, healing, settle in turns:
        grant = ledger.grant(wanted, healing=healing)
        if grant is not None:
            assert LEAST <= grant.amount <= wanted
            open_grants.append((grant, share))
            held += grant.amount
        if settle and open_grants:
            done, part = open_grants.pop(0)
            held -= done.amount
            counted = done.settle(done.amount * part)
            normal += 0 if done.healing else counted
        assert ledger.spent + held <= limit + 1e-9
    for grant, part in open_grants:
        normal += 0 if grant.healing else grant.settle(grant.amount * part)
    assert normal <= max(0.0, limit - reserve) + 1e-9


def test_the_cap_holds_with_many_threads() -> None:
    """Sixteen workers that take what they get, for as long as there is anything: not a cent above the limit."""
    ledger, cancel = Ledger(10.0), threading.Event()

    def work() -> None:
        while (grant := ledger.grant_when_free(0.7, cancel)) is not None:
            grant.settle(grant.amount)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert ledger.spent == pytest.approx(10.0, abs=LEAST)
    assert ledger.spent <= 10.0 + 1e-9


def test_who_needs_more_waits_for_those_who_hold_it() -> None:
    """A turn that would get crumbs waits until another gives back what it did not spend."""
    ledger = Ledger(5.0)
    first = ledger.grant(5.0)
    assert first is not None
    found: list[float] = []

    def wait() -> None:
        grant = ledger.grant_when_free(5.0, threading.Event())
        found.append(grant.amount if grant else -1)

    waiting = threading.Thread(target=wait)
    waiting.start()
    first.settle(1.0)
    waiting.join(30)
    assert found == [4.0]


def test_a_cancelled_wait_ends() -> None:
    """A cancelled request for budget returns without waiting."""
    ledger, cancel = Ledger(5.0), threading.Event()
    assert ledger.grant(5.0)
    cancel.set()
    assert ledger.grant_when_free(5.0, cancel) is None


def test_an_unsettled_grant_is_spent() -> None:
    """Leaving a grant without a word, or by an exception, counts all of it; settling twice counts once."""
    ledger = Ledger(5.0)
    grant = ledger.grant(2.0)
    assert grant is not None
    with pytest.raises(RuntimeError), grant:
        raise RuntimeError
    assert (ledger.spent, grant.settle(1.0), ledger.spent) == (2.0, 0.0, 2.0)


def test_healing_may_use_its_reserve() -> None:
    """The reserve is out of reach for normal turns and within reach for healing."""
    ledger = Ledger(10.0, reserve=4.0, spent=6.0)
    assert ledger.grant(1.0) is None
    healing = ledger.grant(9.0, healing=True)
    assert healing is not None
    assert healing.amount == 4.0


def test_without_a_limit() -> None:
    """No limit: every grant is what was asked for."""
    assert (grant := Ledger().grant(7.0)) is not None
    assert grant.amount == 7.0
