"""The contract between pipelines and devices. Pipelines use it; device adapters fulfil it.

A `Generator` hands out sequences. A `Sequence` is one conversation's place in the engine's KV
cache: it keeps what it evaluated, so the next turn costs only its new tokens. All times are
`time.monotonic_ns()`. Engines own their threads; every method may be called from any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from edge_runner.messages import Message, ToolCall, ToolSpec
from edge_runner.trace import Span

Channel = Literal["content", "reasoning", "tool_call"]
FinishReason = Literal["stop", "length", "tool_calls"]
ToolFormat = Literal["none", "hermes", "qwen3-coder", "llama3", "json"]
PrefixReuse = Literal["none", "exact", "checkpoint"]


@dataclass(frozen=True, slots=True)
class GeneratorCapabilities:
    """What a generator can do, as data: ask here, never by catching an exception.

    `context_tokens` is the effective context of one sequence, `static_prompt_tokens` a hard limit
    on the prompt alone (NPUs), `tool_format` how the model writes its calls, `placement` where its
    parts live (for example {"layers": "cpu", "kv": "cpu"}).
    """

    context_tokens: int
    tools: bool = False
    tool_format: ToolFormat = "none"
    grammar: bool = False
    prefix_reuse: PrefixReuse = "none"
    parallel_sequences: int = 1
    static_prompt_tokens: int | None = None
    placement: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """The stack behind an engine, for the run's record. `details` is free, JSON-able."""

    engine: str
    runtime: str
    runtime_version: str
    device: str
    model: str
    model_path: str | None = None
    model_sha256: str | None = None
    architecture: str | None = None
    weights_precision: str | None = None
    kv_precision: str | None = None
    threads: int | None = None
    load_ns: int = 0
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """The reply a data set recorded for this turn. Engines of real models must not look at it,
    except to count its tokens (`GenerationRequest.output_length == "recorded"`)."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One turn's request: the whole conversation so far, ending with a user or tool message.

    `output_length`: `natural` ends at end-of-text, a stop string or `max_tokens`; `recorded`
    decodes exactly as many tokens as `recorded` has under this model's tokenizer (at least 1, at
    most `max_tokens`), ignoring end of text, so that engines are compared over equal work.
    `deadline_ns` is absolute. `session` and `turn` (1-based) only label the request.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int = 1024
    temperature: float = 0.0
    seed: int = 42
    stop: tuple[str, ...] = ()
    output_length: Literal["natural", "recorded"] = "natural"
    recorded: RecordedReply | None = None
    deadline_ns: int | None = None
    session: str = ""
    turn: int = 0


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """Text became visible at `t_ns`. `tokens` is how many tokens were generated so far: text is
    held back while it could still be part of a stop string, a tag or a split character."""

    t_ns: int
    channel: Channel
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts, by the engine. prompt = cached + evaluated. `new` is the part of the prompt
    beyond what it shares with this sequence's previous prompt: the least any cache must evaluate.
    """

    prompt: int = 0
    cached: int = 0
    evaluated: int = 0
    new: int = 0
    output: int = 0
    drafted: int = 0
    accepted: int = 0


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where a prompt stopped matching what the sequence held: token index and the reason, such as
    "history replaced", "template changed", "evicted", "cannot be trimmed"."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class Generation:
    """A completed request.

    `first_token_ns`: the first generated token of any channel. `first_delta_ns`: the first text a
    client could see. Both are None when nothing was generated. `ledger_ns` holds the exclusive
    time of each part the engine spent (see `trace.PARTS`); `spans` the same on a timeline, coarse.
    """

    text: str
    reasoning: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: FinishReason
    usage: Usage
    first_token_ns: int | None
    first_delta_ns: int | None
    last_token_ns: int | None
    ledger_ns: Mapping[str, int]
    spans: tuple[Span, ...] = ()
    divergence: Divergence | None = None

    @property
    def empty(self) -> bool:
        """No content and no call: the model said nothing a user could act on."""
        return not self.text.strip() and not self.tool_calls


OnToken = Callable[[TokenEvent], None]


class Sequence(Protocol):
    """One conversation in an engine. Not reentrant: one request at a time."""

    def generate(self, request: GenerationRequest, on_token: OnToken | None = None) -> Generation:
        """Carry out one request and return when it is complete.

        Raises ContextOverflowError before any evaluation when prompt + output cannot fit,
        TurnTimeoutError at the deadline, CancelledError after cancel(), EngineClosedError after
        close, EngineUnresponsiveError when the engine no longer answers, EngineError otherwise.
        """
        ...

    def cancel(self) -> None:
        """Stop the request in flight within one token or one prefill chunk. From any thread."""
        ...

    def reset(self) -> None:
        """Forget everything: the next request starts cold."""
        ...

    def close(self) -> None:
        """Give the place in the KV cache back. Safe to call twice."""
        ...


class Generator(Protocol):
    """One loaded language model."""

    @property
    def info(self) -> EngineInfo: ...

    @property
    def capabilities(self) -> GeneratorCapabilities: ...

    def open_sequence(self) -> Sequence:
        """A fresh, cold sequence. Raises EngineError when all places are taken."""
        ...

    def close(self) -> None:
        """Stop the threads, free the model. Safe to call twice."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
