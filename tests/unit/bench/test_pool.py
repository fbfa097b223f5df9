from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from edge_runner.bench.pool import SessionPool
from edge_runner.devices.scripted import ScriptedGenerator
from edge_runner.sessions import SessionPlan, TurnOutcome


@dataclass
class CountedSession:
    """Takes its planned turns; turn `fails` fails and ends it."""

    id: str
    turns: int
    fails: int = 0
    taken: int = 0
    closed: bool = False
    next_delay_ns: int = 0

    @property
    def done(self) -> bool:
        return self.taken >= self.turns or (self.fails > 0 and self.taken >= self.fails)

    def advance(self, issued_ns: int | None = None, on_token: Any = None) -> TurnOutcome:
        assert not self.done
        self.taken += 1
        status: Any = "failed" if self.taken == self.fails else "completed"
        start = issued_ns or 0
        return TurnOutcome(self.id, self.taken, status, start, start + 5, {})

    def cancel(self) -> None: ...

    def close(self) -> None:
        self.closed = True


@dataclass
class CountedSource:
    plans: tuple[SessionPlan, ...]
    fails: dict[str, int] = field(default_factory=dict)
    opened: list[CountedSession] = field(default_factory=list)
    data_name: str = "counted"
    data_sha256: str = ""

    def open(self, session_id: str, generator: Any) -> CountedSession:
        turns = next(plan.turns for plan in self.plans if plan.id == session_id)
        self.opened.append(CountedSession(session_id, turns, self.fails.get(session_id, 0)))
        return self.opened[-1]

    def warm_up(self, generator: Any) -> Any:
        raise AssertionError("not here")


def pool_of(turns: dict[str, int], streams: int = 1, **more: Any) -> tuple[SessionPool, Any]:
    source = CountedSource(tuple(SessionPlan(name, count) for name, count in turns.items()), **more)
    return SessionPool(source, ScriptedGenerator(), streams), source


def take(pool: SessionPool, count: int, stream: int = 0) -> list[tuple[str, int, bool]]:
    taken = []
    for index in range(count):
        announced = pool.streams[stream].prepare()
        turn = pool.streams[stream].advance(issued_ns=100 * (index + 1))
        assert (announced.session, announced.turn) == (turn.outcome.session, turn.outcome.turn)
        taken.append((turn.outcome.session, turn.outcome.turn, turn.repeat))
    return taken


def test_one_stream_keeps_data_order_and_starts_again_as_repeats() -> None:
    pool, source = pool_of({"a": 1, "b": 2})
    assert take(pool, 5) == [
        ("a", 1, False), ("b", 1, False), ("b", 2, False), ("a", 1, True), ("b", 1, True),
    ]  # fmt: skip
    assert all(session.closed for session in source.opened[:-1])


def test_a_failed_turn_ends_its_session_and_the_next_begins() -> None:
    pool, _ = pool_of({"a": 3, "b": 1}, fails={"a": 2})
    assert [row[:2] for row in take(pool, 3)] == [("a", 1), ("a", 2), ("b", 1)]


def test_sessions_go_to_streams_longest_first() -> None:
    pool, _ = pool_of({"a": 1, "b": 5, "c": 3, "d": 2}, streams=2)
    assert [take(pool, 1, stream)[0][0] for stream in (0, 1)] == ["b", "c"]
    assert [row[0] for row in take(pool, 5, 1)] == ["c", "c", "d", "d", "c"]


def test_the_gap_between_turns_is_the_harness_less_the_recorded_delay() -> None:
    pool, source = pool_of({"a": 3})
    stream = pool.streams[0]
    stream.prepare()
    assert stream.advance(issued_ns=100).gap_ns == {}
    source.opened[0].next_delay_ns = 1
    slept: list[float] = []
    stream.wait(slept.append)
    stream.prepare()
    gap = stream.advance(issued_ns=10_000_000_000).gap_ns
    assert len(slept) == 1
    assert gap["recorded_delay"] > 0
    assert sum(gap.values()) == 10_000_000_000 - 105


def test_what_is_in_flight_can_be_seen_only_while_it_is() -> None:
    pool, source = pool_of({"a": 1})
    stream = pool.streams[0]
    stream.prepare()
    seen: list[Any] = []
    session = source.opened[0]
    advance = session.advance
    session.advance = lambda issued: seen.extend(pool.in_flight()) or advance(issued)
    stream.advance(issued_ns=7)
    stream.in_flight = None  # whoever records the turn says so
    assert [(turn.session, turn.turn, turn.issued_ns) for turn in seen] == [("a", 1, 7)]
    assert pool.in_flight() == []
