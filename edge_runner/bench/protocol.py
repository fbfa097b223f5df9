"""What the parent and the worker process say to each other: one JSON object a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from edge_runner.assets import DataRef, ModelRef


class Job(msgspec.Struct, tag="job", frozen=True):
    """The parent's first line: everything a run needs, resolved."""

    config: dict[str, Any]
    folder: str
    data: DataRef
    model: ModelRef | None = None


class Stop(msgspec.Struct, tag="stop", frozen=True):
    """Stop now: cancel the turn in flight, keep what was measured. End of input means the same."""


class Phase(msgspec.Struct, tag="phase", frozen=True):
    """`load`, `warm-up`, `run`: what the worker begins."""

    name: Literal["load", "warm-up", "run"]


class Engine(msgspec.Struct, tag="engine", frozen=True):
    """The engine that was loaded: EngineInfo and capabilities, as plain data."""

    info: dict[str, Any]
    capabilities: dict[str, Any]


class Settings(msgspec.Struct, tag="settings", frozen=True):
    """LoadGen's effective settings, before the start."""

    loadgen: dict[str, Any]
    expected_turns: int
    outlook: str | None = None


class TurnStarting(msgspec.Struct, tag="starting", frozen=True):
    """The turn a stream carries out next. If the worker dies, this turn failed with it."""

    session: str
    turn: int
    stream: int
    repeat: bool


class TurnDone(msgspec.Struct, tag="turn", frozen=True):
    """A turn was carried out; `done` of about `total`. `query_ns`: see bench.pool.PooledTurn."""

    done: int
    total: int
    session: str
    turn: int
    stream: int
    status: str
    latency_ns: int
    query_ns: int | None
    ttft_ns: int | None
    prompt_tokens: int
    output_tokens: int
    repeat: bool
    error: str | None = None


class Ended(msgspec.Struct, tag="ended", frozen=True):
    """The worker's last line. `error` and `exit_code` say why a run failed; `clock_drift_ns` is
    how much further the wall clock went than the monotonic one while LoadGen measured."""

    status: Literal["completed", "aborted", "failed"]
    error: str | None = None
    exit_code: int = 0
    clock_drift_ns: int = 0


FromParent = Job | Stop
FromWorker = Phase | Engine | Settings | TurnStarting | TurnDone | Ended


def _text_to_path(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    raise TypeError(f"{kind} is not part of the protocol")


encode = msgspec.json.Encoder(enc_hook=str).encode  # str: paths
decode_from_parent = msgspec.json.Decoder(FromParent, dec_hook=_text_to_path).decode
decode_from_worker = msgspec.json.Decoder(FromWorker).decode
