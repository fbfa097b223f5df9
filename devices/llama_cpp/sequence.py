"""One conversation in the engine: from a request to a generation."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic_ns
from typing import Any, Protocol

from edge_runner.devices.chat_template import ChatTemplate
from edge_runner.devices.llama_cpp.job import Job, Laps, Slot
from edge_runner.devices.llama_cpp.prefix import Held
from edge_runner.devices.llama_cpp.sampler import Greedy, Random, Sampler
from edge_runner.devices.llama_cpp.tokens import PromptTokenizer, Vocabulary
from edge_runner.devices.reply import THINK, ReplyParser
from edge_runner.engines import (
    Generation,
    GenerationRequest,
    GeneratorCapabilities,
    OnToken,
    RecordedReply,
)
from edge_runner.errors import (
    CancelledError,
    ContextOverflowError,
    EdgeRunnerError,
    EngineClosedError,
    EngineError,
    EngineUnresponsiveError,
    TurnTimeoutError,
)
from edge_runner.messages import Message


class Host(Protocol):
    """What a sequence needs of its engine."""

    @property
    def capabilities(self) -> GeneratorCapabilities: ...

    def check_usable(self) -> None:
        """Raises EngineClosedError or EngineUnresponsiveError."""
        ...

    def submit(self, job: Job) -> None: ...

    def grace_s(self) -> float:
        """How long a stopped job may take to come back."""
        ...

    def give_up(self) -> EngineUnresponsiveError:
        """The engine did not come back: mark it, and say so."""
        ...


@dataclass(frozen=True, slots=True)
class Model:
    """What sequences share of one engine's model."""

    native: Any
    template: ChatTemplate
    vocabulary: Vocabulary
    anchors: tuple[str, ...]


