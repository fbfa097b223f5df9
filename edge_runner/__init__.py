"""edge-runner: agentic and RAG workloads on on-device models, measured the way MLPerf does.

    import edge_runner

    result = edge_runner.run("agentic-quickstart")
    print(result.summary.latency_ns.median)

Importing this package imports no model runtime; each name below is loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edge_runner.bench.run import Run, RunResult, run
    from edge_runner.config import RunConfig, load_config
    from edge_runner.errors import EdgeRunnerError

__all__ = ["EdgeRunnerError", "Run", "RunConfig", "RunResult", "load_config", "run"]

_HOMES = {
    "EdgeRunnerError": "edge_runner.errors",
    "Run": "edge_runner.bench.run",
    "RunConfig": "edge_runner.config",
    "RunResult": "edge_runner.bench.run",
    "load_config": "edge_runner.config",
    "run": "edge_runner.bench.run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'edge_runner' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
