"""Chat templates: from messages to the prompt text a model was trained on.

Templates follow Hugging Face's rules (Jinja with `trim_blocks` and `lstrip_blocks`, `tojson`
without escapes, `raise_exception`, `strftime_now`). They come from model files, which are not to be
trusted: each is rendered in a child process of its own, under the limits of `TemplateLimits`.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from types import TracebackType
from typing import Any, Self

import msgspec

from edge_runner.devices import template_process as child
from edge_runner.devices.template_renderer import Renderer, RendererLostError, TemplateLimits
from edge_runner.engines import ToolFormat
from edge_runner.errors import EngineClosedError, EngineError, ModelFileError
from edge_runner.messages import Message, ToolSpec

CHATML = """\
{% for message in messages %}
{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{% if add_generation_prompt %}
{{ '<|im_start|>assistant\n' }}
{%- endif %}
"""
"""For models that bring no template: the format most small chat models know. No tools."""

PROBE_TOOL = "probe_tool_5b1d"
MESSAGE_CHARACTERS = 300
START_UP_NS = 10_000_000_000
"""What a busy machine may take to start the child, on top of the time limit."""

_GENERATION_TAG = re.compile(r"\{%([-+]?)\s*(end)?generation\s*([-+]?)%\}")


class _LimitError(EngineError):
    """A rendering ran into one of its limits."""


class ChatTemplate:
    """One model's template. Safe to call from several threads; renders one at a time.

    `name` is the model's, for messages. `now` is what `strftime_now` tells, for the lifetime of
    the object: a run's prompts must not change at midnight. Raises ModelFileError when the
    template cannot be compiled, UnavailableError when minijinja is not installed.
    """

    def __init__(
        self,
        source: str,
        *,
        bos_token: str = "",
        eos_token: str = "",
        name: str = "this model",
        limits: TemplateLimits | None = None,
        now: datetime | None = None,
    ) -> None:
        self._limits = limits or TemplateLimits()
        self._what = f"the chat template of {name}"
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self._lock = threading.Lock()
        self._closed = False
        self._process: Renderer | None = None
        if len(source.encode(errors="replace")) > self._limits.source_bytes:
            raise ModelFileError(
                f"{self._what} is longer than {self._limits.source_bytes} bytes: refused"
            )
        # Marks the assistant's part for training; rendering ignores it.
        plain = _GENERATION_TAG.sub(
            lambda tag: f"{{%{tag[1]} {'endif' if tag[2] else 'if true'} {tag[3]}%}}", source
        )
        self._setup = _encode(
            {
                "source": plain,
                "now": (now or datetime.now()).isoformat(),  # noqa: DTZ005 - templates tell local time
                "instructions": self._limits.instructions,
                "memory_bytes": self._limits.memory_bytes,
                "output_bytes": self._limits.output_bytes,
                "time_ns": self._limits.time_ns,
            }
        )
        try:
            self._start()
        except EngineError as error:
            self._stop()
            raise ModelFileError(str(error)) from None

    def render(
        self,
        messages: tuple[Message, ...],
        tools: tuple[ToolSpec, ...] = (),
        *,
        add_generation_prompt: bool = True,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt. `variables` are handed to the template as they are (`enable_thinking`).

        Raises EngineError when the template refuses the conversation, fails, or runs out of one of
        its limits; the next call starts afresh.
        """
        request = {
            **self._tokens,
            "messages": message_dicts(messages),
            "tools": [tool_dict(tool) for tool in tools] or None,
            "add_generation_prompt": add_generation_prompt,
            **(variables or {}),
        }
        try:
            payload = _encode(request)
        except RecursionError:
            raise EngineError(f"{self._what} was given data that nests too deeply") from None
        with self._lock:
            if self._closed:
                raise EngineClosedError(f"{self._what} was used after close")
            process = self._process or self._start()
            return self._ask(process, payload)

    @cached_property
    def supports_tools(self) -> bool:
        """Does the template show the model its tools? Found out by rendering one.

        Raises ModelFileError when the template runs out of its limits even on one message.
        """
        tool = ToolSpec(
            PROBE_TOOL, PROBE_TOOL, {"type": "object", "properties": {"x": {"type": "string"}}}
        )
        user = Message("user", "hello")
        for messages in ((Message("system", "hello"), user), (user,)):
            try:
                return PROBE_TOOL in self.render(messages, (tool,))
            except _LimitError as error:
                raise ModelFileError(str(error)) from None
            except EngineError:
                continue  # some templates refuse a system message
        return False

    def close(self) -> None:
        """End the child process. Safe to call twice."""
        with self._lock:
            self._closed = True
            self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _start(self) -> Renderer:
        self._process = Renderer(self._limits)
        self._ask(self._process, self._setup, START_UP_NS)
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None

    def _ask(self, process: Renderer, payload: bytes, extra_ns: int = 0) -> str:
        try:
            status, text = process.exchange(payload, self._limits.time_ns + extra_ns)
        except RendererLostError as lost:
            self._stop()
            if lost.limit:
                raise self._out_of(lost.limit) from None
            raise EngineError(f"{self._what} crashed its renderer ({lost})") from None
        except BaseException:  # half an exchange leaves the pipes out of step
            self._stop()
            raise
        if status == child.RENDERED:
            return text
        if status == child.OUT_OF_FUEL:
            raise self._out_of("instruction")
        if status == child.OUTPUT_TOO_LONG:
            raise self._out_of("output")
        if status == child.REFUSED:
            raise EngineError(f"{self._what} refused the conversation: {_one_line(text)}")
        # Below its first line minijinja's message quotes the template.
        raise EngineError(f"{self._what} failed: {_one_line(text.partition(chr(10))[0])}")

    def _out_of(self, limit: str) -> _LimitError:
        return _LimitError(f"{self._what} ran out of its {limit} limit: the template is broken")


def message_dicts(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """Messages the way templates expect them. A tool's message also gets the tool's name."""
    names: dict[str, str] = {}
    dicts = []
    for message in messages:
        plain: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.reasoning:
            plain["reasoning_content"] = message.reasoning
        if message.tool_calls:
            plain["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": _arguments(call.arguments)},
                }
                for call in message.tool_calls
            ]
            names.update((call.id, call.name) for call in message.tool_calls)
        if message.tool_call_id is not None:
            plain["tool_call_id"] = message.tool_call_id
            if message.tool_call_id in names:
                plain["name"] = names[message.tool_call_id]
        dicts.append(plain)
    return dicts


def tool_dict(tool: ToolSpec) -> dict[str, Any]:
    """A tool in OpenAI's shape."""
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = tool.parameters
    return {"type": "function", "function": function}


def detect_tool_format(source: str | None) -> ToolFormat:
    """How a model with this template writes its tool calls, by what the template shows it."""
    if not source or not re.search(r"\btools\b", source):
        return "none"
    if "<function=" in source:
        return "qwen3-coder"
    if "<tool_call>" in source:
        return "hermes"
    if "<|python_tag|>" in source or ("ipython" in source and "parameters" in source):
        return "llama3"
    return "json"


def _arguments(text: str) -> Any:
    """Templates print arguments with `tojson`: an object as an object, anything else as it is."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def _encode(value: Mapping[str, Any]) -> bytes:
    with suppress(OverflowError, UnicodeEncodeError, RecursionError):
        return msgspec.json.encode(value, enc_hook=_plain)
    # Slower, but takes integers of any size and halves of surrogate pairs.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _plain(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} cannot be handed to a chat template")


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MESSAGE_CHARACTERS else line[:MESSAGE_CHARACTERS] + "..."
