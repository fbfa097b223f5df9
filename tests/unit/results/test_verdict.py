from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest

from edge_runner.results.schema import (
    CrossCheck,
    EndStatus,
    LoadGenReport,
    RunRecord,
    Standing,
    Summary,
    TurnCounts,
    Verdict,
)
from edge_runner.results.verdict import exit_code, judge, unissued

Make = Callable[..., RunRecord]

ALL_WELL = TurnCounts(expected=100, issued=100, completed=95, empty=5)
VALID = LoadGenReport(verdict="VALID")
INVALID = LoadGenReport(verdict="INVALID", reasons=("LoadGen: Min duration not satisfied",))


@pytest.mark.parametrize("loadgen", [VALID, INVALID, None])
def test_quick_claims_nothing(make_record: Make, loadgen: LoadGenReport | None) -> None:
    verdict = judge(make_record(status="completed"), ALL_WELL, loadgen, None)
    assert verdict.ours == "not-applicable"
    assert verdict.loadgen == (loadgen.verdict if loadgen else None)
    assert verdict.reasons == (loadgen.reasons if loadgen else ())


def test_mlperf_follows_loadgen(make_record: Make) -> None:
    run = make_record(status="completed", preset="mlperf")
    assert judge(run, ALL_WELL, VALID, None) == Verdict(loadgen="VALID", ours="VALID", reasons=())
    assert judge(run, ALL_WELL, INVALID, None).reasons == (
        "LoadGen's verdict is INVALID",
        "LoadGen: Min duration not satisfied",
    )
    assert judge(run, ALL_WELL, None, None).reasons == ("LoadGen gave no verdict",)


def test_accuracy_mode_has_no_verdict_of_loadgen(make_record: Make) -> None:
    run = make_record(status="completed", preset="mlperf", mode="accuracy")
    assert judge(run, ALL_WELL, LoadGenReport(), None).ours == "VALID"


@pytest.mark.parametrize("preset", ["quick", "mlperf"])
@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        (TurnCounts(expected=2, issued=2, completed=1, failed=1), "1 turn failed"),
        (TurnCounts(expected=3, issued=3, completed=1, failed=2), "2 turns failed"),
        (TurnCounts(expected=2, issued=2, completed=1, aborted=1), "1 turn aborted"),
        (TurnCounts(expected=3, issued=2, completed=2), "1 turn of 3 never issued"),
        (TurnCounts(issued=2, completed=2), "how many turns to expect was never known"),
        (
            TurnCounts(expected=100, issued=100, completed=94, empty=6),
            "6 of 100 turns empty (6%, at most 5% allowed)",
        ),
        (
            TurnCounts(expected=2, issued=2, completed=2, repeated=2, repeated_failed=1),
            "1 turn among the repeats failed or aborted",
        ),
    ],
)
def test_each_rule_makes_it_invalid(
    make_record: Make, preset: str, turns: TurnCounts, reason: str
) -> None:
    verdict = judge(make_record(status="completed", preset=preset), turns, VALID, None)
    assert verdict.ours == "INVALID"
    assert verdict.reasons == (reason,)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("running", "the run has no end: it was killed, or is still running"),
        ("aborted", "the run was aborted"),
        ("failed", "the run failed"),
    ],
)
def test_a_run_that_did_not_complete_is_invalid(
    make_record: Make, status: str, reason: str
) -> None:
    assert judge(make_record(status=status), ALL_WELL, VALID, None).reasons == (reason,)


def test_clocks_that_disagree_make_it_invalid(make_record: Make) -> None:
    run = make_record(status="completed")
    clocks = CrossCheck(clock_mismatch=True, detail="mean differs by 20 ms")
    verdict = judge(run, ALL_WELL, VALID, clocks)
    assert verdict.ours == "INVALID"
    assert verdict.reasons == ("LoadGen's clock and ours disagree: mean differs by 20 ms",)
    agreeing = CrossCheck(clock_mismatch=False, detail="within 1 ms")
    assert judge(run, ALL_WELL, VALID, agreeing).ours == "not-applicable"


def summary(
    status: EndStatus = "completed",
    turns: TurnCounts = ALL_WELL,
    preset: Any = "quick",
    ours: Any = "not-applicable",
    loadgen: Any = "VALID",
) -> Summary:
    return Summary(
        status=status,
        mode="performance",
        kind="agentic-replay",
        scenario="single-stream",
        unit="turn",
        preset=preset,
        verdict=Verdict(loadgen=loadgen, ours=ours, reasons=()),
        standing=Standing(),
        turns=turns,
    )


@pytest.mark.parametrize(
    ("case", "code", "code_when_required"),
    [
        (summary(), 0, 0),
        (summary(loadgen="INVALID"), 0, 5),
        (summary(loadgen=None), 0, 5),
        (summary(ours="INVALID"), 0, 5),  # too many empty turns, say
        (summary(preset="mlperf", ours="VALID"), 0, 0),
        (summary(preset="mlperf", ours="VALID", loadgen=None), 0, 0),  # accuracy mode
        (summary(preset="mlperf", ours="INVALID", loadgen="INVALID"), 5, 5),
        (summary(turns=TurnCounts(expected=2, issued=2, completed=1, failed=1)), 5, 5),
        (summary(turns=TurnCounts(expected=2, issued=1, completed=1)), 5, 5),
        (summary(turns=TurnCounts(expected=2, issued=2, completed=2, repeated_failed=1)), 5, 5),
        (summary(status="failed"), 5, 5),
        (summary(status="aborted", turns=TurnCounts(expected=9)), 130, 130),
    ],
)
def test_exit_codes(case: Summary, code: int, code_when_required: int) -> None:
    assert exit_code(case) == code
    assert exit_code(case, require_valid=True) == code_when_required


def test_more_issued_than_expected_is_not_negative() -> None:
    assert unissued(TurnCounts(expected=1, issued=3)) == 0
    assert set(get_args(EndStatus)) == {"completed", "aborted", "failed"}
