"""Confidence intervals. The turns of one session are not independent, sessions are: resample those.

The percentile bootstrap over clusters: draw as many sessions as there are, with replacement, take
all their turns, compute the statistic, repeat; the interval holds the middle 95 % of the results.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import chain

from msgspec import Struct

from edge_runner.results.statistics import nearest_rank, percentile

LEVEL = 0.95
LEAST_SESSIONS = 5
"""With fewer, resampling them says next to nothing of how sessions differ."""

SEED = 20_260_901
"""Fixed, so that a summary made again from the same events is the same."""

MANY_SAMPLES = 5_000


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
    filled = [sorted(values) for values in sessions if values]
    if len(filled) < LEAST_SESSIONS:
        return Intervals()
    drawn = random.Random(SEED)  # noqa: S311 - statistics
    medians: list[int] = []
    p90s: list[int] = []
    for _ in range(replicates(sum(map(len, filled)))):
        sample = sorted(chain.from_iterable(drawn.choices(filled, k=len(filled))))
        medians.append(nearest_rank(sample, 0.5))
        if (p90 := percentile(sample, 0.9)) is not None:
            p90s.append(p90)
    return Intervals(
        median=_middle(medians), p90=_middle(p90s) if len(p90s) == len(medians) else None
    )


def replicates(samples: int) -> int:
    """How often to resample: fewer times where each takes long."""
    return 1000 if samples <= MANY_SAMPLES else 100


def _middle(values: list[int]) -> Interval:
    ordered = sorted(values)
    tail = (1 - LEVEL) / 2
    return Interval(low=nearest_rank(ordered, tail), high=nearest_rank(ordered, 1 - tail))
