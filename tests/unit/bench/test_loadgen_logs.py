from __future__ import annotations

from pathlib import Path

import pytest

from edge_runner.bench.crosscheck import Latencies
from edge_runner.bench.loadgen import SUMMARY, read_report
from edge_runner.errors import RunFailedError
from edge_runner.results.schema import LoadGenReport

VALID = """\
Scenario : SingleStream
Mode     : PerformanceOnly
90.0th percentile latency (ns) : 2184805
Result is : VALID
  Min duration satisfied : Yes
  Min queries satisfied : Yes
  Early stopping satisfied: Yes
Early Stopping Result:
 * Processed at least 64 queries (100).
 * Would discard 2 highest latency queries.
 * Early stopping 90.0th percentile estimate: 2442876

QPS w/ loadgen overhead         : 457.57
Min latency (ns)                : 2087724
Max latency (ns)                : 4922582
Mean latency (ns)               : 2173860
90.00 percentile latency (ns)   : 2184805

No errors encountered during test.
"""


def write(folder: Path, text: str) -> LoadGenReport:
    (folder / SUMMARY).write_text(text, encoding="utf-8")
    return read_report(folder)


def test_a_valid_summary(tmp_path: Path) -> None:
    report = write(tmp_path, VALID)
    assert (report.verdict, report.reasons) == ("VALID", ())
    assert report.metrics == {
        "min_latency_ns": 2087724,
        "mean_latency_ns": 2173860,
        "max_latency_ns": 4922582,
        "p90_latency_ns": 2184805,
        "p90_early_stopping_ns": 2442876,
        "qps": 457.57,
    }


def test_every_rule_that_is_not_satisfied_is_a_reason(tmp_path: Path) -> None:
    text = VALID.replace("Result is : VALID", "Result is : INVALID")
    text = text.replace("Min duration satisfied : Yes", "Min duration satisfied : NO")
    text = text.replace("Early stopping satisfied: Yes", "Early stopping satisfied: NO")
    report = write(tmp_path, text)
    assert report.verdict == "INVALID"
    assert report.reasons == (
        "LoadGen: min duration not satisfied",
        "LoadGen: early stopping not satisfied",
    )


def test_errors_are_a_reason_even_when_loadgen_says_valid(tmp_path: Path) -> None:
    report = write(tmp_path, VALID.replace("No errors", "1 ERROR"))
    assert report.verdict == "VALID"
    assert report.reasons


def test_accuracy_mode_has_no_verdict(tmp_path: Path) -> None:
    report = write(tmp_path, "\nNo warnings encountered.\n\nNo errors encountered during test.\n")
    assert (report.verdict, report.reasons, report.metrics) == (None, (), {})


def test_a_missing_summary_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunFailedError, match="left no summary"):
        read_report(tmp_path)


def checked(*ours_ns: int, drift_ns: int = 0) -> tuple[bool, int | None]:
    latencies = Latencies()
    for value in ours_ns:
        latencies.add(value)
    metrics = {"min_latency_ns": 10e6, "mean_latency_ns": 20e6, "max_latency_ns": 30e6}
    check = latencies.against(LoadGenReport(metrics=metrics), drift_ns)
    assert check is not None
    return check.clock_mismatch, check.largest_difference_ns


def test_latencies_that_agree() -> None:
    assert checked(10_100_000, 19_900_000, 30_000_000) == (False, 100_000)


def test_latencies_that_differ_by_more_than_a_millisecond() -> None:
    assert checked(10_000_000, 20_000_000, 31_100_000)[0] is True


def test_a_clock_that_was_set_during_the_run() -> None:
    assert checked(10_000_000, 20_000_000, 30_000_000, drift_ns=3_600_000_000_000)[0] is True
    assert checked(10_000_000, 20_000_000, 30_000_000, drift_ns=-5_000_000)[0] is False


def test_nothing_to_compare() -> None:
    assert Latencies().against(LoadGenReport(), 0) is None
