"""The bridge to MLPerf LoadGen. Runs only in the worker process.

LoadGen issues a query; the bridge advances the stream's session by one turn (or, with unit
`session`, by all of them) and completes the query. LoadGen's sample index carries no meaning: the
response's payload names session and turn. The call blocks for the turn, so LoadGen's clock and
ours start and stop within microseconds.

No exception may leave a callback (LoadGen would crash or hang), and LoadGen cannot be told to
stop early: whatever ends a run before its last query goes through `halt`, which never returns.
"""

from __future__ import annotations

import array
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from time import monotonic_ns
from typing import Any, NoReturn

from edge_runner.bench.pool import NextTurn, PooledTurn, SessionPool
from edge_runner.bench.settings import LoadGenSettings
from edge_runner.errors import CancelledError, EdgeRunnerError, RunFailedError, UnavailableError
from edge_runner.results.schema import LoadGenReport

SUMMARY = "mlperf_log_summary.txt"
USER_CONF = "user.conf"
METRICS = {
    "min_latency_ns": r"^Min latency \(ns\) *: (\d+)",
    "mean_latency_ns": r"^Mean latency \(ns\) *: (\d+)",
    "max_latency_ns": r"^Max latency \(ns\) *: (\d+)",
    "p90_latency_ns": r"^90\.00 percentile latency \(ns\) *: (\d+)",
    "p90_early_stopping_ns": r"Early stopping 90\.0th percentile estimate: (\d+)",
    "p99_early_stopping_ns": r"Early stopping 99\.0th percentile estimate: (\d+)",
    "qps": r"^QPS w/ loadgen overhead *: ([\d.]+)",
}
"""Figures from LoadGen's summary log, over all its queries. Accuracy mode gives none."""

_MODEL = "edge-agentic"

Halt = Callable[[BaseException], NoReturn]


