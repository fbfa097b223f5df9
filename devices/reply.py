"""From the stream of a model's text to what it says: content, reasoning, tool calls.

The text comes in pieces cut anywhere; the result never depends on where. Content is shown as soon
as it cannot be part of a stop string or a tag any more. Text of what looks like a tool call is
shown on the `tool_call` channel while it is written; what turns out to be no call after all becomes
content then, with everything that was written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edge_runner.devices.text import StopStrings, find_first, held_length
from edge_runner.devices.tool_blocks import (
    CALL,
    CALL_END,
    OPENING_TAGS,
    PARAMETER,
    TaggedBlock,
    WholeReply,
)
from edge_runner.devices.tool_calls import Call, closed_calls, complete_calls
from edge_runner.engines import Channel, ToolFormat
from edge_runner.messages import ToolCall, ToolSpec

Delta = tuple[Channel, str]

THINK, THINK_END = "<think>", "</think>"
PIECE_CHARACTERS = 4096


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A reply, complete. `deltas` is what was still held back."""

    text: str
    reasoning: str
    tool_calls: tuple[ToolCall, ...]
    deltas: list[Delta]


class ReplyParser:
    """One reply of one model. `reasoning_open`: the prompt ended inside `<think>`.

    Every format also takes one or more bare JSON objects (or one fenced block of them) as the whole
    reply for calls, if they name offered tools: what small models write whatever they are told.
    """

    def __init__(
        self,
        tool_format: ToolFormat,
        tools: Sequence[ToolSpec] = (),
        stop: Sequence[str] = (),
        *,
        reasoning_open: bool = False,
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._stop = StopStrings(stop)
        self._opening_tags = OPENING_TAGS[tool_format]
        closing = (CALL_END,) if CALL in self._opening_tags else ()
        self._content_tags = (THINK, *self._opening_tags, *closing)
        self._may_be_whole = tool_format != "none" and bool(tools)
        self._deltas: list[Delta] = []
        self._content = _Writer("content", self._deltas)
        self._reasoning = _Writer("reasoning", self._deltas)
        self._call_text = _Writer("tool_call", self._deltas)
        self._reasoning.tag()
        self._call_text.tag()
        self._calls: list[Call] = []
        self._held = ""
        self._whole: WholeReply | None = None
        self._block: TaggedBlock | None = None
        self._trust_every_tag = False
        self._state: Callable[[str], str] = self._in_reasoning if reasoning_open else self._at_start

    @property
    def stopped(self) -> bool:
        """A stop string came: nothing more will."""
        return self._stop.stopped

    def feed(self, text: str) -> list[Delta]:
        """Take the next piece; what became visible by it."""
        self._run(self._stop.feed(text))
        return self._take()

    def finish(self) -> ParsedReply:
        """Nothing follows: settle what was open."""
        self._run(self._stop.finish())
        while self._whole is not None or self._block is not None:
            if self._whole is not None:
                self._end_whole(self._whole)
            elif self._block is not None:
                self._end_block(self._block)
        writer = self._reasoning if self._state == self._in_reasoning else self._content
        writer.write(self._held)
        for writer in (self._reasoning, self._content, self._call_text):
            writer.finish()
        calls = tuple(ToolCall(f"call_{i}", *call) for i, call in enumerate(self._calls))
        return ParsedReply(self._content.text, self._reasoning.text, calls, self._take())

    def _run(self, text: str) -> None:
        """Let the states consume the text; each returns what is left for the next one. In pieces:
        every tag found costs a copy of what is left."""
        for start in range(0, len(text), PIECE_CHARACTERS):
            rest = self._held + text[start : start + PIECE_CHARACTERS]
            self._held = ""
            while rest:
                rest = self._state(rest)
                if len(rest) > 2 * PIECE_CHARACTERS:  # a state gave back what it had taken before
                    self._run(rest)
                    break

    def _take(self) -> list[Delta]:
        deltas = self._deltas.copy()
        self._deltas.clear()
        return deltas

    def _cut(self, text: str, tags: Sequence[str]) -> tuple[str, str, str]:
        """Text before the first tag, the tag, the rest. Without one, what may be one is held."""
        if found := find_first(text, tags):
            at, tag = found
            return text[:at], tag, text[at + len(tag) :]
        at = len(text) - held_length(text, tags)
        self._held = text[at:]
        return text[:at], "", ""

    def _at_start(self, text: str) -> str:
        if self._may_be_whole:
            self._whole = WholeReply(self._tools, self._call_text.write)
            self._state = self._in_whole
        else:
            self._state = self._in_content
        return text

    def _in_whole(self, text: str) -> str:
        whole = self._whole
        assert whole is not None  # noqa: S101 - what this state means
        if whole.feed(text):
            return ""
        self._whole = None
        self._state = self._in_content
        return whole.text

    def _in_content(self, text: str) -> str:
        before, tag, rest = self._cut(text, self._content_tags)
        self._content.write(before)
        if tag == THINK:
            self._content.tag()
            self._state = self._in_reasoning
        elif tag in self._opening_tags:
            self._block = TaggedBlock(tag)
            self._state = self._in_block
        elif tag and not (self._calls and self._content.after_tag):
            self._content.write(tag)  # a closing tag that closes nothing is text
        return rest

    def _in_reasoning(self, text: str) -> str:
        before, tag, rest = self._cut(text, (THINK_END,))
        self._reasoning.write(before)
        if tag:
            self._reasoning.tag()
            self._content.tag()
            self._state = self._at_start if self._content.empty else self._in_content
        return rest

    def _in_block(self, text: str) -> str:
        block = self._block
        assert block is not None  # noqa: S101 - what this state means
        before, tag, rest = self._cut(text, block.tags)
        broken_at = block.add(before)
        self._call_text.write(before[:broken_at])
        if broken_at is not None:
            self._held = ""
            return self._close_early(block) + text[broken_at:]
        if not tag:
            return ""
        if tag == PARAMETER or not (self._trust_every_tag or block.at_boundary):
            block.add_tag(tag)
            self._call_text.write(tag)
            return rest
        if tag == block.closing_tag:
            self._close(block.text + tag, closed_calls(block.body(), self._tools))
            return rest
        # The next block opens where this one should have been closed.
        self._close(block.text, complete_calls(block.body(), self._tools))
        return tag + rest

    def _end_whole(self, whole: WholeReply) -> None:
        self._whole = None
        self._state = self._in_content
        if calls := whole.finish():
            self._calls += calls
            self._call_text.tag()
        else:
            self._run(whole.text)

    def _end_block(self, block: TaggedBlock) -> None:
        held, self._held = self._held, ""
        for body in (block.body(), block.body() + held):
            if calls := complete_calls(body, self._tools):
                return self._close("", calls)
        if block.early_close is not None:
            return self._run(self._close_early(block) + held)
        return self._close(block.text + held, [])

    def _close_early(self, block: TaggedBlock) -> str:
        """Take the first closing tag, seen inside a string that never ended, for real. Returns the
        text behind it. Once in a reply: then every tag is trusted, so that time stays linear."""
        assert block.early_close is not None  # noqa: S101 - asked by the callers
        at = block.early_close + len(block.closing_tag)
        whole = block.text
        self._trust_every_tag = True
        self._close(whole[:at], closed_calls(block.body(block.early_close), self._tools))
        return whole[at:]

    def _close(self, written: str, calls: list[Call]) -> None:
        self._block = None
        self._state = self._in_content
        self._call_text.tag()
        if calls:
            self._calls += calls
            self._content.tag()
        else:
            self._content.write(written)


class _Writer:
    """One channel's text. White space is held back until it is known what it stands next to: at a
    tag it belongs to the format, not to the text."""

    def __init__(self, channel: Channel, deltas: list[Delta]) -> None:
        self._channel = channel
        self._deltas = deltas
        self._parts: list[str] = []
        self._space: list[str] = []
        self.after_tag = False

    @property
    def empty(self) -> bool:
        return not self._parts

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def write(self, text: str) -> None:
        shown = text.rstrip()
        if shown:
            if self.after_tag and self.empty:
                self._space.clear()
                shown = shown.lstrip()
            self.after_tag = False
            self._emit("".join(self._space) + shown)
            self._space.clear()
            text = text[len(text.rstrip()) :]
        if text:
            self._space.append(text)

    def tag(self) -> None:
        """A tag stands here."""
        self.after_tag = True

    def finish(self) -> None:
        if self._space and not self.after_tag:
            self._emit("".join(self._space))
        self._space.clear()

    def _emit(self, text: str) -> None:
        self._parts.append(text)
        self._deltas.append((self._channel, text))
