"""The intervals of the trial: what they promise, over all outcomes where these can be counted."""

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trials.intervals import FEWEST, mean, paired_shares, share, sign_test

COUNTS = st.integers(0, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))).filter(lambda kn: kn[1] > 0)
PAIRS = st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20)).filter(lambda each: sum(each) > 0)
GROUPS = st.lists(st.lists(st.integers(-1000, 1000).map(float), min_size=1, max_size=5), min_size=1, max_size=5)


@settings(max_examples=25)
@given(COUNTS)
def test_a_share_is_inside_its_interval_and_its_complement_mirrored(kn: tuple[int, int]) -> None:
    """The interval of a share holds it and lies in [0, 1]; that of the failures is its mirror image."""
    k, n = kn
    found, mirrored = share(k, n), share(n - k, n)
    assert 0 <= found.low <= found.estimate <= found.high <= 1
    assert mirrored.low == pytest.approx(1 - found.high, abs=1e-9)


def test_known_intervals_of_a_share() -> None:
    """Published values: none of ten, five of ten, ten of ten."""
    assert share(0, 10)[1:] == pytest.approx((0.0, 0.3085), abs=1e-4)
    assert share(5, 10)[1:] == pytest.approx((0.1871, 0.8129), abs=1e-4)
    assert share(10, 10)[1:] == pytest.approx((0.6915, 1.0), abs=1e-4)


@pytest.mark.parametrize(("k", "n"), [(0, 6), (1, 6), (7, 30), (29, 30), (30, 30), (60, 120)])
def test_beyond_an_end_the_outcome_is_as_rare_as_the_error(k: int, n: int) -> None:
    """With exact fractions: at the low end as many successes or more have half the error's probability, at the high end
    as few or fewer."""
    _, low, high = share(k, n)

    def probability(outcomes: range, p: float) -> float:
        exact = Fraction(p)
        return float(sum(math.comb(n, j) * exact**j * (1 - exact) ** (n - j) for j in outcomes))

    assert low is not None
    assert high is not None
    assert probability(range(k, n + 1), low) == pytest.approx(0.025 if k else 1.0)
    assert probability(range(k + 1), high) == pytest.approx(0.025 if k < n else 1.0)


def test_a_bootstrap_of_yes_and_no_is_that_of_the_binomials() -> None:
    """Drawing again from ones and zeros gives a sum of binomials, whose quantiles can be reckoned: the ends are at most
    two steps away from these."""
    groups = ((60, 200), (150, 200))
    total = sum(n for _, n in groups)
    sums = [1.0]
    for ones, n in groups:
        share_of_ones = ones / n
        drawn = [math.comb(n, j) * share_of_ones**j * (1 - share_of_ones) ** (n - j) for j in range(n + 1)]
        sums = [sum(sums[i] * drawn[j - i] for i in range(len(sums)) if 0 <= j - i <= n) for j in range(len(sums) + n)]
    below = list(itertools.accumulate(sums))
    _, low, high = mean([[1.0] * ones + [0.0] * (n - ones) for ones, n in groups])
    for found, tail in ((low, 0.025), (high, 0.975)):
        assert found == pytest.approx(next(j for j, p in enumerate(below) if p >= tail) / total, abs=2 / total)


@pytest.mark.parametrize("pairs", [3, 7])
def test_the_paired_interval_covers_as_often_as_it_says(pairs: int) -> None:
    """Whatever the true shares are, the intervals of all outcomes that hold their difference have 95 % of the
    probability; counted, not drawn."""
    outcomes = [(a, b) for a in range(pairs + 1) for b in range(pairs + 1 - a)]
    intervals = {each: paired_shares(*each, pairs) for each in outcomes}
    grid = [step / 10 for step in range(11)]
    for better, worse in itertools.product(grid, grid):
        if better + worse > 1:
            continue
        covered = sum(
            math.factorial(pairs) / (math.factorial(a) * math.factorial(b) * math.factorial(pairs - a - b))
            * better**a * worse**b * max(0.0, 1 - better - worse) ** (pairs - a - b)
            for (a, b), found in intervals.items()
            if found.low - 1e-9 <= better - worse <= found.high + 1e-9
        )  # fmt: skip
        assert covered >= 0.95 - 1e-9, (better, worse)


def test_the_error_is_shared_by_the_two_factors() -> None:
    """The ends are products of exact ends that together are wrong as often as the whole may be."""
    _, low, high = paired_shares(0, 6, 10)
    disagree, leaning = share(6, 10, 1 - 0.05 * 0.1), share(0, 6, 1 - 0.05 * 0.9)
    assert low == pytest.approx(disagree.high * (2 * leaning.low - 1))
    assert high == pytest.approx(disagree.low * (2 * leaning.high - 1))
    assert high < 0  # the sign test says 0.03


@settings(max_examples=20)
@given(PAIRS)
def test_the_paired_interval_knows_no_side(counts: tuple[int, int, int]) -> None:
    """Swapping the arms mirrors the interval; it holds the estimate, and more confidence makes it no narrower."""
    better, worse, _ = counts
    pairs = sum(counts)
    found, swapped = paired_shares(better, worse, pairs), paired_shares(worse, better, pairs)
    wider = paired_shares(better, worse, pairs, 0.99)
    assert -1 <= wider.low <= found.low <= found.estimate <= found.high <= wider.high <= 1
    assert swapped == pytest.approx((-found.estimate, -found.high, -found.low), abs=1e-9)


@settings(max_examples=25)
@given(st.integers(0, 8), st.integers(0, 8))
def test_the_sign_test_counts_all_outcomes(better: int, worse: int) -> None:
    """The probability is that of the outcomes at least as far from the middle, counted one by one."""
    pairs = better + worse
    far = abs(better - worse)
    as_far = sum(math.comb(pairs, k) for k in range(pairs + 1) if abs(2 * k - pairs) >= far)
    assert sign_test(better, worse) == pytest.approx(as_far / 2**pairs if far else 1.0)


@settings(max_examples=5)
@given(GROUPS, st.integers(-50, 50))
def test_a_mean_moves_with_its_values(groups: list[list[float]], shift: int) -> None:
    """The bootstrap holds the estimate, lies among the values, and moves by what all values move by; a seed repeats
    it, and too few values get no interval."""
    found, moved = mean(groups), mean([[value + shift for value in group] for group in groups])
    values = [value for group in groups for value in group]
    assert found == mean(groups)
    assert (found.low is None) == (found.high is None) == (len(values) < FEWEST)
    assert moved.estimate == pytest.approx(found.estimate + shift)
    if found.low is not None and found.high is not None:
        assert min(values) <= found.low <= found.estimate <= found.high <= max(values)
        assert (moved.low, moved.high) == pytest.approx((found.low + shift, found.high + shift))


def test_each_task_keeps_its_size() -> None:
    """Differences between tasks do not widen the interval: what is drawn again is inside of a task."""
    apart = mean([[0.0] * 6, [100.0] * 6])
    assert (apart.estimate, apart.low, apart.high) == (50, 50, 50)
    assert mean([[0.0, 100.0] * 6]).low < 40
