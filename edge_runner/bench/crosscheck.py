"""LoadGen's latencies against ours: two clocks, one truth."""

from __future__ import annotations

from dataclasses import dataclass

from edge_runner.results.schema import CrossCheck, LoadGenReport

TOLERANCE_NS = 1_000_000
# A clock that is slewed runs at most 0.05 % fast or slow; a step of the clock shows as more.
DRIFT_SHARE = 0.001
DRIFT_FLOOR_NS = 10_000_000


@dataclass(slots=True)
class Latencies:
    """Least, mean and largest latency over every query, as LoadGen's summary has them."""

    count: int = 0
    total_ns: int = 0
    min_ns: int = 0
    max_ns: int = 0

    def add(self, latency_ns: int) -> None:
        self.min_ns = min(self.min_ns, latency_ns) if self.count else latency_ns
        self.max_ns = max(self.max_ns, latency_ns)
        self.total_ns += latency_ns
        self.count += 1

    def against(self, loadgen: LoadGenReport, clock_drift_ns: int) -> CrossCheck | None:
        """Compare. None where LoadGen measured no latency (accuracy mode)."""
        if "mean_latency_ns" not in loadgen.metrics or not self.count:
            return None
        ours = {"min": self.min_ns, "mean": self.total_ns / self.count, "max": self.max_ns}
        difference_ns = max(
            round(abs(loadgen.metrics[f"{name}_latency_ns"] - value))
            for name, value in ours.items()
        )
        drift_limit_ns = max(DRIFT_FLOOR_NS, DRIFT_SHARE * self.total_ns)
        return CrossCheck(
            clock_mismatch=difference_ns > TOLERANCE_NS or abs(clock_drift_ns) > drift_limit_ns,
            detail=(
                f"LoadGen's and our min, mean and max latency differ by at most "
                f"{difference_ns / 1e6:.3f} ms; wall clock against monotonic clock "
                f"{clock_drift_ns / 1e6:+.3f} ms over the run"
            ),
            largest_difference_ns=difference_ns,
        )
