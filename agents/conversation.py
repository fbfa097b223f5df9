"""A recorded conversation, as plain data: what a replay session carries out turn by turn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from edge_runner.engines import RecordedReply
from edge_runner.messages import Message, ToolSpec


@dataclass(frozen=True, slots=True)
class ClientTurn:
    """One turn of the client: what it adds to the conversation, and what was recorded in answer.

    `messages` is one user message, or one tool message per result. `delay_ns` is what the real
    tool took before this turn could be issued; 0 for a user's turn. `recorded` is None where the
    recording has no reply to this turn.
    """

    messages: tuple[Message, ...]
    delay_ns: int = 0
    recorded: RecordedReply | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """A whole recorded conversation. `system` is empty where there is no system prompt."""

    id: str
    system: str
    tools: tuple[ToolSpec, ...]
    turns: tuple[ClientTurn, ...]

    def first(self, turns: int | None) -> Self:
        """The same conversation, cut after its first `turns` client turns; None keeps all."""
        return replace(self, turns=self.turns[:turns])

    @property
    def characters(self) -> int:
        """The length of all its text, which its last prompt holds: for estimates."""
        count = len(self.system)
        for turn in self.turns:
            count += sum(len(message.content) for message in turn.messages)
            if (reply := turn.recorded) is not None:
                count += len(reply.text) + len(reply.reasoning)
                count += sum(len(call.arguments) for call in reply.tool_calls)
        return count
