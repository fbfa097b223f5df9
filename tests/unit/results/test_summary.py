from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edge_runner.engines import Divergence, Usage
from edge_runner.errors import DataError, RunFailedError
from edge_runner.results import summary as summary_module
from edge_runner.results.events import EventWriter, read_turns
from edge_runner.results.run_folder import RunFolder
from edge_runner.results.schema import CrossCheck, LoadGenReport, RunRecord, Standing
from edge_runner.results.summary import (
    read_summary,
    summarize,
    summary_bytes,
    write_summary,
)
from edge_runner.sessions import TurnOutcome
from edge_runner.trace import PARTS

MS = 1_000_000

MakeOutcome = Callable[..., TurnOutcome]
MakeRun = Callable[..., tuple[RunFolder, RunRecord]]

SERIES = {"n", "min", "mean", "median", "p90", "p99", "max", "early_stopping"}
SERIES_NAMES = {
    "latency_ns",
    "ttft_ns",
    "first_delta_ns",
    "tpot_ns",
    "overhead_ns",
    "unattributed_ns",
}
NAMES: dict[str, set[str]] = {
    "verdict": {"loadgen", "ours", "reasons"},
    "standing": {"reference", "division_like", "deviations", "availability", "verified"},
    "precision": {"weights", "kv"},
    "slo": {"ttft_ms", "tpot_ms", "attainment"},
    "turns": {"expected", "issued", "completed", "empty", "failed", "aborted", "repeated"},
    "tokens": {"prompt", "cached", "evaluated", "new", "output", "drafted", "accepted"},
    "ledger_ns": set(PARTS),
    "gap_ns": {"recorded_delay", "idle", "harness"},
    "tools": {"steps", "run_ns", "overhead_ns", "turnaround_ns"},
    "by_depth": {"0-4k", "4-12k", "12k+"},
} | dict.fromkeys(SERIES_NAMES, SERIES)
SINGLE = {"format", "status", "mode", "kind", "scenario", "unit", "overlap_ns", "rag", "scores"}
SINGLE |= {"per_turn", "environment", "energy"}
ROW = {"session", "turn", "stream", "status", "latency_ns", "ttft_ns", "tpot_ns", "tokens"}
ROW |= {"ledger_ns", "divergence"}


def test_the_names_of_summary_json(make_run: MakeRun, make_outcome: MakeOutcome) -> None:
    folder, run = make_run([make_outcome(divergence=Divergence(3, "evicted"))])
    write_summary(folder, summarize(folder, run))
    document = json.loads(folder.summary.read_bytes())
    assert document.keys() >= SINGLE
    for name, inner in NAMES.items():
        assert inner <= document[name].keys(), name
    for depth in document["by_depth"].values():
        assert SERIES_NAMES | {"rates"} <= depth.keys()
    assert document["latency_ns"]["early_stopping"].keys() == {"p90", "p99"}
    assert document["tools"]["overhead_ns"].keys() == {"median", "p90"}
    (row,) = document["per_turn"]
    assert row.keys() >= ROW
    assert row["divergence"] == {"index": 3, "reason": "evicted"}
    assert document["format"] == 1
    assert document["standing"]["verified"] is False
    assert document["tools"]["steps"] == 0
    assert document["rag"] is None
    assert document["energy"] == "unavailable: not measured"


