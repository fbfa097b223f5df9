from __future__ import annotations

from typing import Any

import pytest

from edge_runner.bench.settings import decide
from edge_runner.config import RunConfig, load_config
from edge_runner.errors import ConfigError

SECOND_NS = 1_000_000_000


@pytest.fixture
def config(scripted_config: Any) -> Any:
    def make(**changes: Any) -> RunConfig:
        return load_config(scripted_config({"one": 2}, **changes))

    return make


def test_quick_is_one_pass_without_a_minimum(config: Any) -> None:
    settings = decide(config(), samples=70, estimated_pass_ns=SECOND_NS)
    assert (settings.samples, settings.queries, settings.min_duration_ms) == (70, 70, 0)


@pytest.mark.parametrize(("pass_s", "passes"), [(1, 750), (100, 8), (749, 2), (4000, 1)])
def test_mlperf_fills_600_seconds_with_whole_passes(config: Any, pass_s: int, passes: int) -> None:
    settings = decide(
        config(scenario={"preset": "mlperf"}), samples=70, estimated_pass_ns=pass_s * SECOND_NS
    )
    assert (settings.passes, settings.min_duration_ms) == (passes, 600_000)
    assert settings.queries == 70 * passes
    # LoadGen prepares 2 x duration / expected latency queries: enough, and not many more.
    prepared = 2 * 600 * SECOND_NS / settings.expected_latency_ns
    assert prepared <= settings.queries * 1.01


def test_accuracy_mode_is_one_pass_under_mlperf_too(config: Any) -> None:
    settings = decide(
        config(scenario={"preset": "mlperf"}, mode="accuracy"), samples=70, estimated_pass_ns=1
    )
    assert (settings.mode, settings.passes, settings.min_duration_ms) == ("AccuracyOnly", 1, 0)


def test_too_few_queries_are_said_before_the_run(config: Any) -> None:
    few = decide(config(), samples=63, estimated_pass_ns=1).outlook()
    assert few is not None
    assert "needs 64" in few
    assert decide(config(), samples=64, estimated_pass_ns=1).outlook() is None


def test_user_conf_carries_every_setting(config: Any) -> None:
    lines = decide(config(), samples=12, estimated_pass_ns=1).user_conf().splitlines()
    assert "*.SingleStream.min_query_count = 12" in lines
    assert "*.SingleStream.max_query_count = 12" in lines
    assert "*.SingleStream.min_duration = 0" in lines


def test_no_turn_is_an_error(config: Any) -> None:
    with pytest.raises(ConfigError):
        decide(config(), samples=0, estimated_pass_ns=1)
