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
    settings = decide(config(), samples=70, least_latency_ns=SECOND_NS)
    assert (settings.samples, settings.max_queries, settings.min_duration_ms) == (70, 70, 0)


@pytest.mark.parametrize("latency_ns", [2 * SECOND_NS, 5_000_000, 1])
def test_mlperf_goes_on_until_600_seconds(config: Any, latency_ns: int) -> None:
    settings = decide(
        config(scenario={"preset": "mlperf"}), samples=70, least_latency_ns=latency_ns
    )
    assert (settings.samples, settings.max_queries) == (70, 0)
    assert settings.min_duration_ms == 600_000
    # LoadGen prepares 2 x duration / expected latency queries: enough, and not millions.
    prepared = 2 * 600 * SECOND_NS / settings.expected_latency_ns
    assert min(600 * SECOND_NS / latency_ns, 600_000) <= prepared <= 1_200_000


def test_no_measured_speed_enters_the_settings_of_a_quick_run(config: Any) -> None:
    slow, fast = (decide(config(), samples=9, least_latency_ns=ns) for ns in (SECOND_NS, 1))
    assert slow == fast


def test_accuracy_mode_is_one_pass_under_mlperf_too(config: Any) -> None:
    settings = decide(
        config(scenario={"preset": "mlperf"}, mode="accuracy"), samples=70, least_latency_ns=1
    )
    assert (settings.mode, settings.max_queries, settings.min_duration_ms) == (
        "AccuracyOnly", 70, 0,
    )  # fmt: skip


def test_too_few_queries_are_said_before_the_run(config: Any) -> None:
    few = decide(config(), samples=63, least_latency_ns=1).outlook()
    assert few is not None
    assert "needs 64" in few
    assert decide(config(), samples=64, least_latency_ns=1).outlook() is None


def test_user_conf_carries_every_setting(config: Any) -> None:
    lines = decide(config(), samples=12, least_latency_ns=1).user_conf().splitlines()
    assert "*.SingleStream.min_query_count = 12" in lines
    assert "*.SingleStream.max_query_count = 12" in lines
    assert "*.SingleStream.min_duration = 0" in lines


def test_no_turn_is_an_error(config: Any) -> None:
    with pytest.raises(ConfigError):
        decide(config(), samples=0, least_latency_ns=1)
