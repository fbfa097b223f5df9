"""Made-up runs: a record, turns with whole ledgers, folders of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from edge_runner.engines import Usage
from edge_runner.results.events import EventWriter
from edge_runner.results.run_folder import RunFolder
from edge_runner.results.schema import RunRecord
from edge_runner.sessions import TurnOutcome
from edge_runner.trace import PARTS

MS = 1_000_000


@pytest.fixture
def make_record() -> Callable[..., RunRecord]:
    def make(**changes: Any) -> RunRecord:
        fields: dict[str, Any] = {
            "name": "quickstart",
            "kind": "agentic-replay",
            "mode": "performance",
            "scenario": "single-stream",
            "unit": "turn",
            "preset": "quick",
            "started": "2025-01-31T12:00:00.000Z",
            "config": {"name": "quickstart"},
            "fingerprint": "0" * 64,
            "edge_runner": "0.1.0",
        }
        return RunRecord(**fields | changes)

    return make


@pytest.fixture
def make_outcome() -> Callable[..., TurnOutcome]:
    """A turn that starts at `turn` seconds: prefill 100 ms, decode 50 ms (6 tokens, the first at
    its start), 1 ms of overhead, 2 ms unattributed. Keyword arguments replace fields."""

    def make(session: str = "s1", turn: int = 1, **changes: Any) -> TurnOutcome:
        issued_ns = turn * 1000 * MS
        parts = {"prefill": 100, "decode": 50, "overhead": 1, "unattributed": 2}
        fields: dict[str, Any] = {
            "session": session,
            "turn": turn,
            "status": "completed",
            "issued_ns": issued_ns,
            "completed_ns": issued_ns + 153 * MS,
            "ledger_ns": {part: parts.get(part, 0) * MS for part in PARTS},
            "first_token_ns": issued_ns + 101 * MS,
            "first_delta_ns": issued_ns + 111 * MS,
            "last_token_ns": issued_ns + 151 * MS,
            "usage": Usage(prompt=1000, cached=900, evaluated=100, new=100, output=6),
            "text": "done",
            "finish_reason": "stop",
            "scores": {"command_iou": 0.5},
        }
        return TurnOutcome(**fields | changes)

    return make


@pytest.fixture
def make_run(
    tmp_path: Path, make_record: Callable[..., RunRecord]
) -> Callable[..., tuple[RunFolder, RunRecord]]:
    """A completed run of `outcomes` (each one, or with the writer's keywords); keyword arguments
    change its record."""

    def make(
        outcomes: Iterable[TurnOutcome | tuple[TurnOutcome, dict[str, Any]]], **changes: Any
    ) -> tuple[RunFolder, RunRecord]:
        outcomes = list(outcomes)
        record = make_record(**{"status": "completed", "expected_turns": len(outcomes)} | changes)
        folder = RunFolder.create(None, record, tmp_path / "runs")
        with EventWriter(folder.path) as events:
            events.run("start")
            for item in outcomes:
                outcome, keywords = item if isinstance(item, tuple) else (item, {})
                events.turn(outcome, **{"query_ns": outcome.latency_ns} | keywords)
        return folder, record

    return make