class LlamaCppSequence:
    """A place in the KV cache that belongs to one conversation until `close`.

    `usage.output` counts generated tokens without the end-of-text token. With output length
    `recorded` the count is that of the recorded reply as the model's template writes it behind this
    prompt, up to its end token; end tokens are then never chosen, and stop strings cut the text but
    do not end the work. `on_token` is called on the engine's thread: it must not call the engine.
    """

    def __init__(
        self, host: Host, model: Model, slot: Slot, give_back: Callable[[Slot], None]
    ) -> None:
        self._host = host
        self._model = model
        self._slot = slot
        self._give_back = give_back
        self._tokenizer = PromptTokenizer(model.vocabulary, model.anchors)
        self._busy = threading.Lock()
        self._state = threading.Lock()
        self._job: Job | None = None
        self._stop: EdgeRunnerError | None = None
        self._closed = False

    def generate(self, request: GenerationRequest, on_token: OnToken | None = None) -> Generation:
        laps = Laps()
        with self._state:
            self._check_usable()
            if not self._busy.acquire(blocking=False):
                raise EngineError("the sequence has a request in flight; open another sequence")
            self._stop = None
        try:
            job = self._prepare(request, on_token, laps)
            with self._state:
                self._check_usable()
                if self._stop is not None:
                    job.stop(self._stop)
                self._job = job
            return self._await(job, request.deadline_ns)
        finally:
            with self._state:
                self._job = None
                self._busy.release()
                if self._closed:
                    self._give_back(self._slot)

    def cancel(self) -> None:
        self._end(CancelledError("the request was cancelled"))

    def reset(self) -> None:
        if self._closed:
            return
        if not self._busy.acquire(blocking=False):
            raise EngineError("the sequence has a request in flight: cancel it before reset")
        try:
            self._slot.held = Held()
            self._tokenizer.reset()
        finally:
            self._busy.release()

    def close(self) -> None:
        with self._state:
            if self._closed:
                return
            self._closed = True
            idle = self._busy.acquire(blocking=False)
        if idle:
            self._give_back(self._slot)
        else:  # whoever carries the request out gives the slot back
            self._end(EngineClosedError("the sequence was closed during the request"))

    def _end(self, error: EdgeRunnerError) -> None:
        with self._state:
            self._stop = error
            if self._job is not None:
                self._job.stop(error)

    def _check_usable(self) -> None:
        self._host.check_usable()
        if self._closed:
            raise EngineClosedError("the sequence was closed")

    def _prepare(self, request: GenerationRequest, on_token: OnToken | None, laps: Laps) -> Job:
        """Render, tokenize, check the budget."""
        if request.max_tokens < 1:
            raise EngineError(f"max_tokens must be at least 1, not {request.max_tokens}")
        if request.deadline_ns is not None and monotonic_ns() >= request.deadline_ns:
            raise TurnTimeoutError("the turn's deadline passed before it began")
        capabilities = self._host.capabilities
        tools = request.tools if capabilities.tools else ()
        laps.lap("overhead")
        text = self._model.template.render(request.messages, tools)
        laps.span("render")
        tokens = self._tokenizer.tokenize(text)
        laps.span("tokenize")
        exact_length = request.output_length == "recorded" and request.recorded is not None
        limit = request.max_tokens
        if exact_length and request.recorded is not None:
            limit = min(max(self._recorded_tokens(request, request.recorded, laps), 1), limit)
        if not tokens:
            raise EngineError("the prompt is empty")
        if len(tokens) + limit > capabilities.context_tokens:
            raise ContextOverflowError(
                f"prompt of {len(tokens)} tokens + {limit} to generate = {len(tokens) + limit}, "
                f"more than the context of {capabilities.context_tokens}; raise "
                "device.context_tokens or lower generation.max_tokens"
            )
        return Job(
            self._slot,
            Held(tokens, request.messages, tools),
            limit=limit,
            exact_length=exact_length,
            sampler=self._sampler(request, exact_length),
            parser=ReplyParser(
                capabilities.tool_format,
                tools,
                request.stop,
                reasoning_open=text.rstrip().endswith(THINK),
            ),
            laps=laps,
            on_token=on_token,
        )

    def _sampler(self, request: GenerationRequest, exact_length: bool) -> Sampler:
        banned = self._model.vocabulary.end_tokens if exact_length else frozenset[int]()
        if request.temperature <= 0:
            return Greedy(banned)
        return Random(self._model.native, request.temperature, request.seed, banned)

    def _recorded_tokens(
        self, request: GenerationRequest, recorded: RecordedReply, laps: Laps
    ) -> int:
        reply = Message("assistant", recorded.text, recorded.reasoning, recorded.tool_calls)
        tools = request.tools if self._host.capabilities.tools else ()
        try:
            whole = self._model.template.render(
                (*request.messages, reply), tools, add_generation_prompt=False
            )
        except EngineError:  # a template may refuse what another model said
            whole = ""
        laps.lap("render")
        tokens = self._tokenizer.tokens_beyond(whole)
        if tokens is None:
            calls = (f"{call.name}{call.arguments}" for call in recorded.tool_calls)
            tokens = self._model.vocabulary.tokenize(
                "".join((recorded.reasoning, recorded.text, *calls))
            )
        ends = [at for at, t in enumerate(tokens) if t in self._model.vocabulary.end_tokens]
        laps.lap("tokenize")
        return ends[-1] if ends else len(tokens)

    def _await(self, job: Job, deadline_ns: int | None) -> Generation:
        try:
            if not job.done:
                self._host.submit(job)
            left_s = None if deadline_ns is None else max(0, deadline_ns - monotonic_ns()) / 1e9
            if not job.wait(left_s):
                job.stop(TurnTimeoutError("the turn's deadline passed"))
            if not job.wait_done(self._host.grace_s()):
                raise self._host.give_up()
        finally:  # an interrupt of the waiting thread must not leave the job running
            job.stop(CancelledError("the request was interrupted"))
        if job.error is not None:
            raise job.error
        reply = job.reply
        assert reply is not None  # noqa: S101 - a job without error has a reply
        job.laps.lap("overhead")
        return Generation(
            text=reply.text,
            reasoning=reply.reasoning,
            tool_calls=reply.tool_calls,
            finish_reason=job.finish_reason,
            usage=job.usage,
            first_token_ns=job.first_token_ns,
            first_delta_ns=job.first_delta_ns,
            last_token_ns=job.last_token_ns,
            ledger_ns=job.laps.ledger_ns,
            spans=tuple(job.laps.spans),
            divergence=job.divergence,
        )
