"""The same turns once more: by session, and by place in the session."""

from __future__ import annotations

from array import array
from typing import TypeVar

from edge_runner.results.events import TurnEvent
from edge_runner.results.intervals import LEAST_SESSIONS, bootstrap, replicates
from edge_runner.results.schema import Confidence, PositionRow, SessionRow
from edge_runner.results.statistics import nearest_rank

K = TypeVar("K")

ROWS_LIMIT = 1_000
"""Sessions and places beyond this are left out of the tables; the intervals are over all."""


class _Turns:
    """The measured turns of one session, or at one place."""

    __slots__ = ("latency_ns", "output_tokens", "prompt_tokens", "tpot_ns", "ttft_ns")

    def __init__(self) -> None:
        self.latency_ns, self.ttft_ns, self.tpot_ns = array("q"), array("q"), array("q")
        self.prompt_tokens = array("q")
        self.output_tokens = 0

    def add(self, turn: TurnEvent) -> None:
        self.latency_ns.append(turn.latency_ns)
        self.prompt_tokens.append(turn.tokens.prompt)
        self.output_tokens += turn.tokens.output
        if turn.ttft_ns is not None:
            self.ttft_ns.append(turn.ttft_ns)
        if turn.tpot_ns is not None:
            self.tpot_ns.append(turn.tpot_ns)


class SessionTally:
    """Takes measured turns in."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Turns] = {}
        self._positions: dict[int, _Turns] = {}

    def add(self, turn: TurnEvent) -> None:
        _of(self._sessions, turn.session).add(turn)
        if turn.turn <= ROWS_LIMIT:
            _of(self._positions, turn.turn).add(turn)

    def rows(self) -> tuple[SessionRow, ...]:
        return tuple(
            SessionRow(
                session=name,
                turns=len(turns.latency_ns),
                latency_ns=sum(turns.latency_ns),
                ttft_median_ns=_median(turns.ttft_ns),
                output_tokens=turns.output_tokens,
            )
            for name, turns in list(self._sessions.items())[:ROWS_LIMIT]
        )

    def positions(self) -> tuple[PositionRow, ...]:
        return tuple(
            PositionRow(
                turn=number,
                n=len(turns.latency_ns),
                prompt_median_tokens=_median(turns.prompt_tokens) or 0,
                latency_median_ns=_median(turns.latency_ns) or 0,
                ttft_median_ns=_median(turns.ttft_ns),
            )
            for number, turns in sorted(self._positions.items())
        )

    def confidence(self) -> Confidence:
        count = len(self._sessions)
        if count < LEAST_SESSIONS:
            return Confidence(
                sessions=count,
                note=f"too few samples: {count} sessions, intervals need {LEAST_SESSIONS}",
            )
        sessions = self._sessions.values()
        return Confidence(
            sessions=count,
            replicates=replicates(sum(len(turns.latency_ns) for turns in sessions)),
            latency_ns=bootstrap([turns.latency_ns for turns in sessions]),
            ttft_ns=bootstrap([turns.ttft_ns for turns in sessions]),
            tpot_ns=bootstrap([turns.tpot_ns for turns in sessions]),
        )


def _of(tallies: dict[K, _Turns], key: K) -> _Turns:
    turns = tallies.get(key)
    if turns is None:
        turns = tallies[key] = _Turns()
    return turns


def _median(values: array[int]) -> int | None:
    return nearest_rank(sorted(values), 0.5) if values else None
