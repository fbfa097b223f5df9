from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from edge_runner.engines import Usage
from edge_runner.results.intervals import LEAST_SESSIONS, bootstrap
from edge_runner.results.summary import summarize

MS = 1_000_000


def test_the_interval_holds_the_true_median_about_as_often_as_it_says() -> None:
    """Sessions that differ from each other, turns that differ a little within: an interval that
    took turns for independent would be far too narrow."""
    held = 0
    rounds = 60
    for round_ in range(rounds):
        draw = random.Random(round_)
        levels = [draw.gauss(1000, 100) for _ in range(25)]
        sessions = [[round(draw.gauss(level, 10)) for _ in range(20)] for level in levels]
        interval = bootstrap(sessions).median
        assert interval is not None
        held += interval.low <= 1000 <= interval.high
    assert held / rounds >= 0.8


def test_the_same_turns_give_the_same_interval() -> None:
    sessions = [[index * 10 + at for at in range(12)] for index in range(8)]
    assert bootstrap(sessions) == bootstrap(sessions)


def test_equal_sessions_leave_no_doubt() -> None:
    intervals = bootstrap([[5, 5, 5]] * 6)
    assert intervals.median is not None
    assert (intervals.median.low, intervals.median.high) == (5, 5)


def test_too_few_sessions_have_no_interval() -> None:
    assert bootstrap([[1, 2]] * (LEAST_SESSIONS - 1)).median is None
    assert bootstrap([[1, 2]] * (LEAST_SESSIONS - 1) + [[]]).median is None


def test_the_summary_says_that_sessions_are_too_few(
    make_run: Callable[..., Any], make_outcome: Callable[..., Any]
) -> None:
    folder, run = make_run([make_outcome("one"), make_outcome("two")])
    confidence = summarize(folder, run).confidence
    assert confidence.latency_ns.median is None
    assert "too few samples" in (confidence.note or "")


def test_sessions_and_places(
    make_run: Callable[..., Any], make_outcome: Callable[..., Any]
) -> None:
    folder, run = make_run(
        [make_outcome(name, turn) for name in "abcdef" for turn in (1, 2)]
        + [(make_outcome("a", 1), {"repeat": True})]
    )
    summary = summarize(folder, run)
    assert [(row.session, row.turns, row.latency_ns) for row in summary.by_session] == [
        (name, 2, 306 * MS) for name in "abcdef"
    ]
    assert [(row.turn, row.n) for row in summary.by_position] == [(1, 6), (2, 6)]
    assert summary.confidence.sessions == 6
    interval = summary.confidence.latency_ns.median
    assert interval is not None
    assert interval.low == interval.high == 153 * MS


@pytest.mark.parametrize(
    ("slo", "attainment"),
    [
        ({}, None),
        ({"ttft_ms": 102}, 0.5),
        ({"ttft_ms": 100}, 0.0),
        ({"ttft_ms": 102, "tpot_ms": 5}, 0.25),
        ({"tpot_ms": 20}, 0.5),
    ],
)
def test_slo_attainment_counts_every_expected_turn(
    make_run: Callable[..., Any],
    make_outcome: Callable[..., Any],
    slo: dict[str, float],
    attainment: float | None,
) -> None:
    """Two answers (one a single token), one empty, one never issued."""
    short = Usage(prompt=10, evaluated=10, new=10, output=1)
    folder, run = make_run(
        [
            make_outcome(turn=1),
            make_outcome(turn=2, usage=short),
            make_outcome(turn=3, status="empty"),
        ],
        expected_turns=4,
        config={"slo": slo},
    )
    assert summarize(folder, run).slo.attainment == attainment
