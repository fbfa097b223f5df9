from __future__ import annotations

import errno
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge_runner.engines import Divergence, Usage
from edge_runner.errors import DataError, RunFailedError
from edge_runner.messages import ToolCall
from edge_runner.results import events
from edge_runner.results.events import EventWriter, read_events, read_outputs, read_turns
from edge_runner.sessions import TurnOutcome
from edge_runner.trace import Span

MS = 1_000_000

Make = Callable[..., TurnOutcome]


def test_a_turn_is_written_and_read_back_whole(tmp_path: Path, make_outcome: Make) -> None:
    outcome = make_outcome(
        "s1",
        3,
        spans=(Span("prefill", "chunk 1", 10, 20),),
        divergence=Divergence(17, "history replaced"),
        tool_calls=(ToolCall("c1", "bash", '{"command": "ls"}'),),
        scores={"command_iou": 0.5, "other": None},
    )
    with EventWriter(tmp_path) as writer:
        written = writer.turn(outcome, stream=2, repeat=True, gap_ns={"harness": 7}, overlap_ns=9)
    (read,) = read_turns(tmp_path / "events.jsonl")
    assert read == written
    assert (read.session, read.turn, read.stream, read.repeat) == ("s1", 3, 2, True)
    assert read.latency_ns == 153 * MS
    assert read.gap_ns == {"recorded_delay": 0, "idle": 0, "harness": 7}
    assert read.overlap_ns == 9
    assert read.divergence == Divergence(17, "history replaced")
    assert read.tokens == Usage(prompt=1000, cached=900, evaluated=100, new=100, output=6)
    assert read.scores == {"command_iou": 0.5, "other": None}
    (output,) = read_outputs(tmp_path / "outputs.jsonl")
    assert (output.text, output.tool_calls, output.finish) == ("done", outcome.tool_calls, "stop")
    span = next(iter(read_events(tmp_path / "events.jsonl")))
    assert isinstance(span, events.SpanEvent)
    assert (span.part, span.name, span.start_ns, span.end_ns) == ("prefill", "chunk 1", 10, 20)


def test_token_times(tmp_path: Path, make_outcome: Make) -> None:
    with EventWriter(tmp_path) as writer:
        turn = writer.turn(make_outcome())
    assert turn.ttft_ns == 101 * MS
    assert turn.first_delta_ns == 111 * MS
    assert turn.tpot_ns == 10 * MS  # 50 ms over the five tokens after the first


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "empty", "usage": Usage(prompt=10, evaluated=10, output=3)},
        {"status": "failed", "error": "boom"},
        {"status": "aborted"},
    ],
)
def test_only_completed_turns_have_token_times(
    tmp_path: Path, make_outcome: Make, changes: dict[str, Any]
) -> None:
    with EventWriter(tmp_path) as writer:
        turn = writer.turn(make_outcome(**changes))
    assert (turn.ttft_ns, turn.first_delta_ns, turn.tpot_ns) == (None, None, None)


def test_one_token_has_no_tpot(tmp_path: Path, make_outcome: Make) -> None:
    with EventWriter(tmp_path) as writer:
        turn = writer.turn(make_outcome(usage=Usage(prompt=5, evaluated=5, output=1)))
    assert turn.tpot_ns is None
    assert turn.ttft_ns is not None


def test_every_line_starts_with_its_type(tmp_path: Path, make_outcome: Make) -> None:
    with EventWriter(tmp_path) as writer:
        writer.run("load", duration_ns=5)
        writer.log("warning", 'a "quoted" line\nand another')
        writer.sensor("package", 12.5, "W")
        writer.turn(make_outcome(spans=(Span("decode", "decode", 1, 2),)))
    lines = (tmp_path / "events.jsonl").read_bytes().splitlines()
    types = [json.loads(line)["type"] for line in lines]
    assert types == ["run", "log", "sensor", "span", "turn"]
    assert all(
        line.startswith(b'{"type":"%s",' % kind.encode())
        for line, kind in zip(lines, types, strict=True)
    )
    assert [type(event).__name__ for event in read_events(tmp_path / "events.jsonl")] == [
        "RunEvent",
        "LogEvent",
        "SensorEvent",
        "SpanEvent",
        "TurnEvent",
    ]