class Bridge:
    """One run through LoadGen.

    `on_ready` is called between turns when the next one can be issued, `on_turn` after each
    completed query: neither is timed. `halt` ends the process.
    """

    def __init__(
        self,
        settings: LoadGenSettings,
        pool: SessionPool,
        folder: Path,
        *,
        on_ready: Callable[[NextTurn], None],
        on_turn: Callable[[PooledTurn], None],
        stop: Event,
        halt: Halt,
    ) -> None:
        self._settings = settings
        self._stream = pool.streams[0]
        self._folder = folder
        self._on_ready = on_ready
        self._on_turn = on_turn
        self._stop = stop
        self._halt = halt
        self._issued = 0
        self._answered = 0
        self.idle_since_ns: int | None = monotonic_ns()
        """Since when it is LoadGen's move, None while it is ours. A watchdog reads it."""

    def run(self) -> None:
        """Sit in LoadGen until its last query is complete and its logs are written.

        The working directory must be the folder: LoadGen takes any `audit.config` it finds there.
        """
        lg = _library()
        settings = self._effective(lg)
        logs = lg.LogSettings()
        logs.enable_trace = False
        output = lg.LogOutputSettings()
        output.outdir = str(self._folder)
        output.copy_summary_to_stdout = False
        logs.log_output = output

        self._complete = lg.QuerySamplesComplete
        self._response = lg.QuerySampleResponse
        sut = lg.ConstructSUT(self._issue, lambda: None)
        qsl = lg.ConstructQSL(
            self._settings.samples, self._settings.samples, lambda _: None, lambda _: None
        )
        try:
            self._on_ready(self._stream.prepare())
            self.idle_since_ns = monotonic_ns()
            lg.StartTestWithLogSettings(sut, qsl, settings, logs, "")
        finally:
            lg.DestroyQSL(qsl)
            lg.DestroySUT(sut)

    def _effective(self, lg: Any) -> Any:
        """LoadGen's settings object, read back: it accepts unknown keys without a word."""
        wanted = self._settings
        (self._folder / USER_CONF).write_text(wanted.user_conf(), encoding="utf-8")
        settings = lg.TestSettings()
        settings.FromConfig("", _MODEL, wanted.scenario, 0)  # MLPerf's defaults and seeds
        settings.FromConfig(USER_CONF, _MODEL, wanted.scenario, 2)
        settings.scenario = getattr(lg.TestScenario, wanted.scenario)
        settings.mode = getattr(lg.TestMode, wanted.mode)
        for name, value in {
            "min_query_count": wanted.samples,
            "max_query_count": wanted.max_queries,
            "min_duration_ms": wanted.min_duration_ms,
        }.items():
            if (effective := getattr(settings, name)) != value:
                raise RunFailedError(f"LoadGen took {name} as {effective}, not {value}")
        return settings

    def _issue(self, samples: Any) -> None:
        issued_ns = monotonic_ns()
        self.idle_since_ns = None
        try:
            for sample in samples:
                self._query(sample, issued_ns)
        except BaseException as error:  # noqa: BLE001 - nothing may pass into LoadGen's C++ frames
            self._halt(error)
        self.idle_since_ns = monotonic_ns()

    def _query(self, sample: Any, issued_ns: int) -> None:
        turn = self._advance(issued_ns)
        while self._settings.unit == "session" and not self._stream.between_sessions:
            self._on_turn(turn)
            self._make_ready()
            turn = self._advance(monotonic_ns())
        outcome = turn.outcome
        body = {"session": outcome.session, "turn": outcome.turn, "text": outcome.text}
        payload = array.array("B", json.dumps(body).encode())
        address, size = payload.buffer_info()
        self._complete([self._response(sample.id, address, size)])
        self._issued += 1
        self._on_turn(replace(turn, query_ns=outcome.completed_ns - issued_ns))
        if self._issued != self._settings.max_queries:
            self._give_up_if_nothing_answers(turn)
            self._make_ready()

    def _advance(self, issued_ns: int) -> PooledTurn:
        """One turn. A stopped one is kept, but never completes its query: that would be a latency
        of LoadGen's."""
        turn = self._stream.advance(issued_ns)
        if turn.outcome.status == "aborted":
            self._on_turn(turn)
            raise CancelledError("stopped on request")
        self._answered += turn.outcome.status != "failed"
        return turn

    def _give_up_if_nothing_answers(self, last: PooledTurn) -> None:
        """A run that repeats turns which all fail at once would only fill the disk."""
        if self._issued == self._settings.samples and not self._answered:
            raise RunFailedError(
                f"none of the first {self._issued} queries was answered; the last: "
                f"{last.outcome.error}"
            )

    def _make_ready(self) -> None:
        """What lies between two turns: the recorded delay, the next session."""
        self._stop_if_asked()
        self._stream.wait(self._stop.wait)
        self._stop_if_asked()
        self._on_ready(self._stream.prepare())

    def _stop_if_asked(self) -> None:
        if self._stop.is_set():
            raise CancelledError("stopped on request")


def _library() -> Any:
    try:
        import mlperf_loadgen
    except ImportError:
        raise UnavailableError(
            "LoadGen is not installed; run: pip install 'edge-runner[loadgen]'"
        ) from None
    return mlperf_loadgen


def read_report(folder: Path) -> LoadGenReport:
    """Read LoadGen's summary log. Raises RunFailedError when a run left none."""
    path = folder / SUMMARY
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise RunFailedError(f"{path.name}: LoadGen left no summary: {error.strerror}") from None
    # VALID takes no notice of errors that LoadGen itself logged.
    reasons = [] if "No errors encountered" in text else ["LoadGen: errors are in its detail log"]
    reasons += [
        f"LoadGen: {name.strip().lower()} not satisfied"
        for name in re.findall(r"^ +(.+?) satisfied *: NO *$", text, re.MULTILINE)
    ]
    verdict = re.search(r"^Result is : (VALID|INVALID)$", text, re.MULTILINE)
    return LoadGenReport(
        verdict=None if verdict is None else "VALID" if verdict[1] == "VALID" else "INVALID",
        reasons=tuple(reasons),
        metrics={
            name: float(found[1])
            for name, pattern in METRICS.items()
            if (found := re.search(pattern, text, re.MULTILINE))
        },
    )


def as_error(error: BaseException) -> EdgeRunnerError:
    """What ended a run, as one of ours; a bug keeps its type's name."""
    if isinstance(error, EdgeRunnerError):
        return error
    return RunFailedError(f"unexpected {type(error).__name__}: {' '.join(str(error).split())}")