def test_numbers_by_hand(make_run: MakeRun, make_outcome: MakeOutcome) -> None:
    deep = Usage(prompt=5000, cached=4800, evaluated=200, new=150, output=11)
    folder, run = make_run(
        [
            (make_outcome(turn=1), {"gap_ns": {"harness": 3 * MS}}),
            (make_outcome(turn=2, usage=deep), {"gap_ns": {"recorded_delay": 9}, "overlap_ns": 5}),
        ]
    )
    result = summarize(folder, run)
    assert result.latency_ns.n == 2
    assert result.latency_ns.mean == 153 * MS
    assert result.ttft_ns.median == 101 * MS
    assert result.first_delta_ns.median == 111 * MS
    assert (result.tpot_ns.min, result.tpot_ns.max) == (5 * MS, 10 * MS)
    assert result.overhead_ns.max == MS
    assert result.unattributed_ns.max == 2 * MS
    assert result.ledger_ns["prefill"] == 200 * MS
    assert result.ledger_ns["queue"] == 0
    assert sum(result.ledger_ns.values()) == 2 * 153 * MS
    assert result.gap_ns == {"recorded_delay": 9, "idle": 0, "harness": 3 * MS}
    assert result.overlap_ns == 5
    assert result.tokens == Usage(prompt=6000, cached=5700, evaluated=300, new=250, output=17)
    assert result.rates.prefill_tokens_per_s == 1500  # 300 tokens in 0.2 s
    assert result.rates.decode_tokens_per_s == 170  # 17 tokens in 0.1 s
    assert result.rates.evaluated_per_new == 1.2
    assert result.rates.cached_share == 0.95
    assert result.by_depth["0-4k"].latency_ns.n == 1
    assert result.by_depth["4-12k"].rates.decode_tokens_per_s == 220
    assert result.by_depth["12k+"].latency_ns.n == 0
    assert result.by_depth["12k+"].rates.decode_tokens_per_s is None
    assert result.duration_ns == 1153 * MS
    assert result.qps == pytest.approx(2 / 1.153, abs=1e-6)
    assert result.output_tokens_per_s == pytest.approx(17 / 1.153, abs=1e-3)
    assert (result.harness.per_turn_ns.min, result.harness.per_turn_ns.max) == (3 * MS, 6 * MS)
    assert result.harness.share == pytest.approx(9 / 306, abs=1e-6)
    assert result.warnings == ()


@pytest.mark.parametrize(
    ("prompt", "depth"),
    [(0, "0-4k"), (4095, "0-4k"), (4096, "4-12k"), (12_287, "4-12k"), (12_288, "12k+")],
)
def test_where_depths_begin(
    make_run: MakeRun, make_outcome: MakeOutcome, prompt: int, depth: Any
) -> None:
    usage = Usage(prompt=prompt, evaluated=prompt, output=3)
    folder, run = make_run([make_outcome(usage=usage)])
    assert summarize(folder, run).by_depth[depth].latency_ns.n == 1


def test_a_query_is_what_its_last_turn_completed(
    make_run: MakeRun, make_outcome: MakeOutcome
) -> None:
    folder, run = make_run(
        [
            (make_outcome(turn=1), {"query_ns": None}),
            (make_outcome(turn=2), {"query_ns": 900 * MS}),
        ],
        unit="session",
    )
    result = summarize(folder, run)
    assert (result.latency_ns.n, result.query_latency_ns.n) == (2, 1)
    assert result.query_latency_ns.max == 900 * MS


def test_which_turns_enter_what(make_run: MakeRun, make_outcome: MakeOutcome) -> None:
    nothing = Usage(prompt=1000, cached=900, evaluated=100, new=100, output=1)
    folder, run = make_run(
        [
            make_outcome(turn=1, scores={"command_iou": 1.0}),
            make_outcome(turn=2, status="empty", usage=nothing, scores={"command_iou": 0.0}),
            make_outcome(turn=3, status="failed", error="boom", scores={"command_iou": 0.0}),
            make_outcome(turn=4, status="aborted", scores={}),
            (make_outcome(turn=1, scores={"command_iou": 0.9}), {"repeat": True}),
            (make_outcome(turn=2, status="failed", error="again"), {"repeat": True}),
        ],
        expected_turns=5,
    )
    result = summarize(folder, run)
    turns = result.turns
    assert (turns.expected, turns.issued, turns.repeated) == (5, 4, 2)
    assert (turns.completed, turns.empty, turns.failed, turns.aborted) == (1, 1, 1, 1)
    assert turns.repeated_failed == 1
    assert result.latency_ns.n == 2
    assert result.query_latency_ns.n == 6
    assert result.ttft_ns.n == result.tpot_ns.n == result.first_delta_ns.n == 1
    assert result.tokens.prompt == 2000
    assert result.scores == {"command_iou": 0.3333}
    assert [(f.session, f.turn, f.error) for f in result.failures] == [
        ("s1", 3, "boom"),
        ("s1", 2, "again"),
    ]
    # Three turns were answered, one of them a repeat, from 1 s to 4.153 s.
    assert result.qps == pytest.approx(3 / 3.153, abs=1e-6)


