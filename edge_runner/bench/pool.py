"""The session pool: which turn a stream takes next, and what lies between two turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from time import monotonic_ns

from edge_runner.engines import Generator
from edge_runner.sessions import Session, SessionPlan, SessionSource, TurnOutcome


@dataclass(frozen=True, slots=True)
class PooledTurn:
    """A turn with its place in the run. `gap_ns`: the time on this stream since the previous turn
    completed, by cause; empty before a stream's first turn. `query_ns`: the latency of the query
    that this turn completed; None when the query goes on."""

    outcome: TurnOutcome
    stream: int
    repeat: bool
    gap_ns: dict[str, int]
    query_ns: int | None = None


@dataclass(frozen=True, slots=True)
class NextTurn:
    """The turn a stream takes next; `issued_ns` is set once it was issued."""

    session: str
    turn: int
    stream: int
    repeat: bool
    issued_ns: int = 0


class Stream:
    """One stream's sessions, in order, again from the start when the list is through."""

    def __init__(
        self, index: int, plans: tuple[SessionPlan, ...], source: SessionSource, engine: Generator
    ) -> None:
        if not plans:
            raise ValueError("a stream needs at least one session")
        self._index = index
        self._source = source
        self._engine = engine
        self._order = self._endless(plans)
        self._session: Session | None = None
        self._repeat = False
        self._turn = 0
        self._completed_ns: int | None = None
        self._delay_ns = 0
        self.in_flight: NextTurn | None = None
        """The turn that was issued and is not recorded yet; whoever records it sets None."""

    @staticmethod
    def _endless(plans: tuple[SessionPlan, ...]) -> Iterator[tuple[SessionPlan, bool]]:
        repeat = False
        while True:
            for plan in plans:
                yield plan, repeat
            repeat = True

    def prepare(self) -> NextTurn:
        """Have a session open whose next turn can be issued. Untimed: between turns."""
        if self._session is None or self.between_sessions:
            self.close()
            plan, self._repeat = next(self._order)
            self._session = self._source.open(plan.id, self._engine)
            self._turn = 0
        self._turn += 1
        self._next = NextTurn(self._session.id, self._turn, self._index, self._repeat)
        return self._next

    def advance(self, issued_ns: int) -> PooledTurn:
        """Carry out this stream's next turn. `prepare` must have been called."""
        assert self._session is not None  # noqa: S101 - prepare() opened it
        self.in_flight = replace(self._next, issued_ns=issued_ns)
        gap_ns: dict[str, int] = {}
        if self._completed_ns is not None:
            whole = issued_ns - self._completed_ns
            gap_ns = {
                "recorded_delay": self._delay_ns,
                "idle": 0,
                "harness": whole - self._delay_ns,
            }
        outcome = self._session.advance(issued_ns)
        self._completed_ns = outcome.completed_ns
        self._delay_ns = 0
        return PooledTurn(outcome, self._index, self._repeat, gap_ns)

    @property
    def between_sessions(self) -> bool:
        """The session is over, or none was opened yet."""
        return self._session is None or self._session.done

    def wait(self, sleep: Callable[[float], object]) -> None:
        """Keep the recorded tool's delay before the next turn, where the workload asks for it."""
        delay_ns = self._session.next_delay_ns if self._session and not self._session.done else 0
        if delay_ns:
            started_ns = monotonic_ns()
            sleep(delay_ns / 1e9)
            self._delay_ns = monotonic_ns() - started_ns

    def cancel(self) -> None:
        if (session := self._session) is not None:
            session.cancel()

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


class SessionPool:
    """All streams of a run. Sessions go to streams longest first; one stream keeps data order."""

    def __init__(self, source: SessionSource, engine: Generator, streams: int = 1) -> None:
        lists: list[list[SessionPlan]] = [[] for _ in range(streams)]
        plans = source.plans
        if streams > 1:
            plans = tuple(sorted(plans, key=lambda plan: -plan.turns))
        for plan in plans:
            min(lists, key=lambda held: sum(one.turns for one in held)).append(plan)
        self.streams = [
            Stream(index, tuple(held), source, engine) for index, held in enumerate(lists)
        ]
        self.sessions = len(plans)
        self.turns = sum(plan.turns for plan in plans)

    def cancel(self) -> None:
        """Stop every turn in flight. From any thread."""
        for stream in self.streams:
            stream.cancel()

    def in_flight(self) -> list[NextTurn]:
        return [turn for stream in self.streams if (turn := stream.in_flight) is not None]

    def close(self) -> None:
        for stream in self.streams:
            stream.close()
