"""How much work fits a time budget, from the speeds that a short calibration showed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edge_runner.adapters import load_workload
from edge_runner.catalog.resolve import resolve_data
from edge_runner.config import RunConfig
from edge_runner.results.schema import Summary
from edge_runner.sessions import SessionPlan

CHARACTERS_PER_TOKEN = 3.5

# Prefill and decode slow down with depth; measured 0.6 of the speed at 3k tokens on two cores.
DEPTH_FACTOR = 1.6

# Loading, warming up, summary and report, and the noise of a machine that does other things.
SHARE_OF_BUDGET = 0.75

CALIBRATION_SETS = (
    "workload.sessions=1",
    "workload.max_turns=2",
    "generation.max_tokens=16",
    "generation.output_length=recorded",
)


@dataclass(frozen=True, slots=True)
class Size:
    """How much of a replay to run; None: all of it."""

    sessions: int | None
    max_turns: int | None
    max_tokens: int

    def sets(self) -> list[str]:
        """The same as `--set` items; what is not limited stays out."""
        values: dict[str, int | None] = {
            "workload.sessions": self.sessions,
            "workload.max_turns": self.max_turns,
            "generation.max_tokens": self.max_tokens,
        }
        return [f"{key}={value}" for key, value in values.items() if value is not None]


SIZES = (
    Size(None, None, 256),
    Size(None, None, 128),
    Size(None, None, 64),
    Size(None, 8, 64),
    Size(2, 8, 48),
    Size(2, 5, 32),
    Size(1, 5, 24),
    Size(1, 3, 16),
)
"""From much to little: whole sessions matter more than long replies."""
SMALLEST = SIZES[-1]


@dataclass(frozen=True, slots=True)
class Speed:
    """Nanoseconds a token at little depth."""

    prefill_ns: float
    decode_ns: float

    @classmethod
    def of(cls, summary: Summary) -> Speed:
        """From a calibration's summary, whose output length is the recorded one, so that a model
        that has nothing to say shows its speed, too."""
        tokens, ledger_ns = summary.tokens, summary.ledger_ns
        prefill_ns = ledger_ns.get("prefill", 0) / max(tokens.evaluated, 1)
        return cls(prefill_ns, ledger_ns.get("decode", 0) / max(tokens.output, 1))


def choose(budget_s: float, speed: Speed, plans: Sequence[SessionPlan]) -> Size:
    """The largest of SIZES whose estimate fits the budget, else the smallest."""
    for size in SIZES:
        if estimate_s(size, speed, plans) <= budget_s * SHARE_OF_BUDGET:
            return size
    return SMALLEST


def estimate_s(size: Size, speed: Speed, plans: Sequence[SessionPlan]) -> float:
    """At most what the size takes, if every reply is as long as it may be."""
    total_ns = 0.0
    for plan in plans[: size.sessions]:
        taken = min(plan.turns, size.max_turns or plan.turns)
        prompt_tokens = plan.characters / CHARACTERS_PER_TOKEN * taken / plan.turns
        total_ns += prompt_tokens * speed.prefill_ns + taken * size.max_tokens * speed.decode_ns
    return total_ns * DEPTH_FACTOR / 1e9


def base_config(name: str, device: Mapping[str, Any], model: str | None) -> dict[str, Any]:
    """The quickstart replay on any device and model."""
    config: dict[str, Any] = {
        "name": name,
        "kind": "agentic-replay",
        "workload": {"data": "quickstart"},
        "device": dict(device),
    }
    if model is not None:
        config["generator"] = {"model": model}
    return config


def plans(config: RunConfig) -> Sequence[SessionPlan]:
    """The sessions a configuration would run, unlimited by any size."""
    data = resolve_data(config.workload.data)
    return load_workload(config.kind).load(config.workload, config.generation, data).plans
