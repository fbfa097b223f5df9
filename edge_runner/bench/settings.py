"""From a scenario to LoadGen's settings: decided, shown and recorded before the start."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from edge_runner.config import MLPERF_MIN_DURATION_S, RunConfig
from edge_runner.errors import ConfigError

# Least queries for LoadGen's early-stopping estimate of p90 at 99 % confidence (MLPerf's rule).
LEAST_QUERIES = 64

# LoadGen generates its queries before the start, 2 x duration / expected latency of them; 600 s at
# 1 ms each would take 560 MB.
LEAST_EXPECTED_LATENCY_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class LoadGenSettings:
    """What LoadGen is told. `samples`: distinct units (turns or sessions), each issued at least
    once. `max_queries`: where it stops, 0 for when the minimum duration is over."""

    unit: Literal["turn", "session"]
    scenario: Literal["SingleStream"]
    mode: Literal["PerformanceOnly", "AccuracyOnly"]
    samples: int
    max_queries: int
    min_duration_ms: int
    expected_latency_ns: int

    def user_conf(self) -> str:
        """The same as LoadGen's user.conf (durations and latencies in ms)."""
        key = f"*.{self.scenario}"
        return (
            f"{key}.min_duration = {self.min_duration_ms}\n"
            f"{key}.min_query_count = {self.samples}\n"
            f"{key}.max_query_count = {self.max_queries}\n"
            f"{key}.target_latency = {self.expected_latency_ns / 1e6:.6f}\n"
        )

    def outlook(self) -> str | None:
        """Why LoadGen cannot call this run VALID, known before it starts; None if it can."""
        if self.mode == "PerformanceOnly" and 0 < self.max_queries < LEAST_QUERIES:
            return (
                f"{self.max_queries} queries are too few for LoadGen's p90 estimate "
                f"(needs {LEAST_QUERIES}): its verdict will be INVALID"
            )
        return None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def decide(config: RunConfig, samples: int, least_latency_ns: int) -> LoadGenSettings:
    """Settings for `samples` distinct turns or sessions. `least_latency_ns`, from the warm-up's
    speed, is at least what one takes on average: LoadGen must not run out of queries.

    `quick` and accuracy mode are one pass exactly, and no measured speed enters their settings: two
    runs of one configuration have the same. Performance under `mlperf` is one pass at
    least, and goes on with repeats until 600 s are over; its last session may end cut.
    """
    if samples < 1:
        raise ConfigError("workload: no turn to run")
    full = config.scenario.preset == "mlperf" and config.mode == "performance"
    return LoadGenSettings(
        unit=config.scenario.unit,
        scenario="SingleStream",
        mode="PerformanceOnly" if config.mode == "performance" else "AccuracyOnly",
        samples=samples,
        max_queries=0 if full else samples,
        min_duration_ms=MLPERF_MIN_DURATION_S * 1000 if full else 0,
        expected_latency_ns=max(least_latency_ns if full else 0, LEAST_EXPECTED_LATENCY_NS),
    )
