"""The replay data set: JSON lines, one row a message, as in MLPerf's Edge Agentic set.

A row has `conversation_id`, `turn` (1, 2, 3, ... within its conversation) and `role`:

    user       content; on the first row also system ("" for none) and tools ([] for none)
    assistant  content, reasoning_content, tool_calls (OpenAI's shape, arguments as JSON text)
    tool       tool_results [{tool_call_id, content}], delay_seconds: what the real tools took

User and tool rows are client turns; the assistant row after one is the recorded reply to it. Other
fields and blank lines are ignored; conversations may be interleaved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from edge_runner.agents.conversation import ClientTurn, Conversation
from edge_runner.engines import RecordedReply
from edge_runner.errors import DataError
from edge_runner.messages import Message, ToolCall, ToolSpec

MAX_LINE_BYTES = 64 << 20
MAX_DELAY_S = 86_400.0
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class FunctionCall(msgspec.Struct):
    name: str
    arguments: str


class RecordedCall(msgspec.Struct):
    id: str
    function: FunctionCall
    type: str = "function"


class FunctionSpec(msgspec.Struct):
    name: str
    description: str = ""
    parameters: dict[str, Any] = {}


class ToolEntry(msgspec.Struct):
    function: FunctionSpec
    type: str = "function"


class ToolResult(msgspec.Struct):
    tool_call_id: str
    content: str


class _Row(msgspec.Struct, tag_field="role", kw_only=True, omit_defaults=True):
    conversation_id: str
    turn: int


class UserRow(_Row, tag="user", kw_only=True):
    content: str
    system: str | None = None
    tools: list[ToolEntry] | None = None


class AssistantRow(_Row, tag="assistant", kw_only=True):
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[RecordedCall] | None = None


class ToolRow(_Row, tag="tool", kw_only=True):
    tool_results: list[ToolResult]
    delay_seconds: float


Row = UserRow | AssistantRow | ToolRow


@dataclass(frozen=True, slots=True)
class ReplaySet:
    """Conversations in the order in which they start in the file."""

    conversations: tuple[Conversation, ...]


def read_replay(path: Path) -> ReplaySet:
    """Read and check a whole file. Raises DataError naming file and line."""
    builders: dict[str, _Builder] = {}
    for line, row in read_rows(path):
        builder = builders.setdefault(row.conversation_id, _Builder(row.conversation_id))
        try:
            builder.add(row)
        except _BadRowError as error:
            raise DataError(
                f"{path}:{line}: conversation {row.conversation_id!r}: {error}"
            ) from None
    if not builders:
        raise DataError(f"{path}: has no rows; each line must be one message as a JSON object")
    return ReplaySet(tuple(builder.conversation() for builder in builders.values()))


def read_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Line number (1-based) and row, one line in memory at a time. Raises DataError."""
    decoder: msgspec.json.Decoder[Row] = msgspec.json.Decoder(Row)
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    raise DataError(
                        f"{path}:{number}: is longer than {MAX_LINE_BYTES >> 20} MiB; "
                        "each message must be a line of its own"
                    )
                if number == 1:
                    line = line.removeprefix(_BYTE_ORDER_MARK)
                if not line.strip():
                    continue
                try:
                    row = decoder.decode(line)
                except msgspec.ValidationError as error:
                    raise DataError(f"{path}:{number}: {_explain(str(error))}") from None
                except (msgspec.DecodeError, RecursionError) as error:
                    raise DataError(
                        f"{path}:{number}: is not a JSON object on one line: {error}"
                    ) from None
                yield number, row
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None


def write_session(path: Path, rows: Iterable[Row], *, append: bool = False) -> None:
    """Write rows in the same format, one conversation after another with `append`."""
    encoder = msgspec.json.Encoder()
    with path.open("ab" if append else "wb") as file:
        for row in rows:
            file.write(encoder.encode(row) + b"\n")


class _BadRowError(Exception):
    """A row that is well formed but does not fit where it stands."""


