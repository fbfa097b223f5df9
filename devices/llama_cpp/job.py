"""One request on its way through the engine: a state machine that the worker steps.

A step is one prefill step (at most one batch) or one decoded token, so that whoever steps it can
stop it, or turn to another job, in between.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Literal

from edge_runner.devices.llama_cpp.context import NativeContext
from edge_runner.devices.llama_cpp.prefix import (
    CANNOT_BE_TRIMMED,
    Held,
    Steps,
    divergence_of,
    shared_length,
)
from edge_runner.devices.llama_cpp.sampler import Sampler
from edge_runner.devices.llama_cpp.tokens import Vocabulary
from edge_runner.devices.reply import Delta, ParsedReply, ReplyParser
from edge_runner.devices.text import Utf8Decoder
from edge_runner.engines import Divergence, FinishReason, OnToken, TokenEvent, Usage
from edge_runner.trace import Span


@dataclass(slots=True)
class Laps:
    """A clock without gaps: each lap charges the time since the last one to a part of the ledger.
    Used by one thread at a time: the caller's, then the worker's, then the caller's again."""

    last_ns: int = field(default_factory=monotonic_ns)
    ledger_ns: dict[str, int] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)

    def lap(self, part: str) -> int:
        now = monotonic_ns()
        self.ledger_ns[part] = self.ledger_ns.get(part, 0) + now - self.last_ns
        self.last_ns = now
        return now

    def span(self, part: str) -> int:
        """A lap that also stands on the timeline."""
        start = self.last_ns
        now = self.lap(part)
        self.spans.append(Span(part, part, start, now))
        return now


@dataclass(slots=True)
class Slot:
    """A sequence's place in the context and what it holds there. Changed by the worker alone."""

    index: int
    held: Held = field(default_factory=Held)


