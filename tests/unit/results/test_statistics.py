from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betainc

from edge_runner.results.statistics import (
    Series,
    early_stopping_estimate,
    early_stopping_rank,
    nearest_rank,
    percentile,
    summarize_series,
)


def test_series_by_hand() -> None:
    series = summarize_series([50, 10, 40, 20, 30, 60, 70, 80, 90, 101])
    assert (series.n, series.min, series.max) == (10, 10, 101)
    assert series.mean == 55
    assert series.median == 50  # the fifth of ten
    assert series.p90 == 90  # the ninth of ten
    assert series.p99 is None
    assert series.early_stopping.p90 is None


def test_empty_series_has_no_numbers() -> None:
    assert summarize_series([]) == Series(n=0)


@pytest.mark.parametrize(("n", "p90", "p99"), [(9, None, None), (10, 9, None), (99, 90, None)])
def test_too_few_samples_for_a_percentile(n: int, p90: int | None, p99: int | None) -> None:
    ordered = list(range(1, n + 1))
    assert percentile(ordered, 0.9) == p90
    assert percentile(ordered, 0.99) == p99


def test_p99_needs_a_hundred() -> None:
    assert percentile(range(1, 101), 0.99) == 99


@given(st.lists(st.integers(0, 10**12), min_size=1), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_nearest_rank_is_the_least_value_that_enough_samples_do_not_exceed(
    values: list[int], p: float
) -> None:
    result = nearest_rank(sorted(values), p)
    needed = math.ceil(round(p * 1000) * len(values) / 1000)

    def covered(limit: int) -> int:
        return sum(value <= limit for value in values)

    assert covered(result) >= needed
    assert all(covered(value) < needed for value in values if value < result)


@pytest.mark.parametrize(("p", "rank"), [(0.5, 466), (0.9, 78), (0.99, 3), (0.999, None)])
def test_early_stopping_of_the_official_replay(p: float, rank: int | None) -> None:
    assert early_stopping_rank(1007, p) == rank


@pytest.mark.parametrize(("p", "least"), [(0.5, 11), (0.9, 64), (0.99, 662), (0.999, 6636)])
def test_least_samples_for_an_estimate(p: float, least: int) -> None:
    assert early_stopping_rank(least - 1, p) is None
    assert early_stopping_rank(least, p) == 1
    assert early_stopping_estimate(range(least), p) == least - 1  # the maximum


def h_min(t: int, p: float, limit: int) -> int:
    """LoadGen's own search: the least h, at most `limit`, with I_p(h, t + 1) < 0.01."""
    low, high = 1, limit
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if betainc(middle, t + 1, p) < 0.01 else (middle + 1, high)
    return low


@given(st.integers(1, 20_000), st.sampled_from([0.5, 0.9, 0.97, 0.99, 0.999]))
def test_early_stopping_rank_is_the_definition(n: int, p: float) -> None:
    rank = early_stopping_rank(n, p)
    if rank is not None:
        assert h_min(rank, p, n) + rank <= n
        assert betainc(h_min(rank, p, n), rank + 1, p) < 0.01
    beyond = (rank or 0) + 1
    assert n - beyond < 1 or betainc(n - beyond, beyond + 1, p) >= 0.01


def test_early_stopping_rank_of_a_long_run() -> None:
    rank = early_stopping_rank(100_000, 0.9)
    assert rank is not None
    assert betainc(100_000 - rank, rank + 1, 0.9) < 0.01
    assert betainc(100_000 - rank - 1, rank + 2, 0.9) >= 0.01


def test_estimate_indexes_from_the_top() -> None:
    ordered = list(range(1007))
    assert early_stopping_estimate(ordered, 0.9) == 1007 - 78
    assert early_stopping_estimate(ordered, 0.999) is None
