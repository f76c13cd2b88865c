"""Intervals for paired differences, with the standard library.

A paired outcome that is yes or no gets an exact interval: it covers the true difference at least as often as it says,
however few pairs there are. Anything else gets a bootstrap, which needs more pairs and promises less.
"""

import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

CONFIDENCE = 0.95
LEANING = 0.9  # the part of the error that is spent on which side the pairs lean to
ROUNDS = 2_000
FEWEST = 8  # pairs; a bootstrap of fewer says little about anything but them
_HALVINGS = 44


class Interval(NamedTuple):
    """An estimate and the two ends around it; the ends are None where there are too few pairs for them."""

    estimate: float
    low: float | None
    high: float | None


def share(successes: int, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """The exact interval of Clopper and Pearson for a share; nothing is known after no trial."""
    if not trials:
        return Interval(math.nan, 0.0, 1.0)
    tail = (1 - confidence) / 2
    low = 0.0 if successes == 0 else _root(lambda p: _at_least(successes, trials, p) - tail)
    high = 1.0 if successes == trials else _root(lambda p: tail - _at_least(trials - successes, trials, 1 - p))
    return Interval(successes / trials, low, high)


def paired_shares(better: int, worse: int, pairs: int, confidence: float = CONFIDENCE) -> Interval:
    """The difference of two paired shares: `better` pairs have only the first, `worse` only the second, of `pairs`.

    It is the share of the pairs that disagree, times how far these lean to the first. Both factors get an exact
    interval, which share the error; by the union bound both hold at once with at least `confidence`, and so do the
    products of their ends. Most of the error goes to the leaning, so that zero is left out nearly where the sign test
    says so.
    """
    if not pairs:
        return Interval(math.nan, -1.0, 1.0)
    error = 1 - confidence
    disagree = _ends(better + worse, pairs, 1 - error * (1 - LEANING))
    leaning = [2 * end - 1 for end in _ends(better, better + worse, 1 - error * LEANING)]
    products = [part * side for part in disagree for side in leaning]
    return Interval((better - worse) / pairs, min(products), max(products))


def _ends(successes: int, trials: int, confidence: float) -> tuple[float, float]:
    _, low, high = share(successes, trials, confidence)
    assert low is not None
    assert high is not None
    return low, high


def sign_test(better: int, worse: int) -> float:
    """How probable it is that as many pairs or more disagree to one side if neither side is favoured (two-sided)."""
    pairs, most = better + worse, max(better, worse)
    return min(1.0, 2 * sum(math.comb(pairs, k) for k in range(most, pairs + 1)) / 2**pairs) if pairs else 1.0


def mean(groups: Sequence[Sequence[float]], confidence: float = CONFIDENCE, seed: int = 0) -> Interval:
    """The mean of all values with a percentile bootstrap in which each group (a task) keeps its size.

    The same values and seed give the same interval. Fewer than FEWEST values get none.
    """
    kept = [list(group) for group in groups if group]
    values = [value for group in kept for value in group]
    if not values:
        return Interval(math.nan, None, None)
    estimate = math.fsum(values) / len(values)
    if len(values) < FEWEST:
        return Interval(estimate, None, None)
    rng = random.Random(seed)
    means = sorted(
        math.fsum(math.fsum(rng.choices(group, k=len(group))) for group in kept) / len(values) for _ in range(ROUNDS)
    )
    out = round((1 - confidence) / 2 * ROUNDS)
    return Interval(estimate, min(means[out], estimate), max(means[-1 - out], estimate))


def _at_least(k: int, n: int, p: float) -> float:
    """The probability of at least `k` successes in `n` trials."""
    if p <= 0 or p >= 1 or k <= 0:
        return float(k <= 0 or p >= 1)
    # The first term by logarithms, which do not overflow, each further one from the one before.
    term = math.exp(_log_choose(n, k) + k * math.log(p) + (n - k) * math.log1p(-p))
    total, odds = term, p / (1 - p)
    for i in range(k, n):
        term *= (n - i) / (i + 1) * odds
        total += term
    return min(1.0, total)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _root(rising: Callable[[float], float]) -> float:
    """Where a function that rises in [0, 1] crosses zero."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if rising(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2
