"""What a cache may keep: pure arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runner.devices.llama_cpp.prefix import (
    ROW_MULTIPLE,
    Held,
    Steps,
    divergence_of,
    shared_length,
)
from edge_runner.engines import Divergence
from edge_runner.messages import Message, ToolSpec

STEPS = Steps(batch_tokens=64, min_rows=8)


def all_steps(start: int, prompt: int, steps: Steps = STEPS) -> list[tuple[int, int]]:
    spans = []
    while start < prompt:
        end = steps.end(start, prompt)
        spans.append((start, end))
        start = end
    return spans


@given(st.integers(1, 600), st.integers(0, 600))
def test_a_kept_prefix_leaves_steps_like_a_fresh_context_s(prompt: int, limit: int) -> None:
    cut = STEPS.cut(limit, prompt)
    assert 0 <= cut <= limit
    assert cut < prompt
    assert cut % ROW_MULTIPLE == 0
    fresh, kept = all_steps(0, prompt), all_steps(cut, prompt)
    assert kept[1:] == fresh[len(fresh) - len(kept) + 1 :]
    start, end = kept[0]
    assert kept[0] in fresh or end - start >= STEPS.min_rows


@given(st.integers(1, 600), st.integers(0, 600))
def test_little_more_than_needed_is_evaluated(prompt: int, limit: int) -> None:
    cut = STEPS.cut(limit, prompt)
    assert min(limit, prompt - 1) - cut < STEPS.min_rows + ROW_MULTIPLE


@given(st.integers(0, 600))
def test_rows_of_a_short_or_ragged_last_step_are_not_kept(evaluated: int) -> None:
    exact = STEPS.exact(evaluated)
    assert exact % ROW_MULTIPLE == 0
    assert exact <= evaluated
    begin = evaluated - evaluated % STEPS.batch_tokens
    if exact > begin:
        assert evaluated - begin >= STEPS.min_rows


@given(st.lists(st.integers(0, 3), max_size=40), st.lists(st.integers(0, 3), max_size=40))
def test_shared_length(a: list[int], b: list[int]) -> None:
    shared = shared_length(a, b)
    assert a[:shared] == b[:shared]
    assert shared in (len(a), len(b)) or a[shared] != b[shared]


@pytest.mark.parametrize("at", [0, 1, 1023, 1024, 1025, 4999, 5000])
def test_shared_length_of_long_lists(at: int) -> None:
    a = list(range(5000))
    b = [*a[:at], -1, *a[at + 1 :]]
    assert shared_length(a, b) == min(at, 5000)
    assert shared_length(a, a[:at]) == at


HISTORY = (Message("system", "s"), Message("user", "u"))
LONGER = (*HISTORY, Message("assistant", "a"), Message("user", "v"))


@pytest.mark.parametrize(
    ("now", "shared", "expected"),
    [
        (Held([1, 2, 3, 4], LONGER), 3, None),
        (Held([1, 2, 9, 4], LONGER), 2, Divergence(2, "template changed")),
        (Held([1, 9, 3], (Message("user", "x"),)), 1, Divergence(1, "history replaced")),
        (Held([9, 2, 3], LONGER, (ToolSpec("t"),)), 0, Divergence(0, "tools changed")),
        (Held([1, 2], HISTORY), 2, Divergence(2, "template changed")),
    ],
)
def test_a_divergence_says_where_and_why(
    now: Held, shared: int, expected: Divergence | None
) -> None:
    assert divergence_of(Held([1, 2, 3], HISTORY), now, shared) == expected


def test_a_cold_sequence_does_not_diverge() -> None:
    assert divergence_of(Held(), Held([1], HISTORY), 0) is None
