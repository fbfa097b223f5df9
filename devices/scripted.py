"""The scripted engine: a generator that follows a script instead of a model.

Users try a configuration with it in seconds; tests run whole pipelines on it. A script is a YAML
list; every entry that matches a turn applies, later entries over earlier ones:

    - decode_tps: 200                  # no `session` or `turn`: matches every turn
      prefill_tps: 5000
    - session: fix-slug                # one session
      turn: 3                          # its third turn
      text: "done"
    - session: fix-slug
      turn: 4
      fail: raise                      # raise | hang | empty | exit
      at_token: 5

A turn says `text`, makes `tool_calls`, or repeats the `recorded` reply (the default where the data
has one). Without rates it answers at once. A token is four characters, or the rest of the text.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from time import monotonic_ns
from types import TracebackType
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, TypeAdapter, ValidationError

from edge_runner.adapters import DeviceSection, PathOrName, Section
from edge_runner.assets import ModelRef
from edge_runner.config import read_yaml
from edge_runner.engines import (
    Channel,
    Divergence,
    EngineInfo,
    Generation,
    GenerationRequest,
    GeneratorCapabilities,
    OnToken,
    TokenEvent,
    Usage,
)
from edge_runner.errors import (
    CancelledError,
    ConfigError,
    ContextOverflowError,
    EngineClosedError,
    EngineError,
    TurnTimeoutError,
)
from edge_runner.messages import Message, ToolCall

CHARACTERS_PER_TOKEN = 4
EXIT_CODE_OF_A_SCRIPTED_EXIT = 70


class ScriptedCall(Section):
    name: str
    arguments: dict[str, Any] | str


class ScriptEntry(Section):
    """One entry of a script; None in `session` or `turn` matches all."""

    session: str | None = None
    turn: int | None = Field(default=None, ge=1)
    text: str | None = None
    tool_calls: tuple[ScriptedCall, ...] | None = None
    recorded: bool | None = None
    prefill_tps: float | None = Field(default=None, gt=0)
    decode_tps: float | None = Field(default=None, gt=0)
    fail: Literal["raise", "hang", "empty", "exit"] | None = None
    at_token: int | None = Field(default=None, ge=0)


class ScriptedSection(DeviceSection):
    """Keys of `device` for kind `scripted`. `script`: a YAML file or the entries themselves."""

    kind: Literal["scripted"] = "scripted"
    script: Annotated[
        Annotated[PathOrName, Tag("file")] | Annotated[tuple[ScriptEntry, ...], Tag("entries")],
        Discriminator(lambda value: "file" if isinstance(value, str) else "entries"),
    ] = ()
    context_tokens: int = Field(default=32768, ge=1)


class ScriptedGenerator:
    """A generator whose replies, speed and faults are scripted."""

    def __init__(self, script: tuple[ScriptEntry, ...] = (), context_tokens: int = 32768) -> None:
        self._script = script
        self._closed = threading.Event()
        self.info = EngineInfo(
            engine="scripted",
            runtime="edge-runner",
            runtime_version="1",
            device="none",
            model="script",
            warnings=("no model runs here: replies and speeds are scripted",),
        )
        self.capabilities = GeneratorCapabilities(
            context_tokens=context_tokens,
            tools=True,
            tool_format="json",
            prefix_reuse="exact",
            parallel_sequences=1024,
        )

    def open_sequence(self) -> ScriptedSequence:
        self.check_open()
        return ScriptedSequence(self)

    def close(self) -> None:
        self._closed.set()

    def check_open(self) -> None:
        if self._closed.is_set():
            raise EngineClosedError("the scripted engine was closed")

    def entry(self, session: str, turn: int) -> ScriptEntry:
        """What the script says of one turn: all matching entries, later ones winning."""
        merged: dict[str, Any] = {}
        for entry in self._script:
            if entry.session in (None, session) and entry.turn in (None, turn):
                merged.update(entry.model_dump(exclude_none=True, exclude={"session", "turn"}))
        return ScriptEntry.model_validate(merged)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class ScriptedSequence:
    """One scripted conversation. Its cache holds whole messages."""

    def __init__(self, generator: ScriptedGenerator) -> None:
        self._generator = generator
        self._messages: tuple[Message, ...] = ()
        self._sizes: list[int] = []
        self._cancelled = threading.Event()
        self._closed = False

    def generate(self, request: GenerationRequest, on_token: OnToken | None = None) -> Generation:
        self._generator.check_open()
        if self._closed:
            raise EngineClosedError("the sequence was closed")
        self._cancelled.clear()
        entry = self._generator.entry(request.session, request.turn)
        text, calls = _reply(entry, request)
        pieces = _pieces(text, calls, request.max_tokens)

        started_ns = monotonic_ns()
        usage, divergence = self._account(request, len(pieces))
        limit = self._generator.capabilities.context_tokens
        if usage.prompt + request.max_tokens > limit:
            raise ContextOverflowError(
                f"prompt of {usage.prompt} tokens + max_tokens {request.max_tokens} "
                f"do not fit the context of {limit}"
            )
        tokenized_ns = monotonic_ns()
        self._work(usage.evaluated, entry.prefill_tps, request.deadline_ns)
        prefilled_ns = monotonic_ns()

        first_ns = last_ns = None
        callback_ns = 0
        for index, (channel, piece) in enumerate(pieces):
            self._fail(entry, index)
            self._work(1, entry.decode_tps, request.deadline_ns)
            last_ns = monotonic_ns()
            first_ns = first_ns or last_ns
            if on_token is not None:
                on_token(TokenEvent(last_ns, channel, piece, index + 1))
                callback_ns += monotonic_ns() - last_ns
        if entry.at_token is None or entry.at_token >= len(pieces):
            self._fail(entry, entry.at_token or 0)
        ended_ns = monotonic_ns()

        cut = len(pieces) == request.max_tokens and request.output_length == "natural"
        return Generation(
            text=text,
            reasoning="",
            tool_calls=calls,
            finish_reason="length" if cut else "tool_calls" if calls else "stop",
            usage=usage,
            first_token_ns=first_ns,
            first_delta_ns=first_ns,
            last_token_ns=last_ns,
            ledger_ns={
                "tokenize": tokenized_ns - started_ns,
                "prefill": prefilled_ns - tokenized_ns,
                "decode": ended_ns - prefilled_ns - callback_ns,
                "overhead": callback_ns,
            },
            divergence=divergence,
        )

    def cancel(self) -> None:
        self._cancelled.set()

    def reset(self) -> None:
        self._messages, self._sizes = (), []

    def close(self) -> None:
        self._closed = True
        self._cancelled.set()

    def _account(self, request: GenerationRequest, output: int) -> tuple[Usage, Divergence | None]:
        held, shared = self._messages, 0
        for before, now in zip(held, request.messages, strict=False):
            if before is not now and before != now:
                break
            shared += 1
        sizes = self._sizes[:shared] + [_tokens(message) for message in request.messages[shared:]]
        cached = sum(sizes[:shared]) if shared < len(sizes) else sum(sizes[:-1])
        divergence = Divergence(cached, "history replaced") if shared < len(held) else None
        prompt = sum(sizes)
        new = prompt - cached
        self._messages, self._sizes = request.messages, sizes
        return Usage(prompt, cached, new, new, output), divergence

    def _work(self, tokens: int, rate: float | None, deadline_ns: int | None) -> None:
        """Take the time `tokens` cost at `rate` tokens/s; cancel, close and deadline end it."""
        wait_s = tokens / rate if rate else 0.0
        left_s = wait_s if deadline_ns is None else (deadline_ns - monotonic_ns()) / 1e9
        if wait_s and self._cancelled.wait(max(0.0, min(wait_s, left_s))):
            self._generator.check_open()
        if self._cancelled.is_set():
            raise CancelledError("cancelled")
        if left_s < wait_s:
            raise TurnTimeoutError("the turn's deadline passed")

    def _fail(self, entry: ScriptEntry, token: int) -> None:
        if entry.fail is None or token != (entry.at_token or 0):
            return
        if entry.fail == "raise":
            raise EngineError(f"scripted failure at token {token}")
        if entry.fail == "exit":
            os._exit(EXIT_CODE_OF_A_SCRIPTED_EXIT)
        if entry.fail == "hang":
            threading.Event().wait()  # as a driver that never comes back: deaf to cancel and close


def _tokens(message: Message) -> int:
    characters = len(message.content) + len(message.reasoning)
    characters += sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
    return characters // CHARACTERS_PER_TOKEN + 1


def _reply(entry: ScriptEntry, request: GenerationRequest) -> tuple[str, tuple[ToolCall, ...]]:
    if entry.fail == "empty":
        return "", ()
    if entry.text is not None or entry.tool_calls is not None:
        calls = (
            ToolCall(f"call_{index}", call.name, _json(call.arguments))
            for index, call in enumerate(entry.tool_calls or ())
        )
        return entry.text or "", tuple(calls)
    if entry.recorded is not False and request.recorded is not None:
        return request.recorded.text, request.recorded.tool_calls
    return "scripted reply", ()


def _json(arguments: Mapping[str, Any] | str) -> str:
    import json

    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _pieces(text: str, calls: tuple[ToolCall, ...], limit: int) -> list[tuple[Channel, str]]:
    """The reply cut into tokens, at most `limit`."""
    size = CHARACTERS_PER_TOKEN
    pieces: list[tuple[Channel, str]] = [
        ("content", text[at : at + size]) for at in range(0, len(text), size)
    ]
    for call in calls:
        whole = call.name + call.arguments
        pieces += [("tool_call", whole[at : at + size]) for at in range(0, len(whole), size)]
    return pieces[:limit]


class ScriptedAdapter:
    """Entry point `scripted`."""

    section = ScriptedSection
    needs_model = False

    def open_generator(
        self,
        section: DeviceSection,
        model: ModelRef | None,  # noqa: ARG002 - has none
    ) -> ScriptedGenerator:
        assert isinstance(section, ScriptedSection)  # noqa: S101 - chosen by the same kind
        script = section.script
        if isinstance(script, str):
            script = read_script(Path(script))
        return ScriptedGenerator(script, section.context_tokens)


def read_script(path: Path) -> tuple[ScriptEntry, ...]:
    """Read a script file. Raises ConfigError naming the entry."""
    values = read_yaml(path)
    if values is not None and not isinstance(values, list):
        raise ConfigError(f"{path}: must be a list of entries")
    try:
        return TypeAdapter(tuple[ScriptEntry, ...]).validate_python(values or ())
    except ValidationError as error:
        mistake = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in mistake["loc"])
        raise ConfigError(f"{path}: entry {where}: {mistake['msg']}") from None


adapter = ScriptedAdapter()
