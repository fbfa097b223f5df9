"""From a run's events to `summary.json`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from edge_runner.engines import Usage
from edge_runner.errors import RunFailedError
from edge_runner.results.events import TurnEvent, read_turns, turn_lines
from edge_runner.results.files import decode, encode_pretty, write_atomic
from edge_runner.results.run_folder import RunFolder
from edge_runner.results.schema import (
    CrossCheck,
    LoadGenReport,
    Precision,
    RunRecord,
    Slo,
    Summary,
)
from edge_runner.results.tally import DepthTally, Tally
from edge_runner.results.verdict import judge

ROWS_LIMIT = 5_000
"""With more turns than this, `per_turn` is empty and `turns.jsonl` holds the rows."""


def summarize(
    folder: RunFolder,
    run: RunRecord,
    *,
    loadgen: LoadGenReport | None = None,
    cross_check: CrossCheck | None = None,
    warnings: Iterable[str] = (),
) -> Summary:
    """Read the folder's events; write nothing. Memory is bounded: see `tally`.

    Works on a run that was killed, too. Raises DataError when a file is damaged.
    """
    tally = Tally(slo=msgspec.convert(run.config.get("slo") or {}, Slo, strict=False))
    rows: list[TurnEvent] = []
    count = 0
    for count, turn in enumerate(turns_of(folder), 1):
        tally.add(turn)
        if count <= ROWS_LIMIT:
            rows.append(turn)
        elif rows:
            rows.clear()
    whole = DepthTally.merged(tally.depths.values())
    overall = whole.summary()
    turns = tally.counts(run.expected_turns)
    seconds = tally.duration_ns / 1e9
    return Summary(
        status="failed" if run.status == "running" else run.status,
        mode=run.mode,
        kind=run.kind,
        scenario=run.scenario,
        unit=run.unit,
        preset=run.preset,
        name=run.name,
        failure=run.failure,
        model=run.model,
        data=run.data,
        verdict=judge(run, turns, loadgen, cross_check),
        standing=run.standing,
        precision=Precision(
            weights=run.engine.get("weights_precision"), kv=run.engine.get("kv_precision")
        ),
        slo=tally.slo(run.expected_turns),
        turns=turns,
        failures=tuple(tally.failures),
        warnings=(*warnings, *tally.warnings()),
        latency_ns=overall.latency_ns,
        ttft_ns=overall.ttft_ns,
        first_delta_ns=overall.first_delta_ns,
        tpot_ns=overall.tpot_ns,
        overhead_ns=overall.overhead_ns,
        unattributed_ns=overall.unattributed_ns,
        query_latency_ns=tally.query_latency(),
        duration_ns=tally.duration_ns,
        qps=round(tally.answered / seconds, 6) if seconds else None,
        output_tokens_per_s=round(tally.output_tokens / seconds, 3) if seconds else None,
        confidence=tally.sessions.confidence(),
        rates=overall.rates,
        by_session=tally.sessions.rows(),
        by_position=tally.sessions.positions(),
        by_depth={name: depth.summary() for name, depth in tally.depths.items()},
        tokens=Usage(**whole.tokens),
        divergences=tally.divergences(),
        ledger_ns=whole.ledger_ns,
        gap_ns=tally.gap_ns,
        overlap_ns=tally.overlap_ns,
        harness=tally.harness(),
        scores=tally.scores(),
        loadgen=loadgen,
        cross_check=cross_check,
        environment=run.environment,
        per_turn=tuple(rows),
        per_turn_file=None if count <= ROWS_LIMIT else folder.turns.name,
    )


def write_summary(folder: RunFolder, summary: Summary) -> None:
    """Write `summary.json`, after `turns.jsonl` where the summary refers to it. Raises
    RunFailedError when that cannot be written."""
    path = folder.turns
    try:
        if summary.per_turn_file is not None:
            with path.open("wb") as file:
                file.writelines(turn_lines(folder.events))
        path = folder.summary
        write_atomic(path, encode_pretty(summary))
    except OSError as error:
        raise RunFailedError(f"{path}: cannot be written: {error.strerror}") from None


def read_summary(folder: RunFolder) -> Summary:
    """The summary on disk or, where a run never wrote one, made from what its events hold."""
    return decode(summary_bytes(folder), Summary, folder.summary)


def summary_bytes(folder: RunFolder) -> bytes:
    """`summary.json` as it lies on disk, or, where a run never wrote one, made from its events."""
    try:
        return folder.summary.read_bytes()
    except FileNotFoundError:
        return encode_pretty(summarize(folder, folder.read()))


def turns_of(folder: RunFolder) -> Iterator[TurnEvent]:
    """Every turn, in order of completion; none where a run ended before its first."""
    return read_turns(folder.events) if folder.events.exists() else iter(())
