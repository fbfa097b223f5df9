"""Reading the replay set, and every row it must refuse with file and line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge_runner.errors import DataError
from edge_runner.messages import Message, ToolSpec
from edge_runner.workloads import replay_data
from edge_runner.workloads.replay_data import read_replay, read_rows, write_session

Write = Callable[[str | bytes], Path]


def test_rows_become_client_turns_with_their_recorded_reply(
    rows: Callable[..., Any], write: Write
) -> None:
    (conversation,) = read_replay(write(rows().text())).conversations
    assert (conversation.id, conversation.system) == ("a", "Be brief.")
    assert conversation.tools == (
        ToolSpec(
            "bash", "Run it", {"type": "object", "properties": {"command": {"type": "string"}}}
        ),
    )
    first, second, third = conversation.turns
    assert first.messages == (Message("user", "go"),)
    assert first.delay_ns == 0
    assert second.messages == (Message("tool", "result of c1", tool_call_id="c1"),)
    assert (second.delay_ns, third.delay_ns) == (250_000_000, 1_500_000_000)
    assert first.recorded is not None
    assert first.recorded.reasoning == "hm"
    assert first.recorded.tool_calls[0].arguments == '{"command": "ls | sort"}'
    assert third.recorded is not None
    assert (third.recorded.text, third.recorded.tool_calls) == ("done", ())


def test_two_results_in_a_row_become_two_messages_of_one_turn(
    rows: Callable[..., Any], write: Write
) -> None:
    data = rows()
    extra = dict(data[1]["tool_calls"][0], id="c1b")
    data[1]["tool_calls"].append(extra)
    data[2]["tool_results"].append({"tool_call_id": "c1b", "content": "more"})
    turn = read_replay(write(data.text())).conversations[0].turns[1]
    assert [message.tool_call_id for message in turn.messages] == ["c1", "c1b"]


def test_a_client_row_without_a_reply_is_a_turn_without_one(
    rows: Callable[..., Any], write: Write
) -> None:
    data = rows()
    data[-1:] = []
    data.user(6).assistant(7)
    turns = read_replay(write(data.text())).conversations[0].turns
    assert [turn.recorded is None for turn in turns] == [False, False, True, False]


def test_interleaved_conversations_blank_lines_unknown_fields_and_a_mark_are_fine(
    rows: Callable[..., Any], write: Write
) -> None:
    first, second = rows("a"), rows("b")
    first[0]["comment"] = {"any": "thing"}
    lines = [json.dumps(row) for pair in zip(first, second, strict=True) for row in pair]
    path = write(b"\xef\xbb\xbf" + "\n\n  \r\n".join(lines).encode())
    found = read_replay(path).conversations
    assert [one.id for one in found] == ["a", "b"]
    assert found[0].turns == found[1].turns


def test_an_assistants_content_may_be_null(rows: Callable[..., Any], write: Write) -> None:
    data = rows()
    data[1]["content"] = None
    recorded = read_replay(write(data.text())).conversations[0].turns[0].recorded
    assert recorded is not None
    assert recorded.text == ""


def change(index: int, **values: Any) -> Callable[[Any], None]:
    return lambda rows: rows[index].update(values)


def drop(index: int, key: str) -> Callable[[Any], None]:
    return lambda rows: rows[index].pop(key)


def without(index: int) -> Callable[[Any], None]:
    return lambda rows: rows.pop(index)


@pytest.mark.parametrize(
    ("spoil", "line", "says"),
    [
        (drop(2, "role"), 3, "missing required field `role`"),
        (change(2, role="narrator"), 3, "must be user, assistant or tool"),
        (change(2, role=None), 3, "must be user, assistant or tool"),
        (drop(0, "content"), 1, "missing required field `content`"),
        (drop(0, "system"), 1, "needs `system`"),
        (drop(0, "tools"), 1, "needs `tools`"),
        (drop(1, "turn"), 2, "missing required field `turn`"),
        (drop(1, "conversation_id"), 2, "missing required field `conversation_id`"),
        (drop(2, "tool_results"), 3, "missing required field `tool_results`"),
        (drop(2, "delay_seconds"), 3, "missing required field `delay_seconds`"),
        (change(1, tool_calls=[{"id": "x"}]), 2, "tool_calls[0]: missing required field"),
        (change(0, content=3), 1, "content: expected `str`, got `int`"),
        (change(0, tools="bash"), 1, "tools: expected `array | null`, got `str`"),
        (change(2, turn="3"), 3, "turn: expected `int`, got `str`"),
        (change(2, turn=True), 3, "turn: expected `int`, got `bool`"),
        (change(2, delay_seconds="fast"), 3, "delay_seconds: expected `float`, got `str`"),
        (change(2, delay_seconds=-1), 3, "must be from 0 to"),
        (change(2, delay_seconds=1e30), 3, "must be from 0 to"),
        (change(2, tool_results=[]), 3, "`tool_results` is empty"),
        (change(2, turn=2), 3, "turn 2 is out of order: turn 3 was expected"),
        (change(2, turn=4), 3, "turn 4 is out of order: turn 3 is missing"),
        (without(1), 2, "turn 3 is out of order"),
        (change(0, turn=2), 1, "turn 2 is out of order"),
        (change(4, turn=1), 5, "starts a second time"),
        (change(0, conversation_id=""), 1, "conversation_id must not be empty"),
        (change(0, role="assistant"), 1, "must start with a user row"),
        (lambda rows: rows.insert(0, dict(rows[2], turn=1)), 1, "must start with a user row"),
        (lambda rows: rows.assistant(7), 7, "must follow a user or tool row"),
        (drop(5, "content"), 6, "needs `content`, `reasoning_content` or `tool_calls`"),
        (
            change(2, tool_results=[{"tool_call_id": "zz", "content": ""}]),
            3,
            "tool call 'zz', which no assistant row",
        ),
        (
            change(4, tool_results=[{"tool_call_id": "c1", "content": ""}]),
            5,
            "tool call 'c1', which no assistant row",
        ),
        (lambda rows: rows[1].update(tool_calls=rows[1]["tool_calls"] * 2), 2, "the same id"),
        (lambda rows: rows.user(7, system="Other."), 7, "must stay as on the conversation's first"),
        (lambda rows: rows.user(7, tools=[]), 7, "must stay as on the conversation's first"),
    ],
)
def test_a_bad_row_names_file_line_and_mistake(
    rows: Callable[..., Any],
    write: Write,
    spoil: Callable[[Any], None],
    line: int,
    says: str,
) -> None:
    data = rows()
    spoil(data)
    path = write(data.text())
    with pytest.raises(DataError) as caught:
        read_replay(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:{line}: ")
    assert says in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "body",
    [
        b"not json",
        b'{"turn": 1',
        b"[1, 2]",
        b'"text"',
        b"3",
        b'{"role": "user", "content": "\xff"}',
        b'{"role": "user", "content": "\\ud800"}',
        b'{"role": "user", "x": NaN}',
        b'{"role": "user", "x": ' + b"[" * 100_000,
        b'{"a": 1} {"b": 2}',
        b"version https://git-lfs.github.com/spec/v1",
        b"\x00\x01\x02",
    ],
)
def test_a_line_that_is_no_object_is_named(write: Write, body: bytes) -> None:
    path = write(b"\n" + body + b"\n")
    with pytest.raises(DataError, match=r"data\.jsonl:2: "):
        read_replay(path)


@pytest.mark.parametrize("body", [b"", b"\n\n", b"\xef\xbb\xbf"])
def test_a_file_without_rows_is_refused(write: Write, body: bytes) -> None:
    with pytest.raises(DataError, match="has no rows"):
        read_replay(write(body))


def test_a_missing_file_or_a_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(DataError, match="cannot be read"):
            read_replay(path)


def test_an_endless_line_is_refused_before_it_fills_memory(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_data, "MAX_LINE_BYTES", 1 << 20)
    path = write(b"\n" + b"x" * ((1 << 20) + 1))
    with pytest.raises(DataError, match=r"data\.jsonl:2: is longer than 1 MiB"):
        read_replay(path)


def test_what_is_written_reads_back_the_same(
    rows: Callable[..., Any], write: Write, tmp_path: Path
) -> None:
    path = write(rows("a").text() + rows("b").text())
    copy = tmp_path / "copy.jsonl"
    originals = [row for _, row in read_rows(path)]
    write_session(copy, originals[:6])
    write_session(copy, originals[6:], append=True)
    assert [row for _, row in read_rows(copy)] == originals
    assert read_replay(copy) == read_replay(path)


def test_the_official_set_has_its_known_counts(official: Path) -> None:
    found = read_replay(official).conversations
    turns = [turn for one in found for turn in one.turns]
    assert (len(found), len(turns)) == (20, 1007)
    assert sum(turn.messages[0].role == "tool" for turn in turns) == 987
    assert all(turn.recorded is not None for turn in turns)
    assert sum(turn.delay_ns for turn in turns) / 1e9 == pytest.approx(636.4, abs=0.05)
