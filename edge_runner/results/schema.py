"""The names of `run.json` and `summary.json`. Readers outside this project depend on them."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from edge_runner.engines import Usage
from edge_runner.results.events import TurnEvent
from edge_runner.results.files import FORMAT
from edge_runner.results.intervals import LEVEL, Intervals
from edge_runner.results.statistics import Series

RunStatus = Literal["running", "completed", "aborted", "failed"]
EndStatus = Literal["completed", "aborted", "failed"]
Mode = Literal["performance", "accuracy"]
Preset = Literal["quick", "mlperf"]
DepthName = Literal["0-4k", "4-12k", "12k+"]


class Identity(Struct, frozen=True, kw_only=True):
    """Which model or data set it was."""

    name: str
    sha256: str | None = None
    license: str | None = None
    source: str | None = None


class Standing(Struct, frozen=True, kw_only=True):
    """What the run can be set beside. `verified` is always false: only MLCommons verifies."""

    reference: str | None = None
    division_like: Literal["closed", "open"] = "open"
    deviations: tuple[str, ...] = ()
    availability: str | None = None
    verified: Literal[False] = False


class RunRecord(Struct, frozen=True, kw_only=True):
    """`run.json`: everything about a run but its measurements.

    `started` and `ended` are ISO 8601 in UTC. `expected_turns` is None until the data is read,
    `engine` (the fields of EngineInfo) empty until a model is loaded. `settings` are LoadGen's
    effective settings. `failure` is the one line that ended a failed run.
    """

    format: int = FORMAT
    status: RunStatus = "running"
    name: str
    kind: str
    mode: Mode
    scenario: str
    unit: str
    preset: Preset
    started: str
    config: dict[str, Any]
    fingerprint: str
    edge_runner: str
    streams: int = 1
    expected_turns: int | None = None
    ended: str | None = None
    failure: str | None = None
    model: Identity | None = None
    data: Identity | None = None
    engine: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    standing: Standing = Standing()
    environment: dict[str, Any] = field(default_factory=dict)


class LoadGenReport(Struct, frozen=True, kw_only=True):
    """What LoadGen said. `verdict` is None where it gives none (accuracy mode, a killed run);
    `reasons` say why it is INVALID, naming LoadGen; `metrics` are its own figures."""

    verdict: Literal["VALID", "INVALID"] | None = None
    reasons: tuple[str, ...] = ()
    metrics: dict[str, Any] = field(default_factory=dict)


class CrossCheck(Struct, frozen=True, kw_only=True):
    """LoadGen's wall clock against the monotonic clock. `detail` is a line for people."""

    clock_mismatch: bool
    detail: str
    largest_difference_ns: int | None = None


class Verdict(Struct, frozen=True, kw_only=True):
    loadgen: Literal["VALID", "INVALID"] | None
    ours: Literal["VALID", "INVALID", "not-applicable"]
    reasons: tuple[str, ...]


class Precision(Struct, frozen=True, kw_only=True):
    weights: str | None = None
    kv: str | None = None


