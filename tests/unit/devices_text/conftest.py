"""The official replay set as messages, where a checkout has it beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edge_runner.messages import Message, ToolCall, ToolSpec

REPLAY = Path(__file__).parents[4] / "shared/data/agentic/mlperf-edge-agentic.jsonl"

Conversation = tuple[tuple[Message, ...], tuple[ToolSpec, ...]]


@pytest.fixture(scope="session")
def replay() -> list[Conversation]:
    """Every conversation of the set, whole."""
    if not REPLAY.exists():
        pytest.skip(f"the replay set is not at {REPLAY}")
    rows: dict[str, list[dict[str, Any]]] = {}
    with REPLAY.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            rows.setdefault(row["conversation_id"], []).append(row)
    return [conversation(of_one) for of_one in rows.values()]


def conversation(rows: list[dict[str, Any]]) -> Conversation:
    messages = [Message("system", rows[0]["system"])]
    for row in rows:
        if row["role"] == "user":
            messages.append(Message("user", row["content"]))
        elif row["role"] == "assistant":
            calls = tuple(
                ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
                for call in row.get("tool_calls") or ()
            )
            content = row.get("content") or ""
            reasoning = row.get("reasoning_content") or ""
            messages.append(Message("assistant", content, reasoning, calls))
        else:
            messages += [
                Message("tool", result["content"], tool_call_id=result["tool_call_id"])
                for result in row["tool_results"]
            ]
    functions = [tool["function"] for tool in rows[0]["tools"]]
    return tuple(messages), tuple(ToolSpec(**function) for function in functions)