def test_unscorable_turns_stay_out_of_the_mean(
    make_run: MakeRun, make_outcome: MakeOutcome
) -> None:
    folder, run = make_run(
        [
            make_outcome(turn=1, scores={"command_iou": 0.25, "b": 1.0}),
            make_outcome(turn=2, scores={"command_iou": None}),
            make_outcome(turn=3, scores={"command_iou": 0.5}),
        ]
    )
    assert summarize(folder, run).scores == {"b": 1.0, "command_iou": 0.375}


def test_a_ledger_that_does_not_sum_is_named(make_run: MakeRun, make_outcome: MakeOutcome) -> None:
    folder, run = make_run(
        [
            make_outcome(turn=1),
            make_outcome(turn=2, ledger_ns={"prefill": 152 * MS}),
            make_outcome(turn=3, ledger_ns={"prefill": 154 * MS, "unattributed": -MS}),
            make_outcome(turn=4, usage=Usage(prompt=10, cached=5, evaluated=4)),
            make_outcome(turn=4),
        ]
    )
    warnings = summarize(folder, run, warnings=["from the caller"]).warnings
    assert warnings == (
        "from the caller",
        "1 turn with a ledger that does not sum to the latency; first: session s1, turn 2",
        "1 turn with a negative ledger part (time charged twice); first: session s1, turn 3",
        "1 turn with cached + evaluated tokens other than the prompt's; first: session s1, turn 4",
        "1 turn with a number already used in its session, not a repeat; first: session s1, turn 4",
    )


def test_what_the_caller_gives_is_passed_on(make_run: MakeRun, make_outcome: MakeOutcome) -> None:
    folder, run = make_run(
        [make_outcome()],
        engine={"weights_precision": "Q4_K_M", "kv_precision": "f16"},
        standing=Standing(reference="MLPerf", division_like="closed"),
        environment={"os": {"system": "Linux"}},
    )
    loadgen = LoadGenReport(verdict="VALID", metrics={"qps": 1.5})
    clocks = CrossCheck(clock_mismatch=False, detail="within 0.1 ms", largest_difference_ns=9)
    result = summarize(folder, run, loadgen=loadgen, cross_check=clocks)
    assert (result.precision.weights, result.precision.kv) == ("Q4_K_M", "f16")
    assert result.standing.division_like == "closed"
    assert result.environment == {"os": {"system": "Linux"}}
    assert (result.loadgen, result.cross_check) == (loadgen, clocks)
    assert result.verdict.loadgen == "VALID"


def test_a_run_without_turns(make_run: MakeRun) -> None:
    folder, run = make_run([], expected_turns=3, status="failed", failure="no model")
    result = summarize(folder, run)
    assert result.latency_ns.n == 0
    assert result.qps is None
    assert result.harness.share is None
    assert result.scores == {}
    assert result.verdict.ours == "INVALID"
    folder.events.unlink()
    assert summarize(folder, run) == result


def test_a_run_of_failures_has_no_latency(make_run: MakeRun, make_outcome: MakeOutcome) -> None:
    failed = [make_outcome(turn=n, status="failed", error=f"e{n}") for n in range(1, 31)]
    folder, run = make_run(failed)
    result = summarize(folder, run)
    assert result.turns.failed == 30
    assert result.latency_ns.n == result.tokens.prompt == 0
    assert len(result.failures) == 20
    assert result.failures[-1].error == "e20"


def test_a_killed_run_is_summarized_without_writing(
    make_run: MakeRun, make_outcome: MakeOutcome
) -> None:
    folder, _ = make_run(
        [make_outcome(turn=1), make_outcome(turn=2)], status="running", expected_turns=9
    )
    with folder.events.open("ab") as file:
        file.write(b'{"type":"turn","t_ns":1')
    before = sorted(folder.path.rglob("*"))
    result = read_summary(folder)
    assert (result.status, result.turns.issued, result.turns.expected) == ("failed", 2, 9)
    assert "killed, or is still running" in result.verdict.reasons[0]
    assert json.loads(summary_bytes(folder))["turns"]["issued"] == 2
    assert sorted(folder.path.rglob("*")) == before


