"""Plain helpers that tests import; fixtures are in conftest.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a command.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
    },
}


def replay_rows(session: str, turns: int, delay_s: float = 0.0) -> list[dict[str, Any]]:
    """The rows of one small recorded session with `turns` client turns."""
    rows: list[dict[str, Any]] = [
        {"role": "user", "content": "List the files.", "system": "You are terse.", "tools": [BASH]}
    ]
    for number in range(turns):
        if number:
            rows.append(
                {
                    "role": "tool",
                    "tool_results": [{"tool_call_id": f"c{number - 1}", "content": "a.py\n" * 20}],
                    "delay_seconds": delay_s,
                }
            )
        call = {"name": "bash", "arguments": json.dumps({"command": f"cat file{number}.py"})}
        rows.append(
            {
                "role": "assistant",
                "reasoning_content": "Look further.",
                "tool_calls": [{"id": f"c{number}", "type": "function", "function": call}],
            }
        )
    return [{"conversation_id": session, "turn": at, **row} for at, row in enumerate(rows, 1)]


def edge_runner(
    *arguments: str, cwd: Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The command, as typed."""
    return subprocess.run(
        command(*arguments),
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def command(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).parent / "edge-runner"), *arguments]
