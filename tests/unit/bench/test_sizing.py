from __future__ import annotations

import pytest

from edge_runner.bench.sizing import SIZES, SMALLEST, Speed, choose, estimate_s
from edge_runner.sessions import SessionPlan

PLANS = [SessionPlan(name, 10, 10_000) for name in ("a", "b", "c")]
FAST = Speed(prefill_ns=100_000, decode_ns=1_000_000)


def test_a_fast_machine_runs_everything() -> None:
    assert choose(300, FAST, PLANS) == SIZES[0]


def test_a_slow_machine_runs_less_but_never_nothing() -> None:
    slow = Speed(prefill_ns=20e6, decode_ns=100e6)
    size = choose(300, slow, PLANS)
    assert SIZES[0] != size
    assert estimate_s(size, slow, PLANS) <= 300
    assert choose(1, Speed(1e9, 1e9), PLANS) == SMALLEST


def test_sizes_go_from_much_to_little() -> None:
    for speed in (FAST, Speed(prefill_ns=1e6, decode_ns=1e6)):
        costs = [estimate_s(size, speed, PLANS) for size in SIZES]
        assert costs == sorted(costs, reverse=True)


def test_the_estimate_is_prompt_plus_longest_replies_slowed_by_depth() -> None:
    speed = Speed(prefill_ns=1e6, decode_ns=2e6)
    cost = estimate_s(SMALLEST, speed, PLANS)
    assert cost == pytest.approx(1.6 * (3000 / 3.5 * 1e6 + 3 * 16 * 2e6) / 1e9)


def test_sets_name_only_what_is_limited() -> None:
    assert SIZES[0].sets() == ["generation.max_tokens=256"]
    assert SMALLEST.sets()[0] == "workload.sessions=1"
