"""Scales, bins and curves: the arithmetic under the figures."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

LOG_FROM_RATIO = 20
"""Largest over median from which a linear scale would press most values to the floor."""

CURVE_POINTS = 400


def time_axis(largest_ns: int, median_ns: int, smallest_ns: int) -> dict[str, Any]:
    """An axis of durations in nanoseconds, with ticks people read; logarithmic where a few values
    dwarf the others."""
    if wants_log(largest_ns, median_ns, smallest_ns):
        ticks = _log_ticks(smallest_ns, largest_ns)
        low, high = math.log10(smallest_ns) - 0.08, math.log10(largest_ns) + 0.08
        axis: dict[str, Any] = {"type": "log", "range": [low, high]}
    else:
        ticks = _linear_ticks(largest_ns)
        axis = {"range": [0, max(largest_ns, 1) * 1.05]}
    return axis | {"tickvals": ticks, "ticktext": [short_duration(tick) for tick in ticks]}


def wants_log(largest_ns: int, median_ns: int, smallest_ns: int) -> bool:
    return smallest_ns > 0 and largest_ns > LOG_FROM_RATIO * median_ns


def short_duration(value_ns: float) -> str:
    """A round duration without trailing zeros: "0", "250 ms", "1.5 s"."""
    for unit, size in (("min", 60e9), ("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if value_ns >= size * (2 if unit == "min" else 1):
            return f"{value_ns / size:g} {unit}"
    return f"{value_ns:g} ns" if value_ns else "0"


def histogram(ordered: Sequence[int]) -> tuple[list[float], list[int]]:
    """Bin edges and counts over all of `ordered` (ascending, not empty). Bins of equal width, or
    of equal ratio where the axis is logarithmic; about twice the cube root of n, 8 to 60 (the Rice
    rule), since there are always some."""
    low, high = ordered[0], ordered[-1]
    bins = min(60, max(8, round(2 * len(ordered) ** (1 / 3))))
    if wants_log(high, ordered[(len(ordered) - 1) // 2], low):
        step = math.log(high / low) / bins
        edges = [low * math.exp(step * index) for index in range(bins + 1)]
    else:
        width = max(high - low, 1) / bins
        edges = [low + width * index for index in range(bins + 1)]
    places = [0, *(bisect_right(ordered, edge) for edge in edges[1:-1]), len(ordered)]
    return edges, [after - before for before, after in pairwise(places)]


def cumulative(ordered: Sequence[int]) -> tuple[list[int], list[float]]:
    """The empirical distribution: values and the share at or below each, thinned to CURVE_POINTS
    ranks, the least and the largest among them."""
    n = len(ordered)
    step = max(1, (n - 1) / CURVE_POINTS)
    ranks = sorted({min(n - 1, round(step * index)) for index in range(CURVE_POINTS + 1)})
    return [ordered[rank] for rank in ranks], [round((rank + 1) / n, 5) for rank in ranks]


def _linear_ticks(largest: float) -> list[float]:
    step = _nice_step(max(largest, 1) / 5)
    return [step * index for index in range(int(largest / step) + 1)]


def _nice_step(rough: float) -> float:
    """The next 1, 2 or 5 times a power of ten; of minutes above two minutes."""
    base = 60e9 if rough >= 30e9 else 1.0
    power = 10.0 ** math.floor(math.log10(rough / base))
    return next(base * power * m for m in (1, 2, 5, 10) if base * power * m >= rough * 0.999)


def _log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 3) if len(decades) <= 5 else (1,)
    return [m * 10.0**decade for decade in decades for m in steps]