def test_a_summary_is_read_back_as_it_was(make_run: MakeRun, make_outcome: MakeOutcome) -> None:
    folder, run = make_run([make_outcome()])
    result = summarize(folder, run)
    write_summary(folder, result)
    assert read_summary(folder) == result
    assert summary_bytes(folder) == folder.summary.read_bytes()


def test_a_damaged_or_newer_summary_is_one_line(
    make_run: MakeRun, make_outcome: MakeOutcome
) -> None:
    folder, _ = make_run([make_outcome()])
    folder.summary.write_text('{"format": 1, "status": "comp')
    with pytest.raises(DataError, match=r"summary\.json: damaged or cut short"):
        read_summary(folder)
    folder.summary.write_text('{"format": 9}')
    with pytest.raises(DataError, match="newer edge-runner"):
        read_summary(folder)


def test_a_summary_that_cannot_be_written_is_one_line(
    make_run: MakeRun, make_outcome: MakeOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, run = make_run([make_outcome()])
    result = summarize(folder, run)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(summary_module, "write_atomic", refuse)
    with pytest.raises(RunFailedError, match=r"summary\.json: cannot be written: No space left"):
        write_summary(folder, result)


def test_many_turns_go_to_their_own_file(
    make_run: MakeRun, make_outcome: MakeOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary_module, "ROWS_LIMIT", 3)
    folder, run = make_run([make_outcome(turn=turn) for turn in range(1, 4)])
    result = summarize(folder, run)
    assert (len(result.per_turn), result.per_turn_file) == (3, None)
    with EventWriter(folder.path) as events:
        events.turn(make_outcome(turn=4))
    result = summarize(folder, run)
    assert (result.per_turn, result.per_turn_file) == ((), "turns.jsonl")
    write_summary(folder, result)
    rows = [json.loads(line) for line in folder.turns.read_bytes().splitlines()]
    assert [row["turn"] for row in rows] == [1, 2, 3, 4]
    assert all(row.keys() >= ROW for row in rows)


@pytest.fixture
def make_long_run(make_run: MakeRun, make_outcome: MakeOutcome) -> MakeRun:
    def make(count: int) -> tuple[RunFolder, RunRecord]:
        folder, run = make_run([make_outcome()], expected_turns=count)
        (turn,) = read_turns(folder.events)
        with folder.events.open("wb") as file:
            for index in range(count):
                session, number = f"s{index // 50}", index % 50 + 1
                changed = msgspec.structs.replace(turn, session=session, turn=number)
                file.write(msgspec.json.encode(changed) + b"\n")
        return folder, run

    return make


def test_a_hundred_thousand_turns(make_long_run: MakeRun) -> None:
    result = summarize(*make_long_run(100_000))
    assert result.turns.issued == result.latency_ns.n == 100_000
    assert result.latency_ns.early_stopping.p99 == 153 * MS
    assert result.tokens.prompt == 100_000_000
    assert (result.per_turn, result.warnings) == ((), ())


def test_a_turn_more_costs_a_few_hundred_bytes(make_long_run: MakeRun) -> None:
    def peak(count: int) -> int:
        folder, run = make_long_run(count)
        tracemalloc.start()
        try:
            summarize(folder, run)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    turns = 5_000
    assert peak(20_000) - peak(20_000 - turns) < 500 * turns


def test_the_standing_can_never_say_verified() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"verified": true}', type=Standing)


def test_events_of_a_damaged_folder_name_the_line(
    make_run: MakeRun, make_outcome: MakeOutcome, tmp_path: Path
) -> None:
    folder, run = make_run([make_outcome()])
    with folder.events.open("ab") as file:
        file.write(b'{"type":"turn","turn":[]}\n')
    with pytest.raises(DataError, match=r"events\.jsonl:3"):
        summarize(folder, run)
