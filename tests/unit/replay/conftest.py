"""A minimal generator that does what each test tells it, and data rows to vary."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic_ns
from types import TracebackType
from typing import Any, Self

import pytest

from edge_runner.engines import (
    EngineInfo,
    Generation,
    GenerationRequest,
    GeneratorCapabilities,
    OnToken,
    TokenEvent,
    Usage,
)
from edge_runner.errors import EngineClosedError
from edge_runner.messages import ToolCall

OFFICIAL = Path(__file__).parents[4] / "shared/data/agentic/mlperf-edge-agentic.jsonl"

Behaviour = Callable[["FakeSequence", GenerationRequest], Generation]


def answer(text: str = "fine", calls: tuple[ToolCall, ...] = (), **parts: int) -> Generation:
    """A finished generation whose ledger is `parts`."""
    now_ns = monotonic_ns()
    return Generation(
        text=text,
        reasoning="",
        tool_calls=calls,
        finish_reason="stop",
        usage=Usage(prompt=10, evaluated=10, new=10, output=2),
        first_token_ns=now_ns,
        first_delta_ns=now_ns,
        last_token_ns=now_ns,
        ledger_ns=parts or {"prefill": 700, "decode": 300},
    )


@dataclass
class FakeSequence:
    owner: FakeGenerator
    requests: list[GenerationRequest] = field(default_factory=list)
    cancels: int = 0
    closed: bool = False

    def generate(self, request: GenerationRequest, on_token: OnToken | None = None) -> Generation:
        if self.closed:
            raise EngineClosedError("used after close")
        self.requests.append(request)
        made = self.owner.behave(self, request)
        if on_token is not None:
            on_token(TokenEvent(monotonic_ns(), "content", made.text, 1))
        return made

    def cancel(self) -> None:
        self.cancels += 1

    def reset(self) -> None:
        self.requests.clear()

    def close(self) -> None:
        self.closed = True


@dataclass
class FakeGenerator:
    behave: Behaviour = lambda sequence, request: answer()
    sequences: list[FakeSequence] = field(default_factory=list)
    info: EngineInfo = field(default_factory=lambda: EngineInfo("fake", "none", "0", "cpu", "fake"))
    capabilities: GeneratorCapabilities = field(
        default_factory=lambda: GeneratorCapabilities(context_tokens=4096)
    )

    def open_sequence(self) -> FakeSequence:
        self.sequences.append(FakeSequence(self))
        return self.sequences[-1]

    def close(self) -> None:
        for sequence in self.sequences:
            sequence.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Rows(list[dict[str, Any]]):
    """Rows of a data set, with the shortest way to make each kind."""

    def user(self, turn: int, conversation: str = "a", **extra: Any) -> Self:
        first = {"system": "Be brief.", "tools": [BASH]} if turn == 1 else {}
        self.append(
            {"conversation_id": conversation, "turn": turn, "role": "user", "content": "go"}
            | first
            | extra
        )
        return self

    def assistant(
        self, turn: int, conversation: str = "a", call: str | None = None, **extra: Any
    ) -> Self:
        row = {"conversation_id": conversation, "turn": turn, "role": "assistant"}
        if call is not None:
            row |= {"reasoning_content": "hm", "tool_calls": [bash_call(call)]}
        else:
            row |= {"content": "done"}
        self.append(row | extra)
        return self

    def tool(self, turn: int, call: str, conversation: str = "a", **extra: Any) -> Self:
        self.append(
            {
                "conversation_id": conversation,
                "turn": turn,
                "role": "tool",
                "tool_results": [{"tool_call_id": call, "content": f"result of {call}"}],
                "delay_seconds": 0.25,
            }
            | extra
        )
        return self

    def text(self) -> str:
        return "".join(json.dumps(row) + "\n" for row in self)


BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run it",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
    },
}


def bash_call(call_id: str, command: str = "ls | sort") -> dict[str, Any]:
    arguments = json.dumps({"command": command})
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": "bash", "arguments": arguments},
    }


def three_turns(conversation: str = "a") -> Rows:
    """user, call, result, call, result, closing answer: three client turns."""
    rows = Rows()
    rows.user(1, conversation).assistant(2, conversation, call="c1")
    rows.tool(3, "c1", conversation).assistant(4, conversation, call="c2")
    return rows.tool(5, "c2", conversation, delay_seconds=1.5).assistant(6, conversation)


@pytest.fixture
def rows() -> Callable[..., Rows]:
    return three_turns


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str | bytes], Path]:
    """Put text or bytes into a data file."""

    def put(body: str | bytes) -> Path:
        path = tmp_path / "data.jsonl"
        path.write_bytes(body.encode() if isinstance(body, str) else body)
        return path

    return put


@pytest.fixture
def made() -> Callable[..., Generation]:
    return answer


@pytest.fixture
def fake() -> Callable[..., FakeGenerator]:
    return FakeGenerator


@pytest.fixture
def official() -> Path:
    if not OFFICIAL.is_file():
        pytest.skip("the official replay set is not here")
    return OFFICIAL
