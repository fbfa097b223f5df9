"""Confidence intervals. The turns of one session are not independent, sessions are: resample those.

The percentile bootstrap over clusters: draw as many sessions as there are, with replacement, take
all their turns, compute the statistic, repeat; the interval holds the middle 95 % of the results.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from edge_runner.results.statistics import nearest_rank, percentile, rank

LEVEL = 0.95
LEAST_SESSIONS = 5
"""With fewer, resampling them says next to nothing of how sessions differ."""

SEED = 20_260_901
"""Fixed, so that a summary made again from the same events is the same."""

MANY_SAMPLES = 20_000


class Interval(Struct, frozen=True, kw_only=True):
    """Ends in nanoseconds of a 95 % interval."""

    low: int
    high: int


class Intervals(Struct, frozen=True, kw_only=True):
    """Of one series; None: too few samples for that number."""

    median: Interval | None = None
    p90: Interval | None = None


def bootstrap(sessions: Sequence[Sequence[int]]) -> Intervals:
    """Intervals of median and p90 over `sessions`, each a series of durations in nanoseconds.
    Empty sessions (no such number in any turn) are left out."""
    filled = [values for values in sessions if values]
    if len(filled) < LEAST_SESSIONS:
        return Intervals()
    import numpy as np

    # A session drawn w times gives each of its values the weight w; sorting once is enough.
    values = np.concatenate([np.asarray(one, np.int64) for one in filled])
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    session_of = np.repeat(np.arange(len(filled)), [len(one) for one in filled])[order]
    draws = np.random.default_rng(SEED)
    found = []
    for _ in range(replicates(len(ordered))):
        drawn = draws.integers(len(filled), size=len(filled))
        reached = np.cumsum(np.bincount(drawn, minlength=len(filled))[session_of])
        ranks = [rank(int(reached[-1]), p) for p in (0.5, 0.9)]
        found.append(ordered[np.searchsorted(reached, ranks)])
    medians, p90s = zip(*found, strict=True)
    enough = percentile(range(len(ordered)), 0.9) is not None
    return Intervals(median=_middle(medians), p90=_middle(p90s) if enough else None)


def replicates(samples: int) -> int:
    """How often to resample: fewer times where each takes long."""
    return 1000 if samples <= MANY_SAMPLES else 200


def _middle(values: Sequence[int]) -> Interval:
    ordered = sorted(map(int, values))
    tail = (1 - LEVEL) / 2
    return Interval(low=nearest_rank(ordered, tail), high=nearest_rank(ordered, 1 - tail))
