"""Sessions: what LoadGen, the TUI and apps advance turn by turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from edge_runner.engines import Divergence, Generation, Generator, OnToken, Usage
from edge_runner.messages import ToolCall
from edge_runner.trace import Span

TurnStatus = Literal["completed", "empty", "failed", "aborted"]


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """One turn, carried out.

    `completed`: an answer. `empty`: the model said nothing (no content and no call). `failed`:
    `error` says why. `aborted`: somebody stopped it. Times are monotonic nanoseconds; ledger parts
    sum to `completed_ns - issued_ns`. `scores` holds this turn's score per metric, None where the
    turn cannot be scored.
    """

    session: str
    turn: int
    status: TurnStatus
    issued_ns: int
    completed_ns: int
    ledger_ns: Mapping[str, int]
    spans: tuple[Span, ...] = ()
    first_token_ns: int | None = None
    first_delta_ns: int | None = None
    last_token_ns: int | None = None
    usage: Usage = field(default_factory=Usage)
    divergence: Divergence | None = None
    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    error: str | None = None
    scores: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def latency_ns(self) -> int:
        return self.completed_ns - self.issued_ns


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """What is known of a session before it starts: the client turns it will take, and how many
    characters of text its longest prompt holds (0 if unknown), for estimates only."""

    id: str
    turns: int
    characters: int = 0


class Session(Protocol):
    """A conversation in progress."""

    @property
    def id(self) -> str: ...

    @property
    def done(self) -> bool:
        """No turn is left: all were carried out, or one failed and the rest is not issued."""
        ...

    @property
    def next_delay_ns(self) -> int:
        """How long to wait before the next turn (the recorded tool's time), 0 if not asked for."""
        ...

    def advance(self, issued_ns: int | None = None, on_token: OnToken | None = None) -> TurnOutcome:
        """Carry out the next turn; `issued_ns` is when it was asked for (default: now).

        Never raises for what happens inside the turn: that is the outcome's status. Raises
        EngineUnresponsiveError when no further turn can be carried out at all.
        """
        ...

    def cancel(self) -> None:
        """Stop the turn in flight; it comes back as `aborted`. From any thread."""
        ...

    def close(self) -> None:
        """Give the engine's sequence back. Safe to call twice."""
        ...


class SessionSource(Protocol):
    """A workload: sessions that can be opened any number of times, each time cold."""

    @property
    def plans(self) -> tuple[SessionPlan, ...]: ...

    @property
    def data_name(self) -> str: ...

    @property
    def data_sha256(self) -> str: ...

    def open(self, session_id: str, generator: Generator) -> Session: ...

    def warm_up(self, generator: Generator) -> Generation:
        """Untimed work that brings engine and machine to their working state; leaves no trace in
        any sequence that a session will use. What it returns serves to estimate speeds."""
        ...
