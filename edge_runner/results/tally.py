"""One pass over a run's turns, in memory that grows by a few hundred bytes a turn."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import fields
from operator import attrgetter

from msgspec.structs import replace

from edge_runner.engines import Usage
from edge_runner.results.events import TurnEvent
from edge_runner.results.schema import (
    DepthName,
    DepthSummary,
    Divergences,
    Failure,
    Harness,
    Rates,
    Slo,
    TurnCounts,
)
from edge_runner.results.session_tally import SessionTally
from edge_runner.results.statistics import Series, summarize_series
from edge_runner.trace import GAP_PARTS, PARTS

DEPTHS: tuple[tuple[DepthName, float], ...] = (
    ("0-4k", 4096),
    ("4-12k", 12_288),
    ("12k+", float("inf")),
)
"""Ranges of prompt tokens, each with the first count beyond it."""

SERIES = ("latency_ns", "ttft_ns", "first_delta_ns", "tpot_ns", "overhead_ns", "unattributed_ns")
TOKENS = tuple(field.name for field in fields(Usage))
FAILURES_LISTED = 20
NO_SLO = Slo()


class DepthTally:
    """The measured turns of one range of depth."""

    def __init__(self) -> None:
        self.series = {name: array("q") for name in SERIES}
        self.tokens = dict.fromkeys(TOKENS, 0)
        self.ledger_ns = dict.fromkeys(PARTS, 0)

    def add(self, turn: TurnEvent) -> None:
        for values, value in zip(self.series.values(), _series_of(turn), strict=True):
            if value is not None:
                values.append(value)
        tokens, ledger_ns = self.tokens, self.ledger_ns
        for name, count in zip(TOKENS, _tokens_of(turn.tokens), strict=True):
            tokens[name] += count
        for part, duration_ns in turn.ledger_ns.items():
            if duration_ns:
                ledger_ns[part] = ledger_ns.get(part, 0) + duration_ns

    def summary(self) -> DepthSummary:
        return DepthSummary(
            rates=self.rates(),
            **{name: summarize_series(values) for name, values in self.series.items()},
        )

    def rates(self) -> Rates:
        tokens, ledger_ns = self.tokens, self.ledger_ns
        return Rates(
            prefill_tokens_per_s=_rate(tokens["evaluated"], ledger_ns["prefill"]),
            decode_tokens_per_s=_rate(tokens["output"], ledger_ns["decode"]),
            cached_share=_ratio(tokens["cached"], tokens["prompt"]),
            evaluated_per_new=_ratio(tokens["evaluated"], tokens["new"]),
        )

    @classmethod
    def merged(cls, parts: Iterable[DepthTally]) -> DepthTally:
        whole = cls()
        for part in parts:
            for name, values in part.series.items():
                whole.series[name].extend(values)
            for total, more in ((whole.tokens, part.tokens), (whole.ledger_ns, part.ledger_ns)):
                for key, value in more.items():
                    total[key] = total.get(key, 0) + value
        return whole


class Tally:
    """Takes turns in; gives what a summary needs. Which turns enter what: see `schema.Summary`."""

    def __init__(self, slo: Slo = NO_SLO) -> None:
        self.depths = {name: DepthTally() for name, _ in DEPTHS}
        self.sessions = SessionTally()
        self._slo = slo
        self._within_slo = 0
        self.statuses = Counter[str]()
        self.repeated = 0
        self.repeated_failed = 0
        self.failures: list[Failure] = []
        self._query_latencies_ns = array("q")
        self.gap_ns = dict.fromkeys(GAP_PARTS, 0)
        self.overlap_ns = 0
        self.answered = 0
        self.output_tokens = 0
        self._harness_ns = array("q")
        self._diverged = Counter[str]()
        self._scores: defaultdict[str, list[float]] = defaultdict(lambda: [0, 0.0])
        self._seen: defaultdict[str, set[int]] = defaultdict(set)
        self._defects: dict[str, tuple[int, str]] = {}
        self._first_issue_ns: int | None = None
        self._last_completion_ns = 0

    def add(self, turn: TurnEvent) -> None:
        answered = turn.status in ("completed", "empty")
        self._count(turn, answered)
        self._check(turn, answered)
        if turn.repeat:
            return
        for name, score in turn.scores.items():
            if score is not None:
                total = self._scores[name]
                total[0] += 1
                total[1] += score
        if answered:
            self._measure(turn)

    def counts(self, expected: int | None) -> TurnCounts:
        return TurnCounts(
            expected=expected,
            issued=self.statuses.total(),
            repeated=self.repeated,
            repeated_failed=self.repeated_failed,
            **{name: self.statuses[name] for name in ("completed", "empty", "failed", "aborted")},
        )

    @property
    def duration_ns(self) -> int:
        """From the first issue to the last completion, 0 when nothing was issued."""
        start_ns = self._first_issue_ns
        return 0 if start_ns is None else self._last_completion_ns - start_ns

    def scores(self) -> dict[str, float]:
        return {name: round(total / n, 4) for name, (n, total) in sorted(self._scores.items())}

    def slo(self, expected: int | None) -> Slo:
        """The objective with its attainment; without limits, or without turns, it has none."""
        turns = max(expected or 0, self.statuses.total())
        if not turns or (self._slo.ttft_ms is None and self._slo.tpot_ms is None):
            return self._slo
        return replace(self._slo, attainment=_ratio(self._within_slo, turns))

    def divergences(self) -> Divergences:
        return Divergences(turns=self._diverged.total(), reasons=dict(self._diverged.most_common()))

    def query_latency(self) -> Series:
        return summarize_series(self._query_latencies_ns)

    def harness(self) -> Harness:
        latency_ns = sum(sum(depth.series["latency_ns"]) for depth in self.depths.values())
        return Harness(
            per_turn_ns=summarize_series(self._harness_ns),
            share=_ratio(sum(self._harness_ns), latency_ns, digits=6),
        )

    def warnings(self) -> Iterator[str]:
        """The invariants that some turn broke, one line each."""
        for defect, (count, first) in self._defects.items():
            yield f"{count} {'turn' if count == 1 else 'turns'} with {defect}; first: {first}"

    def _count(self, turn: TurnEvent, answered: bool) -> None:
        if turn.query_ns is not None:
            self._query_latencies_ns.append(turn.query_ns)
        if self._first_issue_ns is None or turn.issued_ns < self._first_issue_ns:
            self._first_issue_ns = turn.issued_ns
        self._last_completion_ns = max(self._last_completion_ns, turn.completed_ns)
        if answered:
            self.answered += 1
            self.output_tokens += turn.tokens.output
        if turn.status == "failed" and len(self.failures) < FAILURES_LISTED:
            error = turn.error or "no reason given"
            self.failures.append(Failure(session=turn.session, turn=turn.turn, error=error))
        if turn.repeat:
            self.repeated += 1
            self.repeated_failed += not answered
        else:
            self.statuses[turn.status] += 1

    def _measure(self, turn: TurnEvent) -> None:
        prompt = turn.tokens.prompt
        depth = next(name for name, beyond in DEPTHS if prompt < beyond)
        self.depths[depth].add(turn)
        self.sessions.add(turn)
        self._within_slo += turn.status == "completed" and within(self._slo, turn)
        for part, duration_ns in turn.gap_ns.items():
            self.gap_ns[part] = self.gap_ns.get(part, 0) + duration_ns
        self.overlap_ns += turn.overlap_ns
        self._harness_ns.append(
            turn.ledger_ns.get("overhead", 0)
            + turn.ledger_ns.get("unattributed", 0)
            + turn.gap_ns.get("harness", 0)
        )
        if turn.divergence is not None:
            self._diverged[turn.divergence.reason] += 1

    def _check(self, turn: TurnEvent, answered: bool) -> None:
        if sum(turn.ledger_ns.values()) != turn.latency_ns:
            self._defect("a ledger that does not sum to the latency", turn)
        if min(turn.ledger_ns.values(), default=0) < 0:
            self._defect("a negative ledger part (time charged twice)", turn)
        tokens = turn.tokens
        if answered and tokens.cached + tokens.evaluated != tokens.prompt:
            self._defect("cached + evaluated tokens other than the prompt's", turn)
        if not turn.repeat:
            seen = self._seen[turn.session]
            if turn.turn in seen:
                self._defect("a number already used in its session, not a repeat", turn)
            seen.add(turn.turn)

    def _defect(self, what: str, turn: TurnEvent) -> None:
        count, first = self._defects.get(what, (0, f"session {turn.session}, turn {turn.turn}"))
        self._defects[what] = (count + 1, first)


def within(slo: Slo, turn: TurnEvent) -> bool:
    """Does a completed turn keep every limit given? Too short for a TPOT keeps that one."""
    limits = ((slo.ttft_ms, turn.ttft_ns), (slo.tpot_ms, turn.tpot_ns or 0))
    return all(
        limit_ms is None or (value_ns is not None and value_ns <= limit_ms * 1e6)
        for limit_ms, value_ns in limits
    )


_tokens_of = attrgetter(*TOKENS)


def _series_of(turn: TurnEvent) -> tuple[int | None, ...]:
    """A turn's value for each of SERIES, in that order."""
    ledger_ns = turn.ledger_ns
    return (
        turn.latency_ns,
        turn.ttft_ns,
        turn.first_delta_ns,
        turn.tpot_ns,
        ledger_ns.get("overhead", 0),
        ledger_ns.get("unattributed", 0),
    )


def _rate(count: int, duration_ns: int) -> float | None:
    return round(count * 1e9 / duration_ns, 3) if count and duration_ns > 0 else None


def _ratio(part: int, whole: int, digits: int = 4) -> float | None:
    return round(part / whole, digits) if whole > 0 else None
