"""The lines of `events.jsonl` and `outputs.jsonl`, how they are written and read back.

Every line of `events.jsonl` starts with its `type`, so a reader skips what it does not need
without parsing it. Times (`t_ns` and all `*_ns` that are not durations) are `time.monotonic_ns()`
of the worker: comparable within a run, meaningless between runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Lock
from time import monotonic_ns
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec
from msgspec import Struct

from edge_runner.engines import Divergence, Usage
from edge_runner.errors import DataError, RunFailedError
from edge_runner.messages import ToolCall
from edge_runner.results.files import encode
from edge_runner.sessions import TurnOutcome, TurnStatus
from edge_runner.trace import GAP_PARTS

EVENTS_FILE = "events.jsonl"
OUTPUTS_FILE = "outputs.jsonl"


class TurnEvent(Struct, frozen=True, kw_only=True, tag_field="type", tag="turn"):
    """One turn, whole. `ttft_ns` and `first_delta_ns` count from `issued_ns`.

    `tpot_ns` = (last token - first token) / (output tokens - 1), None below two tokens. MLPerf's
    reference divides (completion - first chunk) by the tokens after the first chunk, which also
    charges the end of the turn to its tokens; token times do not. All three are None unless the
    turn completed: an empty or failed turn has no first token that a user waited for.

    `query_ns` is the latency of LoadGen's query that this turn completed: with unit `turn` about
    the turn's own, with unit `session` the whole session's, None when the query goes on.

    `gap_ns` is the time before this turn's issue since the stream's previous completion;
    `overlap_ns` is work done meanwhile, which is in no other number. `repeat`: the list had been
    carried out once already.
    """

    t_ns: int
    session: str
    turn: int
    stream: int
    status: TurnStatus
    repeat: bool
    issued_ns: int
    completed_ns: int
    latency_ns: int
    ttft_ns: int | None
    first_delta_ns: int | None
    tpot_ns: int | None
    tokens: Usage
    ledger_ns: dict[str, int]
    gap_ns: dict[str, int]
    overlap_ns: int
    divergence: Divergence | None
    finish: str | None
    error: str | None
    scores: dict[str, float | None]
    query_ns: int | None = None

    @classmethod
    def of(
        cls,
        outcome: TurnOutcome,
        *,
        stream: int = 0,
        repeat: bool = False,
        gap_ns: Mapping[str, int] | None = None,
        overlap_ns: int = 0,
        query_ns: int | None = None,
    ) -> Self:
        completed = outcome.status == "completed"
        first, last, tokens = outcome.first_token_ns, outcome.last_token_ns, outcome.usage.output
        delta = outcome.first_delta_ns
        tpot_ns = None
        if completed and first is not None and last is not None and tokens >= 2:
            tpot_ns = round((last - first) / (tokens - 1))
        return cls(
            t_ns=outcome.completed_ns,
            session=outcome.session,
            turn=outcome.turn,
            stream=stream,
            status=outcome.status,
            repeat=repeat,
            issued_ns=outcome.issued_ns,
            completed_ns=outcome.completed_ns,
            latency_ns=outcome.latency_ns,
            ttft_ns=first - outcome.issued_ns if completed and first is not None else None,
            first_delta_ns=delta - outcome.issued_ns if completed and delta is not None else None,
            tpot_ns=tpot_ns,
            tokens=outcome.usage,
            ledger_ns=dict(outcome.ledger_ns),
            gap_ns=dict.fromkeys(GAP_PARTS, 0) | dict(gap_ns or {}),
            overlap_ns=overlap_ns,
            divergence=outcome.divergence,
            finish=outcome.finish_reason,
            error=outcome.error,
            scores=dict(outcome.scores),
            query_ns=query_ns,
        )


class SpanEvent(Struct, frozen=True, kw_only=True, tag_field="type", tag="span"):
    """A stretch of work inside a turn. `t_ns` is its end."""

    t_ns: int
    session: str
    turn: int
    stream: int
    part: str
    name: str
    start_ns: int
    end_ns: int


class RunEvent(Struct, frozen=True, kw_only=True, tag_field="type", tag="run"):
    """A step of the run itself, such as "load", "warm-up", "start", "end", "clock"."""

    t_ns: int
    event: str
    data: dict[str, Any]


class SensorEvent(Struct, frozen=True, kw_only=True, tag_field="type", tag="sensor"):
    """One reading of a sensor."""

    t_ns: int
    sensor: str
    value: float
    unit: str


class LogEvent(Struct, frozen=True, kw_only=True, tag_field="type", tag="log"):
    """A line some part of the run (a native library, say) wrote."""

    t_ns: int
    level: str
    text: str


Event = TurnEvent | SpanEvent | RunEvent | SensorEvent | LogEvent


class Output(Struct, frozen=True, kw_only=True):
    """One row of `outputs.jsonl`: what the model said in one turn."""

    session: str
    turn: int
    stream: int
    repeat: bool
    text: str
    reasoning: str
    tool_calls: tuple[ToolCall, ...]
    finish: str | None


class EventWriter:
    """Appends a run's events and outputs. Safe to use from several threads.

    Each call is one write a file, handed to the operating system at once: a killed process loses
    nothing that was written. Raises RunFailedError naming the file when the disk refuses.
    """

    def __init__(self, folder: Path) -> None:
        self._lock = Lock()
        self._events = _LineFile(folder / EVENTS_FILE)
        self._outputs = _LineFile(folder / OUTPUTS_FILE)

    def turn(
        self,
        outcome: TurnOutcome,
        *,
        stream: int = 0,
        repeat: bool = False,
        gap_ns: Mapping[str, int] | None = None,
        overlap_ns: int = 0,
        query_ns: int | None = None,
    ) -> TurnEvent:
        """Write one turn, its spans and its output. `gap_ns` has trace.GAP_PARTS as keys."""
        event = TurnEvent.of(
            outcome,
            stream=stream,
            repeat=repeat,
            gap_ns=gap_ns,
            overlap_ns=overlap_ns,
            query_ns=query_ns,
        )
        spans = [
            SpanEvent(
                t_ns=span.end_ns,
                session=outcome.session,
                turn=outcome.turn,
                stream=stream,
                part=span.part,
                name=span.name,
                start_ns=span.start_ns,
                end_ns=span.end_ns,
            )
            for span in outcome.spans
        ]
        output = Output(
            session=outcome.session,
            turn=outcome.turn,
            stream=stream,
            repeat=repeat,
            text=outcome.text,
            reasoning=outcome.reasoning,
            tool_calls=outcome.tool_calls,
            finish=outcome.finish_reason,
        )
        with self._lock:
            # The output first: a turn that counts always has its output.
            self._outputs.append(_line(output))
            self._events.append(b"".join(map(_line, spans)) + _line(event))
        return event

    def run(self, event: str, **data: Any) -> None:
        """Write a step of the run; `data` must be JSON-able."""
        self._append(RunEvent(t_ns=monotonic_ns(), event=event, data=data))

    def sensor(self, sensor: str, value: float, unit: str) -> None:
        self._append(SensorEvent(t_ns=monotonic_ns(), sensor=sensor, value=value, unit=unit))

    def log(self, level: str, text: str) -> None:
        self._append(LogEvent(t_ns=monotonic_ns(), level=level, text=text))

    def close(self) -> None:
        """Safe to call twice."""
        with self._lock:
            self._events.close()
            self._outputs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _append(self, event: Event) -> None:
        line = _line(event)
        with self._lock:
            self._events.append(line)


def read_turns(path: Path) -> Iterator[TurnEvent]:
    """The turns of an `events.jsonl`, one at a time, in the order they completed.

    A last line that was cut (the run was killed) is left out. Raises DataError naming file and
    line for any other damage, and when the file cannot be read.
    """
    return _decode(path, _TURN_DECODER, _lines(path, _TURN_PREFIX))


def read_events(path: Path) -> Iterator[Event]:
    """Every event, on the terms of `read_turns`."""
    return _decode(path, _EVENT_DECODER, _lines(path, _PREFIX))


def read_outputs(path: Path) -> Iterator[Output]:
    """The rows of an `outputs.jsonl`, on the terms of `read_turns`."""
    return _decode(path, _OUTPUT_DECODER, _lines(path, b"{", b"{"))


def turn_lines(path: Path) -> Iterator[bytes]:
    """The lines that `read_turns` decodes, as they are."""
    return (line for _, line in _lines(path, _TURN_PREFIX))


_PREFIX = b'{"type":"'
_TURN_PREFIX = b'{"type":"turn",'
_TURN_DECODER = msgspec.json.Decoder(TurnEvent)
_EVENT_DECODER = msgspec.json.Decoder[Event](Event)
_OUTPUT_DECODER = msgspec.json.Decoder(Output)

T = TypeVar("T")


def _decode(
    path: Path, decoder: msgspec.json.Decoder[T], lines: Iterator[tuple[int, bytes]]
) -> Iterator[T]:
    for number, line in lines:
        try:
            yield decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DataError(f"{path}:{number}: damaged line: {error}") from None


def _lines(path: Path, wanted: bytes, prefix: bytes = _PREFIX) -> Iterator[tuple[int, bytes]]:
    """The whole lines that start with `wanted`, numbered from 1; all must start with `prefix`.
    Only the last line can be without its newline."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.startswith(wanted):
                    if line.startswith(prefix) or not line.endswith(b"\n"):
                        continue
                    raise DataError(f"{path}:{number}: damaged line: not written by a run")
                if line.endswith(b"\n"):
                    yield number, line
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None


def _line(row: Event | Output) -> bytes:
    return encode(row) + b"\n"


class _LineFile:
    """A file of whole lines, opened to append. A write that fails leaves no part of a line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = path.open("a+b", buffering=0)
            self._size = self._drop_cut_line()
        except OSError as error:
            raise RunFailedError(f"{path}: cannot be written: {error.strerror}") from None

    def append(self, lines: bytes) -> None:
        rest = memoryview(lines)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._file.truncate(self._size)
            raise RunFailedError(
                f"{self._path}: cannot be written: {error.strerror}; what was measured is kept"
            ) from None
        self._size += len(lines)

    def close(self) -> None:
        self._file.close()

    def _drop_cut_line(self) -> int:
        """The size in bytes after a line that a killed writer left cut is taken off."""
        size = self._file.seek(0, os.SEEK_END)
        whole = size
        while whole:
            start = max(0, whole - 65_536)
            self._file.seek(start)
            newline = self._file.read(whole - start).rfind(b"\n")
            whole = start + newline + 1 if newline >= 0 else start
            if newline >= 0:
                break
        if whole < size:
            self._file.truncate(whole)
        return whole
