"""What models and pipelines say to each other: messages, tools, tool calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A function a model may call. `parameters` is a JSON Schema object (OpenAI's shape)."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call. `arguments` is JSON text as the model wrote it: it may be malformed, and whoever
    runs the tool must check it; it is never repaired or replaced by `{}` on the way."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a conversation. `tool_call_id` is set on role `tool` only."""

    role: Role
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
