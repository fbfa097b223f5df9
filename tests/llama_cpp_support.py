"""Conversations for the llama.cpp engine's tests, and the type of the fixture that opens one."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

from edge_runner.devices.llama_cpp.engine import LlamaCppGenerator
from edge_runner.engines import GenerationRequest, RecordedReply
from edge_runner.messages import Message, ToolCall, ToolSpec

OpenEngine = Callable[..., LlamaCppGenerator]

REPLAY = Path(__file__).parents[2] / "shared" / "data" / "agentic" / "mlperf-edge-agentic.jsonl"
WORDS = ("the", "a", "in", "and", "on", "cat", "reads", "every", "file", "then", "it", "found,")


def user(text: str) -> Message:
    return Message("user", text)


def assistant(text: str) -> Message:
    return Message("assistant", text)


def chatter(seed: int, words: int) -> str:
    """Text of `words` words, the same for the same seed."""
    generator = random.Random(seed)
    return " ".join(generator.choice(WORDS) for _ in range(words))


def growing(seed: int, turns: int, words: tuple[int, int] = (3, 60)) -> list[tuple[Message, ...]]:
    """The successive histories of a conversation that only ever grows."""
    generator = random.Random(seed)
    history: tuple[Message, ...] = (Message("system", chatter(seed, 30)),)
    histories = []
    for turn in range(turns):
        history = (*history, user(chatter(seed + turn + 1, generator.randrange(*words))))
        histories.append(history)
        history = (*history, assistant(chatter(seed + turn + 99, generator.randrange(1, 20))))
    return histories


def replay(conversation: int, turns: int) -> list[GenerationRequest]:
    """The first turns of one conversation of the official set, as the workload asks them."""
    rows = [json.loads(line) for line in REPLAY.read_text(encoding="utf-8").splitlines()]
    names = list(dict.fromkeys(row["conversation_id"] for row in rows))
    rows = [row for row in rows if row["conversation_id"] == names[conversation]]
    tools = tuple(
        ToolSpec(f["name"], f.get("description", ""), f.get("parameters", {}))
        for f in (tool["function"] for tool in rows[0]["tools"])
    )
    history: tuple[Message, ...] = (Message("system", rows[0]["system"]), user(rows[0]["content"]))
    requests = []
    for row in rows[1:]:
        if row["role"] == "tool":
            for result in row["tool_results"]:
                history = (
                    *history,
                    Message("tool", result["content"], tool_call_id=result["tool_call_id"]),
                )
            continue
        calls = tuple(
            ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in row.get("tool_calls") or ()
        )
        text, reasoning = row.get("content") or "", row.get("reasoning_content") or ""
        recorded = RecordedReply(text, reasoning, calls)
        requests.append(GenerationRequest(history, tools, recorded=recorded))
        history = (*history, Message("assistant", text, reasoning, calls))
    return requests[:turns]
