"""Where every nanosecond of a turn went.

A `TurnTrace` holds one turn's clock. Parts are exclusive: a span inside another span stops the
outer one's clock, so the parts plus `unattributed` always sum to the latency.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic_ns

PARTS = (
    "queue",
    "render",
    "tokenize",
    "prefill",
    "decode",
    "parse",
    "tool",
    "retrieve",
    "rerank",
    "overhead",
    "unattributed",
)
"""The in-turn parts of the ledger, in the order reports show them."""

GAP_PARTS = ("recorded_delay", "idle", "harness")
"""The parts of the time between turns, outside every latency."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of work on the monotonic clock. `part` is one of PARTS."""

    part: str
    name: str
    start_ns: int
    end_ns: int


@dataclass(slots=True)
class _Open:
    part: str
    name: str
    start_ns: int
    inner_ns: int = 0


@dataclass(slots=True)
class TurnTrace:
    """One turn's ledger while it runs. Used by one thread: the one that carries out the turn."""

    start_ns: int = field(default_factory=monotonic_ns)
    ledger_ns: dict[str, int] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    _stack: list[_Open] = field(default_factory=list)

    @contextmanager
    def span(self, part: str, name: str = "") -> Iterator[None]:
        """Charge the block's wall time, less what inner spans take, to `part`."""
        frame = _Open(part, name or part, monotonic_ns())
        self._stack.append(frame)
        try:
            yield
        finally:
            self._stack.pop()
            end_ns = monotonic_ns()
            whole = end_ns - frame.start_ns
            self._charge(part, whole - frame.inner_ns, whole)
            self.spans.append(Span(part, frame.name, frame.start_ns, end_ns))

    def absorb(self, ledger_ns: Mapping[str, int], spans: tuple[Span, ...] = ()) -> None:
        """Take over parts that somebody else (an engine) measured inside this turn."""
        for part, duration_ns in ledger_ns.items():
            self._charge(part, duration_ns, duration_ns)
        self.spans.extend(spans)

    def close(self, end_ns: int) -> dict[str, int]:
        """The finished ledger: every part, with the remainder in `unattributed`, summing exactly
        to `end_ns - start_ns`."""
        ledger = {part: self.ledger_ns.get(part, 0) for part in PARTS}
        ledger["unattributed"] = end_ns - self.start_ns - sum(self.ledger_ns.values())
        return ledger

    def _charge(self, part: str, exclusive_ns: int, whole_ns: int) -> None:
        if part not in PARTS or part == "unattributed":
            raise ValueError(f"{part!r} is not a part of the ledger")
        self.ledger_ns[part] = self.ledger_ns.get(part, 0) + exclusive_ns
        if self._stack:
            self._stack[-1].inner_ns += whole_ns
