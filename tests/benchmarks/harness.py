"""What the harness costs a turn: overhead + unattributed + the gap's harness part.

`make bench-harness` replays the quickstart set through LoadGen on the scripted engine, where
nothing else takes time, and on llama.cpp with a small model. Exits with 6 above a limit.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import edge_runner
from edge_runner.errors import GateError

RUNS: list[tuple[str, float, dict[str, Any]]] = [
    ("scripted", 0.3, {"device": {"kind": "scripted"}}),
    (
        "llama-cpp",
        1.0,
        {
            "device": {"kind": "llama-cpp"},
            "generator": {"model": "smollm2-135m-instruct-q4_1"},
            "generation": {"max_tokens": 16},
        },
    ),
]
"""Engine, limit of the median in ms (the design's numbers), and what the configuration adds."""


def main() -> int:
    missed = 0
    print(f"{'engine':<10} {'turns':>6} {'p50 ms':>8} {'p90 ms':>8} {'limit':>6} {'share':>7}")
    for engine, limit_ms, more in RUNS:
        config = {"name": "harness", "kind": "agentic-replay", "workload": {"data": "quickstart"}}
        with tempfile.TemporaryDirectory() as folder:
            result = edge_runner.run({**config, **more}, out=Path(folder) / "run")
        if result.exit_code:
            print(f"{engine}: {result.error}")
            return result.exit_code
        cost = result.summary.harness
        median, p90 = cost.per_turn_ns.median, cost.per_turn_ns.p90
        assert median is not None
        missed += median / 1e6 > limit_ms
        print(
            f"{engine:<10} {cost.per_turn_ns.n:>6} {median / 1e6:>8.3f} "
            f"{'-' if p90 is None else f'{p90 / 1e6:.3f}':>8} {limit_ms:>6} {cost.share or 0:>7.1%}"
        )
    return GateError.exit_code if missed else 0


if __name__ == "__main__":
    sys.exit(main())