class JobStoppedError(Exception):
    """The job ends with `error` though nothing is wrong with the engine: somebody stopped it, or
    `on_token` raised."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class Job:
    """`prompt`: its tokens and what they were rendered from. `limit`: tokens to generate at most;
    `exact_length`: exactly that many, whatever they say."""

    def __init__(
        self,
        slot: Slot,
        prompt: Held,
        *,
        limit: int,
        exact_length: bool,
        sampler: Sampler,
        parser: ReplyParser,
        laps: Laps,
        on_token: OnToken | None = None,
    ) -> None:
        self.slot = slot
        self.laps = laps
        self.divergence: Divergence | None = None
        self.reply: ParsedReply | None = None
        self.error: BaseException | None = None
        self.first_token_ns: int | None = None
        self.first_delta_ns: int | None = None
        self.last_token_ns: int | None = None
        self._prompt = prompt
        self._limit = limit
        self._exact_length = exact_length
        self._sampler = sampler
        self._parser = parser
        self._on_token = on_token
        self._utf8 = Utf8Decoder()
        self._output = 0
        self._cut = 0
        self._shared = 0
        self._position = 0
        self._prefilled_ns = 0
        self._pending: int | None = None
        self._ended = False
        self._state: Literal["queued", "running", "done"] = "queued"
        self._lock = threading.Lock()
        self._stop: BaseException | None = None
        self._done = threading.Event()
        self._attention = threading.Event()

    # For the caller and anybody who wants to stop the job.

    def stop(self, error: BaseException) -> None:
        """End with `error`: at once if the job still waits, else before its next step."""
        with self._lock:
            if self._state == "queued":
                self._finish(error)
            elif self._state == "running":
                self._stop = self._stop or error
        self._attention.set()

    def wait(self, timeout_s: float | None) -> bool:
        """Until the job is done or was told to stop. False: neither, by then."""
        return self._attention.wait(timeout_s)

    def wait_done(self, timeout_s: float) -> bool:
        return self._done.wait(timeout_s)

    @property
    def done(self) -> bool:
        return self._done.is_set()

    @property
    def usage(self) -> Usage:
        prompt = len(self._prompt.tokens)
        return Usage(
            prompt=prompt,
            cached=self._cut,
            evaluated=prompt - self._cut,
            new=prompt - self._shared,
            output=self._output,
        )

    @property
    def finish_reason(self) -> FinishReason:
        if self.reply is not None and self.reply.tool_calls:
            return "tool_calls"
        return "stop" if self._ended else "length"

    # For the worker.

    def begin(self) -> bool:
        """Take the job up. False if it was stopped while it waited."""
        with self._lock:
            if self._state != "queued":
                return False
            self._state = "running"
        self.laps.span("queue")
        return True

    def place(self, context: NativeContext, steps: Steps) -> None:
        """Decide how much of the cache the prompt can keep, and drop the rest."""
        held, tokens = self.slot.held, self._prompt.tokens
        # Until the prompt is in, an error leaves the sequence cold.
        self.slot.held = Held()
        self._shared = shared_length(held.tokens, tokens)
        self.divergence = divergence_of(held, self._prompt, self._shared)
        cut = steps.cut(min(self._shared, steps.exact(len(held.tokens))), len(tokens))
        self.laps.lap("overhead")
        if cut and not context.trim(self.slot.index, cut):
            self.divergence = Divergence(self._shared, CANNOT_BE_TRIMMED)
            cut = 0
        if cut == 0:
            context.clear(self.slot.index)
        self._cut = self._position = cut

    def step(self, context: NativeContext, steps: Steps, vocabulary: Vocabulary) -> bool:
        """One prefill step or one token. False when the job is complete."""
        if self._stop is not None:
            raise JobStoppedError(self._stop)
        if self._position < len(self._prompt.tokens):
            self._prefill(context, steps)
            return True
        return self._decode(context, vocabulary)

    def keep(self) -> None:
        """Let the sequence remember what was evaluated of the prompt: after a stop, not after an
        error of the engine."""
        tokens = self._prompt.tokens
        if self._position < len(tokens):
            tokens = tokens[: self._position]
        self.slot.held = Held(tokens, self._prompt.messages, self._prompt.tools)

    def finish(self, error: BaseException | None = None) -> None:
        self.laps.lap("overhead")
        with self._lock:
            self._finish(error)
        self._attention.set()

    def _finish(self, error: BaseException | None) -> None:
        self._sampler.close()
        self._state = "done"
        self.error = error
        self._done.set()

    def _prefill(self, context: NativeContext, steps: Steps) -> None:
        tokens = self._prompt.tokens
        end = steps.end(self._position, len(tokens))
        last = end == len(tokens)
        context.evaluate(self.slot.index, tokens[self._position : end], self._position, logits=last)
        # Otherwise a backend that works ahead would be charged to the next part, and a cancelled
        # prompt would go on for all its steps.
        context.synchronize()
        self._position = end
        if last:
            self._prefilled_ns = self.laps.span("prefill")

    def _decode(self, context: NativeContext, vocabulary: Vocabulary) -> bool:
        if self._pending is not None:
            context.evaluate(self.slot.index, [self._pending], self._position, logits=True)
            self._position += 1
        token = self._sampler.sample(context)
        now = self.laps.lap("decode")
        if token in vocabulary.end_tokens and not self._exact_length:
            self._ended = True
        else:
            self._pending = token
            self._output += 1
            self.first_token_ns = self.first_token_ns or now
            self.last_token_ns = now
            text = self._utf8.feed(vocabulary.piece(token))
            deltas = self._parser.feed(text) if text else []
            self.laps.lap("parse")
            if deltas:
                self._show(deltas)
            if self._parser.stopped and not self._exact_length:
                self._ended = True
            elif self._output < self._limit:
                return True
        self._complete()
        return False

    def _complete(self) -> None:
        tail = self._parser.feed(self._utf8.finish())
        self.reply = self._parser.finish()
        now = self.laps.lap("parse")
        self.laps.spans.append(Span("decode", "decode", self._prefilled_ns, now))
        self._show(tail + self.reply.deltas)

    def _show(self, deltas: Sequence[Delta]) -> None:
        for channel, text in deltas:
            now = monotonic_ns()
            self.first_delta_ns = self.first_delta_ns or now
            if self._on_token is not None:
                try:
                    self._on_token(TokenEvent(now, channel, text, self._output))
                except BaseException as error:  # it belongs to the caller, whatever it is
                    raise JobStoppedError(error) from error
        self.laps.lap("overhead")
