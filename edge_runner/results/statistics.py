"""Statistics of a series of durations: nearest-rank percentiles and early-stopping estimates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

from msgspec import Struct

DOUBT = 0.01
"""Of the early-stopping estimate: LoadGen's confidence is 99 %."""


class EarlyStopping(Struct, frozen=True, kw_only=True):
    """Early-stopping estimates (see `early_stopping_rank`); None: too few samples."""

    p90: int | None = None
    p99: int | None = None


class Series(Struct, frozen=True, kw_only=True):
    """A series of durations, all in nanoseconds. None: too few samples for that number."""

    n: int = 0
    min: int | None = None
    mean: int | None = None
    median: int | None = None
    p90: int | None = None
    p99: int | None = None
    max: int | None = None
    early_stopping: EarlyStopping = EarlyStopping()


def summarize_series(values: Iterable[int]) -> Series:
    """The summary of `values`, in any order."""
    ordered = sorted(values)
    if not ordered:
        return Series()
    return Series(
        n=len(ordered),
        min=ordered[0],
        mean=round(sum(ordered) / len(ordered)),
        median=nearest_rank(ordered, 0.5),
        p90=percentile(ordered, 0.9),
        p99=percentile(ordered, 0.99),
        max=ordered[-1],
        early_stopping=EarlyStopping(
            p90=early_stopping_estimate(ordered, 0.9), p99=early_stopping_estimate(ordered, 0.99)
        ),
    )


def nearest_rank(ordered: Sequence[int], p: float) -> int:
    """The least value that at least the share `p` of the samples do not exceed.

    `ordered` is ascending and not empty; 0 < p <= 1, taken to the nearest thousandth so that
    0.9 of 10 samples is exactly 9. The median of an even count is thus the lower of the two.
    LoadGen's summary shows ordered[floor(p n)] instead: one rank higher where p n is whole.
    """
    return ordered[rank(len(ordered), p) - 1]


def rank(n: int, p: float) -> int:
    """The nearest rank (1-based) of percentile `p` of `n` samples, as in `nearest_rank`."""
    return math.ceil(Fraction(p).limit_denominator(1000) * n)


def percentile(ordered: Sequence[int], p: float) -> int | None:
    """`nearest_rank`, or None when the samples are too few for `p` to differ from the maximum in
    kind: it takes 1 / (1 - p) of them for one to lie beyond (10 for p90, 100 for p99)."""
    share = Fraction(p).limit_denominator(1000)
    if len(ordered) * (1 - share) < 1:
        return None
    return nearest_rank(ordered, p)


def early_stopping_estimate(ordered: Sequence[int], p: float) -> int | None:
    """LoadGen's early-stopping estimate of percentile `p`: with 99 % confidence the true
    percentile is no larger. `ordered` is ascending. None: too few samples."""
    t = early_stopping_rank(len(ordered), p)
    return None if t is None else ordered[len(ordered) - t]


def early_stopping_rank(n: int, p: float) -> int | None:
    """t, the rank from the top that estimates percentile `p` of `n` samples; None: too few.

    LoadGen's definition: t is the greatest i >= 1 with h_min(i) + i <= n, where h_min(i) is the
    least h with I_p(h, i + 1) < 0.01 (I: the regularized incomplete beta function). I_p falls as h
    grows, so that is I_p(n - i, i + 1) < 0.01, which is the chance that at most i of n samples lie
    beyond the percentile. Hence t is the last i at which the binomial distribution B(n, 1 - p) has
    not yet reached 0.01: one walk up its terms, no special function.
    """
    odds = math.log1p(-p) - math.log(p)
    log_term = n * math.log(p)
    reached = math.exp(log_term)
    t = 0
    while t < n:
        log_term += math.log((n - t) / (t + 1)) + odds
        reached += math.exp(log_term)
        if reached >= DOUBT:
            break
        t += 1
    return t or None
