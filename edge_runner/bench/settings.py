"""From a scenario to LoadGen's settings: decided, shown and recorded before the start."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from edge_runner.config import MLPERF_MIN_DURATION_S, RunConfig
from edge_runner.errors import ConfigError

# Least queries for LoadGen's early-stopping estimate at 99 % confidence (MLPerf's rule).
LEAST_QUERIES = {0.9: 64, 0.99: 662}

# LoadGen generates its queries before the start; 600 s at 1 ms each would take 560 MB.
LEAST_EXPECTED_LATENCY_NS = 1_000_000

# Passes are chosen from a warm-up's speed; this much more covers an estimate that was too slow.
PASS_MARGIN = 1.25


@dataclass(frozen=True, slots=True)
class LoadGenSettings:
    """What LoadGen is told. `samples`: distinct units (turns or sessions); `queries`: how many it
    issues in all."""

    unit: Literal["turn", "session"]
    scenario: Literal["SingleStream"]
    mode: Literal["PerformanceOnly", "AccuracyOnly"]
    samples: int
    passes: int
    min_duration_ms: int
    expected_latency_ns: int

    @property
    def queries(self) -> int:
        return self.samples * self.passes

    def user_conf(self) -> str:
        """The same as LoadGen's user.conf (durations and latencies in ms)."""
        key = f"*.{self.scenario}"
        return (
            f"{key}.min_duration = {self.min_duration_ms}\n"
            f"{key}.min_query_count = {self.queries}\n"
            f"{key}.max_query_count = {self.queries}\n"
            f"{key}.target_latency = {self.expected_latency_ns / 1e6:.6f}\n"
        )

    def outlook(self) -> str | None:
        """Why LoadGen cannot call this run VALID, known before it starts; None if it can."""
        least = LEAST_QUERIES[0.9]
        if self.mode == "PerformanceOnly" and self.queries < least:
            return (
                f"{self.queries} queries are too few for LoadGen's p90 estimate "
                f"(needs {least}): its verdict will be INVALID"
            )
        return None

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "queries": self.queries}


def decide(config: RunConfig, samples: int, estimated_pass_ns: int) -> LoadGenSettings:
    """Settings for `samples` distinct turns or sessions. `estimated_pass_ns`, from the warm-up's
    speed, is at least what one pass over them takes; it decides how many passes fill the minimum
    duration.

    min = max query count = samples x passes, so that every one is issued equally often and the run
    ends at a session's end.
    """
    if samples < 1:
        raise ConfigError("workload: no turn to run")
    full = config.scenario.preset == "mlperf" and config.mode == "performance"
    min_duration_ms = MLPERF_MIN_DURATION_S * 1000 if full else 0
    wanted = min_duration_ms * 1_000_000 * PASS_MARGIN
    passes = max(1, math.ceil(wanted / max(estimated_pass_ns, 1))) if full else 1
    # An expected latency above min_duration / queries makes LoadGen prepare no more than these.
    fair_share = 2 * min_duration_ms * 1_000_000 // (samples * passes)
    return LoadGenSettings(
        unit=config.scenario.unit,
        scenario="SingleStream",
        mode="PerformanceOnly" if config.mode == "performance" else "AccuracyOnly",
        samples=samples,
        passes=passes,
        min_duration_ms=min_duration_ms,
        expected_latency_ns=max(fair_share, LEAST_EXPECTED_LATENCY_NS),
    )