def test_a_turn_is_on_disk_before_the_next(tmp_path: Path, make_outcome: Make) -> None:
    with EventWriter(tmp_path) as writer:
        writer.turn(make_outcome())
        assert len(list(read_turns(tmp_path / "events.jsonl"))) == 1
        assert len(list(read_outputs(tmp_path / "outputs.jsonl"))) == 1


def test_cut_at_any_byte_gives_the_whole_turns(tmp_path: Path, make_outcome: Make) -> None:
    with EventWriter(tmp_path) as writer:
        for turn in range(1, 3):
            writer.turn(make_outcome(turn=turn, spans=(Span("decode", "d", 1, 2),)))
    data = (tmp_path / "events.jsonl").read_bytes()
    cut = tmp_path / "cut.jsonl"
    for length in range(len(data) + 1):
        cut.write_bytes(data[:length])
        whole = data[:length].rpartition(b"\n")[0].count(b'"type":"turn"')
        assert len(list(read_turns(cut))) == whole


def test_a_writer_goes_on_after_a_cut_line(tmp_path: Path, make_outcome: Make) -> None:
    with EventWriter(tmp_path) as writer:
        writer.turn(make_outcome(turn=1))
    with (tmp_path / "events.jsonl").open("ab") as file:
        file.write(b'{"type":"turn","session":"' + b"x" * 200_000)
    with EventWriter(tmp_path) as writer:
        writer.turn(make_outcome(turn=2))
    assert [turn.turn for turn in read_turns(tmp_path / "events.jsonl")] == [1, 2]


@pytest.mark.parametrize(
    "damage",
    [b"\x00" * 80, b"{}", b'{"type":"turn","t_ns":"soon"}', b'{"type":"turn",\xff}', b""],
)
def test_other_damage_names_file_and_line(
    tmp_path: Path, make_outcome: Make, damage: bytes
) -> None:
    with EventWriter(tmp_path) as writer:
        writer.run("start")
        writer.turn(make_outcome(turn=1))
    path = tmp_path / "events.jsonl"
    with path.open("ab") as file:
        file.write(damage + b"\n")
    with pytest.raises(DataError, match=r"events\.jsonl:3: damaged line"):
        list(read_turns(path))


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        list(read_turns(tmp_path / "events.jsonl"))


def test_strange_text_survives(tmp_path: Path, make_outcome: Make) -> None:
    with EventWriter(tmp_path) as writer:
        writer.turn(make_outcome(session="a\ud800b", text="tab\t\x00 \u202e end \U0001f600"))
    (turn,) = read_turns(tmp_path / "events.jsonl")
    (output,) = read_outputs(tmp_path / "outputs.jsonl")
    assert turn.session == output.session == r"a\ud800b"
    assert output.text == "tab\t\x00 \u202e end \U0001f600"


class FullDisk:
    """A raw file on a disk that takes `room` more bytes."""

    def __init__(self, file: Any, room: int) -> None:
        self._file = file
        self._room = room

    def write(self, data: memoryview) -> int:
        if self._room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = min(len(data), self._room)
        self._room -= taken
        self._file.write(data[:taken])
        return taken

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_a_full_disk_is_one_line_and_leaves_no_part_of_a_turn(
    tmp_path: Path, make_outcome: Make
) -> None:
    writer = EventWriter(tmp_path)
    writer.turn(make_outcome(turn=1))
    file = writer._events
    file._file = FullDisk(file._file, room=100)  # type: ignore[assignment]
    with pytest.raises(RunFailedError, match=r"events\.jsonl: cannot be written: No space left"):
        writer.turn(make_outcome(turn=2))
    writer.close()
    data = (tmp_path / "events.jsonl").read_bytes()
    assert data.endswith(b"}\n")
    assert [turn.turn for turn in read_turns(tmp_path / "events.jsonl")] == [1]


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunFailedError, match=r"events\.jsonl: cannot be written"):
        EventWriter(tmp_path / "missing")


def test_threads_do_not_mix_their_lines(tmp_path: Path, make_outcome: Make) -> None:
    with EventWriter(tmp_path) as writer:

        def log(name: int) -> None:
            for _ in range(200):
                writer.log("info", f"{name}" * 500)

        threads = [threading.Thread(target=log, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for turn in range(50):
            writer.turn(make_outcome(turn=turn))
        for thread in threads:
            thread.join()
    assert len(list(read_events(tmp_path / "events.jsonl"))) == 850
