"""Ending a request early: cancel, deadline, close, and an engine that never comes back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic_ns
from typing import Any

import pytest
from llama_cpp_support import OpenEngine, chatter, user

from edge_runner.devices.llama_cpp.engine import LlamaCppGenerator
from edge_runner.devices.llama_cpp.sequence import LlamaCppSequence
from edge_runner.engines import Generation, GenerationRequest
from edge_runner.errors import (
    CancelledError,
    EdgeRunnerError,
    EngineClosedError,
    EngineError,
    EngineUnresponsiveError,
    TurnTimeoutError,
)

HELLO = (user("hello"),)
LONG = (user(chatter(1, 400)),)
PATIENCE_S = 60


class Gate:
    """Stands before the native evaluation: lets `allowed` calls through, then holds the next one
    until `open` is set."""

    def __init__(self, engine: LlamaCppGenerator, allowed: int) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()
        self.calls = 0
        self._allowed = allowed
        self._context: Any = engine.worker._context
        self._decode = self._context._decode
        self._context._decode = self

    def __call__(self, *arguments: Any) -> int:
        self.calls += 1
        if self.calls > self._allowed and not self.open.is_set():
            self.reached.set()
            self.open.wait()
        return int(self._decode(*arguments))


@pytest.fixture
def gate() -> Iterator[Callable[[LlamaCppGenerator, int], Gate]]:
    gates: list[Gate] = []

    def make(engine: LlamaCppGenerator, allowed: int) -> Gate:
        gates.append(Gate(engine, allowed))
        return gates[-1]

    yield make
    for one in gates:
        one.open.set()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


def start(
    pool: ThreadPoolExecutor, sequence: LlamaCppSequence, request: GenerationRequest
) -> Future[Generation]:
    return pool.submit(sequence.generate, request)


def queued(engine: LlamaCppGenerator) -> None:
    """Wait until a request waits for the one in flight."""
    give_up_ns = monotonic_ns() + PATIENCE_S * 10**9
    while not engine.worker._jobs:
        assert monotonic_ns() < give_up_ns
        threading.Event().wait(0.001)


@pytest.mark.parametrize("allowed", [1, 12])
def test_cancel_stops_before_the_next_step(
    open_engine: OpenEngine, gate: Any, pool: ThreadPoolExecutor, allowed: int
) -> None:
    """In the second prefill step, and in decode (the prompt takes fewer than 12 steps)."""
    engine = open_engine(batch_tokens=256)
    sequence = engine.open_sequence()
    whole = sequence.generate(GenerationRequest(LONG, max_tokens=40))
    assert 256 < whole.usage.prompt < 12 * 256
    sequence.reset()
    at = gate(engine, allowed)
    running = start(pool, sequence, GenerationRequest(LONG, max_tokens=40))
    assert at.reached.wait(PATIENCE_S)
    sequence.cancel()
    at.open.set()
    with pytest.raises(CancelledError):
        running.result(PATIENCE_S)
    assert at.calls == allowed + 1
    after = sequence.generate(GenerationRequest(LONG, max_tokens=40))
    assert after.text == whole.text
    assert after.usage.cached > 0


def test_cancel_without_a_request_does_nothing(open_engine: OpenEngine) -> None:
    sequence = open_engine().open_sequence()
    sequence.cancel()
    assert sequence.generate(GenerationRequest(HELLO, max_tokens=2)).usage.output == 2


def test_cancel_from_the_callback(open_engine: OpenEngine) -> None:
    sequence = open_engine().open_sequence()
    with pytest.raises(CancelledError):
        sequence.generate(GenerationRequest(HELLO, max_tokens=50), lambda _: sequence.cancel())
    assert sequence.generate(GenerationRequest(HELLO, max_tokens=2)).usage.output == 2


def test_an_error_of_the_callback_reaches_the_caller(open_engine: OpenEngine) -> None:
    sequence = open_engine().open_sequence()
    whole = sequence.generate(GenerationRequest(HELLO, max_tokens=9))

    def broken(_event: object) -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        sequence.generate(GenerationRequest(HELLO, max_tokens=9), broken)
    assert sequence.generate(GenerationRequest(HELLO, max_tokens=9)).text == whole.text


def test_deadline(open_engine: OpenEngine, gate: Any, pool: ThreadPoolExecutor) -> None:
    engine = open_engine()
    sequence = engine.open_sequence()
    with pytest.raises(TurnTimeoutError, match="before it began"):
        sequence.generate(GenerationRequest(HELLO, deadline_ns=monotonic_ns()))
    at = gate(engine, 1)
    request = GenerationRequest(HELLO, max_tokens=40, deadline_ns=monotonic_ns() + 500_000_000)
    running = start(pool, sequence, request)
    assert at.reached.wait(PATIENCE_S)
    while monotonic_ns() < (request.deadline_ns or 0):
        threading.Event().wait(0.01)
    at.open.set()
    with pytest.raises(TurnTimeoutError):
        running.result(PATIENCE_S)
    assert sequence.generate(GenerationRequest(HELLO, max_tokens=2)).usage.output == 2


def test_a_waiting_request_leaves_at_its_deadline(
    open_engine: OpenEngine, gate: Any, pool: ThreadPoolExecutor
) -> None:
    engine = open_engine(sequences=2)
    busy, waiting = engine.open_sequence(), engine.open_sequence()
    at = gate(engine, 0)
    running = start(pool, busy, GenerationRequest(HELLO, max_tokens=2))
    assert at.reached.wait(PATIENCE_S)
    soon_ns = monotonic_ns() + 100_000_000
    with pytest.raises(TurnTimeoutError):
        waiting.generate(GenerationRequest(HELLO, deadline_ns=soon_ns))
    at.open.set()
    assert running.result(PATIENCE_S).usage.output == 2
    assert waiting.generate(GenerationRequest(HELLO, max_tokens=2)).ledger_ns["queue"] > 0


def test_an_engine_that_never_comes_back(
    open_engine: OpenEngine, gate: Any, pool: ThreadPoolExecutor
) -> None:
    engine = open_engine(sequences=2)
    sequence = engine.open_sequence()
    engine.grace_floor_s = 0.05
    at = gate(engine, 0)
    request = GenerationRequest(HELLO, deadline_ns=monotonic_ns() + 50_000_000)
    with pytest.raises(EngineUnresponsiveError, match="did not come back within"):
        sequence.generate(request)
    assert at.reached.is_set()
    for call in (
        lambda: sequence.generate(GenerationRequest(HELLO)),
        engine.open_sequence,
    ):
        with pytest.raises(EngineUnresponsiveError):
            call()
    sequence.close()
    engine.close()
    assert engine.worker._thread.daemon


def test_a_cancelled_request_of_a_hung_engine_comes_back(
    open_engine: OpenEngine, gate: Any, pool: ThreadPoolExecutor
) -> None:
    engine = open_engine()
    sequence = engine.open_sequence()
    engine.grace_floor_s = 0.05
    at = gate(engine, 0)
    running = start(pool, sequence, GenerationRequest(HELLO))
    assert at.reached.wait(PATIENCE_S)
    sequence.cancel()
    with pytest.raises(EngineUnresponsiveError):
        running.result(PATIENCE_S)


def test_a_failed_evaluation_leaves_the_sequence_cold_and_usable(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine()
    sequence = engine.open_sequence()
    whole = sequence.generate(GenerationRequest(LONG, max_tokens=9))
    context: Any = engine.worker._context
    for code, message in ((1, "no room in the KV cache"), (-3, "error -3")):
        with monkeypatch.context() as patch:
            patch.setattr(context, "_decode", lambda *_, code=code: code)
            with pytest.raises(EngineError, match=message):
                sequence.generate(GenerationRequest(LONG, max_tokens=9))

    def broken(*_: object) -> int:
        raise OSError("access violation")

    with monkeypatch.context() as patch:
        patch.setattr(context, "_decode", broken)
        with pytest.raises(EngineError, match="access violation"):
            sequence.generate(GenerationRequest(LONG, max_tokens=9))
    again = sequence.generate(GenerationRequest(LONG, max_tokens=9))
    assert again.usage.cached == 0
    assert again.divergence is None
    assert again.text == whole.text


def test_use_after_close(open_engine: OpenEngine) -> None:
    engine = open_engine(sequences=2)
    closed, sequence = engine.open_sequence(), engine.open_sequence()
    closed.close()
    with pytest.raises(EngineClosedError):
        closed.generate(GenerationRequest(HELLO))
    engine.close()
    engine.close()
    assert not engine.worker._thread.is_alive()
    with pytest.raises(EngineClosedError):
        sequence.generate(GenerationRequest(HELLO))
    with pytest.raises(EngineClosedError):
        engine.open_sequence()
    sequence.cancel()
    sequence.reset()
    sequence.close()


def test_close_in_mid_turn(open_engine: OpenEngine, gate: Any, pool: ThreadPoolExecutor) -> None:
    engine = open_engine(sequences=2)
    first, second = engine.open_sequence(), engine.open_sequence()
    at = gate(engine, 2)
    running = start(pool, first, GenerationRequest(HELLO, max_tokens=40))
    assert at.reached.wait(PATIENCE_S)
    waiting = start(pool, second, GenerationRequest(HELLO, max_tokens=40))
    queued(engine)
    closing = pool.submit(engine.close)
    with pytest.raises(EngineClosedError):
        waiting.result(PATIENCE_S)
    at.open.set()
    with pytest.raises(EngineClosedError):
        running.result(PATIENCE_S)
    closing.result(PATIENCE_S)
    assert not engine.worker._thread.is_alive()


def test_closing_a_sequence_in_mid_turn_gives_its_place_back(
    open_engine: OpenEngine, gate: Any, pool: ThreadPoolExecutor
) -> None:
    engine = open_engine()
    sequence = engine.open_sequence()
    at = gate(engine, 2)
    running = start(pool, sequence, GenerationRequest(HELLO, max_tokens=40))
    assert at.reached.wait(PATIENCE_S)
    sequence.close()
    at.open.set()
    with pytest.raises(EngineClosedError):
        running.result(PATIENCE_S)
    assert engine.open_sequence().generate(GenerationRequest(HELLO, max_tokens=2)).usage.output


def test_one_request_at_a_time(
    open_engine: OpenEngine, gate: Any, pool: ThreadPoolExecutor
) -> None:
    engine = open_engine()
    sequence = engine.open_sequence()
    at = gate(engine, 0)
    running = start(pool, sequence, GenerationRequest(HELLO, max_tokens=2))
    assert at.reached.wait(PATIENCE_S)
    for call in (lambda: sequence.generate(GenerationRequest(HELLO)), sequence.reset):
        with pytest.raises(EngineError, match="in flight"):
            call()
    at.open.set()
    assert running.result(PATIENCE_S).usage.output == 2


def test_four_threads(open_engine: OpenEngine, pool: ThreadPoolExecutor) -> None:
    engine = open_engine(sequences=4)
    requests = [GenerationRequest((user(chatter(seed, 40)),), max_tokens=20) for seed in range(4)]
    alone = []
    for request in requests:
        sequence = engine.open_sequence()
        alone.append(sequence.generate(request).text)
        sequence.close()

    def several(request: GenerationRequest) -> list[str]:
        sequence = engine.open_sequence()
        texts = []
        for _ in range(5):
            sequence.reset()
            texts.append(sequence.generate(request).text)
        sequence.close()
        return texts

    for text, texts in zip(alone, pool.map(several, requests), strict=True):
        assert texts == [text] * 5


def test_close_races_with_requests(open_engine: OpenEngine, pool: ThreadPoolExecutor) -> None:
    """Every request ends with a result or one of our errors; nothing crashes."""
    for _ in range(5):
        engine = open_engine(sequences=4)

        def until_closed(engine: LlamaCppGenerator = engine) -> bool:
            try:
                sequence = engine.open_sequence()
                while True:
                    sequence.generate(GenerationRequest(LONG, max_tokens=3))
                    sequence.reset()
            except EdgeRunnerError as error:
                return isinstance(error, EngineClosedError)

        running = [pool.submit(until_closed) for _ in range(4)]
        queued(engine)
        engine.close()
        assert all(one.result(PATIENCE_S) for one in running)
