"""A run's turns, cut down to what a page can hold. Nothing is left out without being said."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import ceil
from operator import attrgetter
from typing import TypeAlias

from edge_runner.engines import Divergence
from edge_runner.results.events import TurnEvent
from edge_runner.trace import PARTS

BARS_LIMIT = 1_500
POINTS_LIMIT = 2_500
ROWS_LIMIT = 1_500
DIVERGENCES_LIMIT = 200


Group: TypeAlias = tuple[int, str, bool]
"""What keeps turns together: stream, session, and whether they are repeats."""


@dataclass(slots=True)
class Bar:
    """Consecutive turns of one session on one stream: usually one turn, more in a large run."""

    stream: int
    session: str
    repeat: bool
    first: int
    issued_ns: int
    last: int = 0
    turns: int = 0
    latency_ns: int = 0
    ledger_ns: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PARTS, 0))
    prompt: int = 0
    cached: int = 0
    evaluated: int = 0
    new: int = 0
    output: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    divergences: list[Divergence] = field(default_factory=list)

    def add(self, turn: TurnEvent) -> None:
        self.last = turn.turn
        self.turns += 1
        self.latency_ns += turn.latency_ns
        for part, part_ns in turn.ledger_ns.items():
            if part_ns:
                self.ledger_ns[part] = self.ledger_ns.get(part, 0) + part_ns
        tokens = turn.tokens
        self.prompt += tokens.prompt
        self.cached += tokens.cached
        self.evaluated += tokens.evaluated
        self.new += tokens.new
        self.output += tokens.output
        self.statuses[turn.status] += 1
        if turn.divergence is not None:
            self.divergences.append(turn.divergence)

    @property
    def group(self) -> Group:
        return self.stream, self.session, self.repeat


@dataclass(slots=True)
class Turns:
    """What the page shows of `total` turns.

    `bars` cover every turn, up to `per_bar` of a session in one; `points` are every `stride`-th
    turn; `rows` the first ROWS_LIMIT; `diverged` the first DIVERGENCES_LIMIT. All are in order of
    issue within their stream; `numbers` counts the sessions in that order, from 1. `latencies_ns`
    holds every measured turn (see `schema.Summary`).
    """

    total: int = 0
    per_bar: int = 1
    stride: int = 1
    bars: list[Bar] = field(default_factory=list)
    points: list[TurnEvent] = field(default_factory=list)
    rows: list[TurnEvent] = field(default_factory=list)
    diverged: list[TurnEvent] = field(default_factory=list)
    numbers: dict[Group, int] = field(default_factory=dict)
    latencies_ns: array[int] = field(default_factory=lambda: array("q"))

    @classmethod
    def collect(cls, events: Iterable[TurnEvent], expected: int) -> Turns:
        """One pass over `events`; of about `expected` turns, which sets how they are cut down."""
        turns = cls(
            per_bar=max(1, ceil(expected / BARS_LIMIT)),
            stride=max(1, ceil(expected / POINTS_LIMIT)),
        )
        latest: dict[int, Bar] = {}
        for index, turn in enumerate(events):
            turns.total += 1
            turns._place(turn, latest)
            if index % turns.stride == 0:
                turns.points.append(turn)
            if index < ROWS_LIMIT:
                turns.rows.append(turn)
            if turn.divergence is not None and len(turns.diverged) < DIVERGENCES_LIMIT:
                turns.diverged.append(turn)
            if measured(turn):
                turns.latencies_ns.append(turn.latency_ns)
        order = attrgetter("stream", "issued_ns")
        for items in (turns.bars, turns.rows, turns.diverged):
            items.sort(key=order)
        for bar in turns.bars:
            turns.numbers.setdefault(bar.group, len(turns.numbers) + 1)
        return turns

    def _place(self, turn: TurnEvent, latest: dict[int, Bar]) -> None:
        bar = latest.get(turn.stream)
        group = group_of(turn)
        # Sessions have bars of their own, as long as there is room for that.
        apart = bar is not None and bar.group != group and len(self.bars) < 2 * BARS_LIMIT
        if bar is None or bar.turns >= self.per_bar or apart:
            bar = Bar(*group, first=turn.turn, issued_ns=turn.issued_ns)
            latest[turn.stream] = bar
            self.bars.append(bar)
        bar.add(turn)


def sessions_of(rows: Iterable[TurnEvent]) -> Iterator[list[TurnEvent]]:
    """Rows in order, cut where another session begins."""
    session: list[TurnEvent] = []
    for row in rows:
        if session and group_of(session[-1]) != group_of(row):
            yield session
            session = []
        session.append(row)
    if session:
        yield session


def group_of(turn: TurnEvent) -> Group:
    return turn.stream, turn.session, turn.repeat


def measured(turn: TurnEvent) -> bool:
    """Whether the turn is in the summary's series."""
    return not turn.repeat and turn.status in ("completed", "empty")
