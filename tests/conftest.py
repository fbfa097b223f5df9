"""Fixtures every test may use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support import replay_rows


@pytest.fixture
def write_replay(tmp_path: Path) -> Any:
    """Write a replay file of sessions `{id: turns}`; returns its path."""

    def write(sessions: dict[str, int], name: str = "replay.jsonl", delay_s: float = 0.0) -> Path:
        path = tmp_path / name
        rows = [row for key, turns in sessions.items() for row in replay_rows(key, turns, delay_s)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return write


@pytest.fixture
def scripted_config(write_replay: Any) -> Any:
    """A configuration that replays `sessions` on the scripted engine with `script`."""

    def make(
        sessions: dict[str, int], script: Sequence[dict[str, Any]] = (), **changes: Any
    ) -> dict[str, Any]:
        config: dict[str, Any] = {
            "name": "scripted",
            "kind": "agentic-replay",
            "workload": {"data": str(write_replay(sessions))},
            "device": {"kind": "scripted", "script": list(script)},
            "generation": {"max_tokens": 64},
        }
        for key, value in changes.items():
            if isinstance(value, dict):
                config[key] = {**config.get(key, {}), **value}
            else:
                config[key] = value
        return config

    return make