@dataclass
class _Builder:
    """Grows one conversation row by row, refusing what could not have happened."""

    id: str
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    turns: list[ClientTurn] = field(default_factory=list)
    rows: int = 0
    client: tuple[tuple[Message, ...], int] | None = None
    unanswered: set[str] = field(default_factory=set)

    def add(self, row: Row) -> None:
        if not self.id:
            raise _BadRowError("conversation_id must not be empty")
        self._check_turn(row.turn)
        if self.rows == 0 and not isinstance(row, UserRow):
            raise _BadRowError(f"must start with a user row, not with role {_role(row)!r}")
        match row:
            case UserRow():
                self._user(row)
            case ToolRow():
                self._tool(row)
            case AssistantRow():
                self._assistant(row)
        self.rows += 1

    def conversation(self) -> Conversation:
        self._close_turn(None)
        return Conversation(self.id, self.system, self.tools, tuple(self.turns))

    def _check_turn(self, turn: int) -> None:
        expected = self.rows + 1
        if turn == expected:
            return
        if turn == 1:
            raise _BadRowError(
                "starts a second time (turn 1 again); give each conversation its own id"
            )
        what = "is missing before it" if turn > expected else "was expected"
        raise _BadRowError(f"turn {turn} is out of order: turn {expected} {what}")

    def _user(self, row: UserRow) -> None:
        tools = None if row.tools is None else tuple(_tool_spec(entry) for entry in row.tools)
        if self.rows == 0:
            if row.system is None:
                raise _BadRowError('the first row needs `system`; use "" for no system prompt')
            if tools is None:
                raise _BadRowError("the first row needs `tools`; use [] for none")
            self.system, self.tools = row.system, tools
        elif row.system not in (None, self.system) or tools not in (None, self.tools):
            raise _BadRowError("`system` and `tools` must stay as on the conversation's first row")
        self._client_turn((Message("user", row.content),), 0)

    def _tool(self, row: ToolRow) -> None:
        if not row.tool_results:
            raise _BadRowError("`tool_results` is empty; a tool row answers at least one call")
        if not 0 <= row.delay_seconds <= MAX_DELAY_S:
            raise _BadRowError(
                f"`delay_seconds` must be from 0 to {MAX_DELAY_S:.0f}, not {row.delay_seconds:g}"
            )
        for result in row.tool_results:
            if result.tool_call_id not in self.unanswered:
                raise _BadRowError(
                    f"result for tool call {result.tool_call_id!r}, which no assistant row before "
                    "it made or which is already answered"
                )
            self.unanswered.discard(result.tool_call_id)
        messages = tuple(
            Message("tool", result.content, tool_call_id=result.tool_call_id)
            for result in row.tool_results
        )
        self._client_turn(messages, round(row.delay_seconds * 1e9))

    def _assistant(self, row: AssistantRow) -> None:
        if self.client is None:
            raise _BadRowError("an assistant row must follow a user or tool row")
        if row.content is None and row.reasoning_content is None and row.tool_calls is None:
            raise _BadRowError(
                "an assistant row needs `content`, `reasoning_content` or `tool_calls`"
            )
        calls = tuple(
            ToolCall(call.id, call.function.name, call.function.arguments)
            for call in row.tool_calls or ()
        )
        ids = {call.id for call in calls}
        if len(ids) < len(calls):
            raise _BadRowError("two calls in `tool_calls` have the same id")
        self.unanswered |= ids
        self._close_turn(RecordedReply(row.content or "", row.reasoning_content or "", calls))

    def _client_turn(self, messages: tuple[Message, ...], delay_ns: int) -> None:
        self._close_turn(None)
        self.client = (messages, delay_ns)

    def _close_turn(self, recorded: RecordedReply | None) -> None:
        if self.client is not None:
            self.turns.append(ClientTurn(*self.client, recorded))
            self.client = None


def _tool_spec(entry: ToolEntry) -> ToolSpec:
    function = entry.function
    return ToolSpec(function.name, function.description, function.parameters)


def _role(row: Row) -> str:
    return str(row.__struct_config__.tag)


def _explain(mistake: str) -> str:
    """msgspec's message in the words of the file: the field first, then what is wrong with it."""
    text, _, place = mistake.partition(" - at ")
    field_path = place.strip("`").removeprefix("$").removeprefix(".")
    if field_path == "role":
        return f"role: {text[0].lower()}{text[1:]}; must be user, assistant or tool"
    if text.startswith("Object missing"):
        where = f"{field_path}: " if field_path else ""
        return f"{where}{text.removeprefix('Object ')}"
    where = f"{field_path}: " if field_path else ""
    return f"{where}{text[0].lower()}{text[1:]}"