class Slo(Struct, frozen=True, kw_only=True):
    """Service-level objective; None: none was asked for. `attainment`: the share of all expected
    turns that completed within every limit given; a turn that failed, was empty or was never
    issued has missed it, and one too short to have a TPOT meets that limit."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    attainment: float | None = None


class SessionRow(Struct, frozen=True, kw_only=True):
    """The measured turns of one session; `latency_ns` is their sum."""

    session: str
    turns: int
    latency_ns: int
    ttft_median_ns: int | None
    output_tokens: int


class PositionRow(Struct, frozen=True, kw_only=True):
    """The measured turns at one place in their sessions (1-based)."""

    turn: int
    n: int
    prompt_median_tokens: int
    latency_median_ns: int
    ttft_median_ns: int | None


class Confidence(Struct, frozen=True, kw_only=True):
    """95 % intervals, bootstrapped by session. `note` says why there are none."""

    level: float = LEVEL
    sessions: int = 0
    replicates: int = 0
    latency_ns: Intervals = Intervals()
    ttft_ns: Intervals = Intervals()
    tpot_ns: Intervals = Intervals()
    note: str | None = None


class TurnCounts(Struct, frozen=True, kw_only=True):
    """issued = completed + empty + failed + aborted. Repeats are counted apart, whatever became
    of them; `repeated_failed` are those that failed or were aborted."""

    expected: int | None = None
    issued: int = 0
    completed: int = 0
    empty: int = 0
    failed: int = 0
    aborted: int = 0
    repeated: int = 0
    repeated_failed: int = 0


class Rates(Struct, frozen=True, kw_only=True):
    """prefill = evaluated tokens / prefill time, decode = output tokens / decode time; None where
    nothing was done. `evaluated_per_new`: 1.00 is the least a prefix cache can reach."""

    prefill_tokens_per_s: float | None = None
    decode_tokens_per_s: float | None = None
    cached_share: float | None = None
    evaluated_per_new: float | None = None


class DepthSummary(Struct, frozen=True, kw_only=True):
    """The turns whose prompt falls in one range of tokens."""

    latency_ns: Series = Series()
    ttft_ns: Series = Series()
    first_delta_ns: Series = Series()
    tpot_ns: Series = Series()
    overhead_ns: Series = Series()
    unattributed_ns: Series = Series()
    rates: Rates = Rates()


class Spread(Struct, frozen=True, kw_only=True):
    median: int | None = None
    p90: int | None = None


class Tools(Struct, frozen=True, kw_only=True):
    """Tool steps carried out live; recorded ones cost nothing and are not counted."""

    steps: int = 0
    run_ns: int | None = None
    overhead_ns: Spread = Spread()
    turnaround_ns: Spread = Spread()


class Harness(Struct, frozen=True, kw_only=True):
    """What this project itself cost: overhead + unattributed + the gap's harness part, a turn.
    `share` is its total over the total latency."""

    per_turn_ns: Series = Series()
    share: float | None = None


class Divergences(Struct, frozen=True, kw_only=True):
    """Turns whose prompt stopped matching the cache, and the engine's reasons with their counts."""

    turns: int = 0
    reasons: dict[str, int] = field(default_factory=dict)


class Failure(Struct, frozen=True, kw_only=True):
    session: str
    turn: int
    error: str


class Summary(Struct, frozen=True, kw_only=True):
    """`summary.json`.

    Which turns enter what. A turn is *measured* when it completed or came back empty and is not a
    repeat: all series, rates and totals are over measured turns, so that the ledger's parts sum to
    the latencies. TTFT, first delta and TPOT exist for completed turns only. A failed or aborted
    turn is never a latency. `scores` are means over the issued turns that can be scored, repeats
    left out, rounded to 4 decimals (MLPerf's rule); the workload scores a missing output 0.

    Three numbers are over all that LoadGen saw, repeats and failures included, because that is
    what LoadGen's own figures are over: `query_latency_ns` (a query is a turn, or with unit
    `session` a session), and, over the time from first issue to
    last completion (`duration_ns`), `qps` and `output_tokens_per_s`; the latter two count
    completed and empty turns.
    """

    format: int = FORMAT
    status: EndStatus
    mode: Mode
    kind: str
    scenario: str
    unit: str
    preset: Preset
    verdict: Verdict
    standing: Standing
    turns: TurnCounts
    name: str = ""
    failure: str | None = None
    model: Identity | None = None
    data: Identity | None = None
    precision: Precision = Precision()
    slo: Slo = Slo()
    failures: tuple[Failure, ...] = ()
    warnings: tuple[str, ...] = ()
    latency_ns: Series = Series()
    ttft_ns: Series = Series()
    first_delta_ns: Series = Series()
    tpot_ns: Series = Series()
    overhead_ns: Series = Series()
    unattributed_ns: Series = Series()
    query_latency_ns: Series = Series()
    duration_ns: int = 0
    qps: float | None = None
    output_tokens_per_s: float | None = None
    confidence: Confidence = Confidence()
    rates: Rates = Rates()
    by_session: tuple[SessionRow, ...] = ()
    by_position: tuple[PositionRow, ...] = ()
    by_depth: dict[DepthName, DepthSummary] = field(default_factory=dict)
    tokens: Usage = Usage()
    divergences: Divergences = Divergences()
    ledger_ns: dict[str, int] = field(default_factory=dict)
    gap_ns: dict[str, int] = field(default_factory=dict)
    overlap_ns: int = 0
    harness: Harness = Harness()
    tools: Tools = Tools()
    rag: None = None
    scores: dict[str, float] = field(default_factory=dict)
    loadgen: LoadGenReport | None = None
    cross_check: CrossCheck | None = None
    environment: dict[str, Any] = field(default_factory=dict)
    energy: str | None = "unavailable: not measured"
    per_turn: tuple[TurnEvent, ...] = ()
    per_turn_file: str | None = None
