"""Where a tool call ends, found while its text is still being written.

A call's own values may contain the very tags that close it: a command that greps for
`</tool_call>`, a file that documents the format. So what is inside a call is followed closely
enough to tell a tag from a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Literal

from edge_runner.devices.tool_calls import ARGUMENT_KEYS, Call, bare_call
from edge_runner.engines import ToolFormat

CALL, CALL_END = "<tool_call>", "</tool_call>"
FUNCTION, FUNCTION_END = "<function=", "</function>"
PARAMETER, PARAMETER_END = "<parameter=", "</parameter>"
PYTHON_TAG = "<|python_tag|>"

OPENING_TAGS: dict[ToolFormat, tuple[str, ...]] = {
    "none": (),
    "json": (),
    "hermes": (CALL,),
    "qwen3-coder": (CALL, FUNCTION),
    "llama3": (PYTHON_TAG,),
}
_IN_STRING = re.compile(r'["\\\n]')
_OUT_OF_STRING = re.compile(r'["{}\[\]]')


class JsonScanner:
    """Follows JSON text piece by piece: inside a string or not, and how deep in brackets."""

    def __init__(self) -> None:
        self.in_string = False
        self.depth = 0
        self._escaped = False

    def scan(self, text: str, at: int = 0) -> tuple[Literal["end", "newline"] | None, int]:
        """Go on to the next event and the index behind it: `end` of the outermost value, or a raw
        `newline` inside a string, which no valid JSON has; None at the end of `text`."""
        if self._escaped and at < len(text):
            self._escaped = False
            at += 1
        while mark := (_IN_STRING if self.in_string else _OUT_OF_STRING).search(text, at):
            at = mark.end()
            match mark[0]:
                case '"':
                    self.in_string = not self.in_string
                case "{" | "[":
                    self.depth += 1
                case "}" | "]":
                    self.depth -= 1
                    if self.depth <= 0:
                        self.depth = 0
                        return "end", at
                case "\n":
                    return "newline", at
                case _:
                    self._escaped = at == len(text)
                    at += 1
        return None, len(text)


class TaggedBlock:
    """A tagged block while it is written. `early_close` is where the first closing tag stood that
    looked like part of a value; `at_boundary` tells whether a tag here would be a real one."""

    def __init__(self, opening: str) -> None:
        self.opening = opening
        self.closing_tag = {CALL: CALL_END, FUNCTION: FUNCTION_END}.get(opening, "")
        self.tags = {CALL: (CALL_END, CALL), FUNCTION: (FUNCTION_END, PARAMETER)}.get(
            opening, (opening,)
        )
        self.early_close: int | None = None
        self._parts = [opening]
        self._length = len(opening)
        self._xml: bool | None = True if opening == FUNCTION else None
        self._tail = ""
        self._has_parameter = False
        self._json: JsonScanner | None = JsonScanner()

    @property
    def text(self) -> str:
        """All of it, opening tag included."""
        return "".join(self._parts)

    def body(self, end: int | None = None) -> str:
        """What is inside the tags, up to index `end` of the text."""
        return self.text[0 if self.opening == FUNCTION else len(self.opening) : end]

    @property
    def at_boundary(self) -> bool:
        if self._xml:
            if self.opening == FUNCTION:
                return not self._has_parameter or self._tail.endswith(PARAMETER_END)
            return self._tail.endswith(FUNCTION_END)
        return self._json is None or not self._json.in_string

    def add(self, text: str) -> int | None:
        """Take text without tags. If it shows that `early_close` was the end after all, returns how
        much of it was taken until then."""
        if self._xml is None and (first := text.lstrip()[:1]):
            self._xml = first == "<"
        broken_at = None
        if self._xml is False and self._json is not None:
            event, at = self._json.scan(text)
            while event == "end":
                event, at = self._json.scan(text, at)
            if event == "newline":  # not JSON: from here on every tag is a real one
                self._json = None
                broken_at = None if self.early_close is None else at
        self._append(text[:broken_at])
        return broken_at

    def add_tag(self, tag: str) -> None:
        """Take a tag that is part of a value."""
        if tag == PARAMETER:
            self._has_parameter = True
        if tag == self.closing_tag and self.early_close is None:
            self.early_close = self._length
        if self._json is not None:
            self._json.scan(tag)
        self._append(tag)

    def _append(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)
        self._tail = (self._tail + text).rstrip()[-len(PARAMETER_END) :]


class WholeReply:
    """A reply that may be nothing but JSON objects that call tools."""

    FENCES = ("```", "```json", "```tool_call")
    HEAD = re.compile(
        r'\{\s*"name"\s*:\s*"([^"\\]*)"\s*,\s*"(?:' + "|".join(ARGUMENT_KEYS) + r')"\s*:'
    )
    HEAD_CHARACTERS = 256

    def __init__(self, names: Collection[str], show: Callable[[str], None]) -> None:
        self._names = names
        self._show_text = show
        self._parts: list[str] = []
        self._place: Literal["start", "fence", "between", "object", "end"] = "start"
        self._fence = ""
        self._scanner = JsonScanner()
        self._calls: list[Call] = []
        self._begin_object()

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self._parts)

    def finish(self) -> list[Call]:
        """The calls, or none if this was not only calls."""
        return [] if self._place == "object" else self._calls

    def feed(self, text: str) -> bool:
        """Take the next piece. False as soon as it cannot be what this class is for."""
        self._parts.append(text)
        at = 0
        while at < len(text):
            if self._place == "object":
                event, end = self._scanner.scan(text, at)
                self._grow(text[at:end])
                if event == "end" and not self._end_object():
                    return False
                at = end
            elif text[at] == "{" and self._place in ("start", "between"):
                self._place = "object"
            elif self._skip(text[at]):
                at += 1
            else:
                return False
        return True

    def _skip(self, char: str) -> bool:
        """Is this a character that may stand around the objects?"""
        match self._place:
            case "start" if char == "`":
                self._place = "fence"
                self._fence = char
            case "start" if char == "[":
                self._place = "between"
            case "fence" if char == "\n":
                self._place = "between"
                return self._fence.rstrip() in self.FENCES
            case "fence":
                self._fence += char
                return len(self._fence) <= max(map(len, self.FENCES)) + 1
            case "between" if char == "`" and self._fence:
                self._place = "end"
            case "between":
                return char.isspace() or char in ",;[]"
            case "end":
                return char.isspace() or char == "`"
            case _:
                return char.isspace()
        return True

    def _begin_object(self) -> None:
        self._object: list[str] = []
        self._head = ""
        self._shown = False

    def _grow(self, piece: str) -> None:
        """Show the object as soon as its head says that it is a call."""
        self._object.append(piece)
        if self._shown:
            self._show_text(piece)
        elif len(self._head) < self.HEAD_CHARACTERS:
            self._head += piece[: self.HEAD_CHARACTERS - len(self._head)]
            head = self.HEAD.match(self._head)
            if head and head[1] in self._names:
                self._show()

    def _show(self) -> None:
        self._shown = True
        self._show_text("".join(self._object))

    def _end_object(self) -> bool:
        call = bare_call("".join(self._object), self._names)
        if call is None:
            return False
        if not self._shown:
            self._show()
        self._calls.append(call)
        self._place = "between"
        self._begin_object()
        return True
