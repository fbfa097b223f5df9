"""The parts of the report: markup, scales, how a run is cut down to a page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any

import pytest
from typer.testing import CliRunner

from edge_runner.cli.main import app
from edge_runner.engines import Divergence
from edge_runner.errors import RunFailedError
from edge_runner.results.events import TurnEvent
from edge_runner.results.report import page as page_module
from edge_runner.results.report import render, write_report
from edge_runner.results.report.axes import cumulative, histogram, time_axis
from edge_runner.results.report.markup import (
    LABEL_LIMIT,
    Html,
    join,
    label,
    script_json,
    tag,
    text,
)
from edge_runner.results.report.turns import BARS_LIMIT, Turns, sessions_of
from edge_runner.results.summary import summarize, turns_of, write_summary
from edge_runner.results.table import duration

MakeOutcome = Callable[..., Any]
MakeRun = Callable[..., Any]


def test_text_is_escaped_and_what_cannot_be_seen_is_shown() -> None:
    assert text("<b>&\"'") == "&lt;b&gt;&amp;&quot;&#x27;"
    assert text("a\u202eb\x00\ud800") == "a\\u202eb\\x00\\ud800"
    assert tag("p", "<i>", Html("<b>x</b>"), class_='"') == (
        '<p class="&quot;">&lt;i&gt;<b>x</b></p>'
    )
    assert join(["a", None, 3, ["<"]]) == "a3&lt;"


def test_json_in_the_page_ends_no_script_and_comes_back_the_same() -> None:
    value = {"</script>": ["\u2028\u2029", "<!--", "&amp;", 1.5, None]}
    document = script_json(value)
    assert not set("<>&\u2028\u2029") & set(document)
    assert json.loads(document) == value


@pytest.mark.parametrize("scale", [1, 1000])
def test_histogram_and_curve_count_every_sample(scale: int) -> None:
    ordered = sorted([7 * scale**2, *(at * at for at in range(1, 900))])
    edges, counts = histogram(ordered)
    assert len(edges) == len(counts) + 1
    assert sum(counts) == len(ordered)
    values, shares = cumulative(ordered)
    assert (values[0], values[-1], shares[-1]) == (ordered[0], ordered[-1], 1.0)
    assert values == sorted(values)
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx(1 / len(ordered), abs=1e-5)


def test_equal_samples_have_a_histogram() -> None:
    edges, counts = histogram([5] * 10)
    assert sum(counts) == 10
    assert edges[0] < edges[-1]


def test_a_scale_is_logarithmic_only_where_a_few_values_dwarf_the_rest() -> None:
    assert "type" not in time_axis(10_000, 1_000, 100)
    assert time_axis(100_000, 1_000, 100)["type"] == "log"
    assert time_axis(2_000_000_000, 10**9, 0)["ticktext"] == [
        "0", "500 ms", "1 s", "1.5 s", "2 s",
    ]  # fmt: skip


def test_large_runs_are_grouped_within_sessions_and_lose_no_turn(
    make_outcome: MakeOutcome,
) -> None:
    # Two streams whose turns complete in turn, in sessions that no group's size divides.
    events = [
        TurnEvent.of(make_outcome(f"s{stream}-{at // 13}", at % 13 + 1), stream=stream)
        for at in range(2000)
        for stream in (0, 1)
    ]
    turns = Turns.collect(events, len(events))
    assert turns.total == sum(bar.turns for bar in turns.bars) == len(events)
    assert turns.per_bar == 3
    assert len(turns.bars) < 2 * BARS_LIMIT
    assert sum(bar.latency_ns for bar in turns.bars) == sum(e.latency_ns for e in events)
    assert all(bar.last - bar.first == bar.turns - 1 for bar in turns.bars)
    assert [bar.stream for bar in turns.bars] == sorted(bar.stream for bar in turns.bars)
    assert sorted(turns.numbers.values()) == list(range(1, len(turns.numbers) + 1))
    assert len(turns.latencies_ns) == len(events)
    assert len(turns.points) == len(events) / turns.stride


def test_sessions_are_cut_where_another_begins(make_outcome: MakeOutcome) -> None:
    rows = [TurnEvent.of(make_outcome(name, 1)) for name in "aabba"]
    assert [[row.session for row in part] for part in sessions_of(rows)] == [
        ["a", "a"], ["b", "b"], ["a"],
    ]  # fmt: skip


@pytest.fixture
def rendered(make_run: MakeRun) -> Callable[..., tuple[str, Any]]:
    def make(outcomes: Any, **record: Any) -> tuple[str, Any]:
        folder, run = make_run(outcomes, **record)
        summary = summarize(folder, run)
        return render(summary, run, turns_of(folder)), summary

    return make


def numbers_of(page: str) -> Iterator[tuple[str, str, str]]:
    for value, pointer, shown in re.findall(
        r'<data value="([^"]*)" data-of="([^"]*)"[^>]*>([^<]*)</data>', page
    ):
        yield pointer, value, unescape(shown)


def test_what_is_read_is_what_the_value_says(
    rendered: Callable[..., Any], make_outcome: MakeOutcome
) -> None:
    page, _ = rendered([make_outcome(f"s{at % 6}", at // 6 + 1) for at in range(72)])
    shown = {pointer: (value, text) for pointer, value, text in numbers_of(page)}
    assert shown["/latency_ns/median"][1] == duration(153_000_000)
    assert shown["/rates/decode_tokens_per_s"] == ("120.0", "120")
    assert shown["/rates/cached_share"] == ("0.9", "90.0%")
    assert shown["/scores/command_iou"] == ("0.5", "0.5000")
    assert "/confidence/latency_ns/median/low" in shown
    for pointer, (value, words) in shown.items():
        if "_ns" in pointer and not pointer.endswith("/n"):
            assert words == duration(int(value)), pointer


@pytest.mark.parametrize(
    "outcomes",
    [
        [],
        [{}],
        [{"status": "failed", "error": "boom"}],
        [{"status": "aborted"}],
        [{"status": "empty"}],
        [{"turn": at} for at in range(1, 9)],
    ],
    ids=["none", "one", "failed", "aborted", "empty", "several"],
)
def test_every_figure_has_its_place(
    rendered: Callable[..., Any], make_outcome: MakeOutcome, outcomes: list[dict[str, Any]]
) -> None:
    page, _ = rendered([make_outcome(**changes) for changes in outcomes])
    placed = set(re.findall(r'<div id="figure-(\w+)"', page))
    block = re.search(r'id="figures">(.*?)</script>', page) or re.search("$", page)
    assert block is not None
    drawn = {figure["id"] for figure in json.loads(block.group(1))} if block.groups() else set()
    assert drawn == placed
    assert bool(drawn) == bool(outcomes)


def test_divergences_are_listed_with_their_reasons(
    rendered: Callable[..., Any], make_outcome: MakeOutcome
) -> None:
    page, _ = rendered(
        [
            make_outcome(turn=1),
            make_outcome(turn=2, divergence=Divergence(412, "template changed")),
        ]
    )
    assert '<td class="n">412</td>' in page
    assert ("/divergences/reasons/template changed", "1", "1") in list(numbers_of(page))


def test_without_plotly_the_page_has_its_numbers_and_says_what_is_missing(
    rendered: Callable[..., Any], make_outcome: MakeOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_module, "plotly_js", lambda: None)
    page, _ = rendered([make_outcome(turn=at) for at in range(1, 9)])
    assert "without the package plotly" in page
    assert "<script>" not in page
    assert "script-src &#x27;none&#x27;" in page
    assert "/latency_ns/median" in {pointer for pointer, _, _ in numbers_of(page)}
    assert len(page) < 200_000


def test_the_command_prints_the_path(make_run: MakeRun, make_outcome: MakeOutcome) -> None:
    folder, run = make_run([make_outcome()])
    write_summary(folder, summarize(folder, run))
    elsewhere = folder.path.parent / "elsewhere.html"
    for more, path in (([], folder.path / "report.html"), (["--out", str(elsewhere)], elsewhere)):
        done = CliRunner().invoke(app, ["report", str(folder.path), *more], catch_exceptions=False)
        assert done.exit_code == 0
        assert done.stdout == f"{path}\n"
        assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_page_that_cannot_be_written_is_one_line(
    make_run: MakeRun, make_outcome: MakeOutcome
) -> None:
    folder, run = make_run([make_outcome()])
    with pytest.raises(RunFailedError, match=r"no/where\.html: cannot be written: No such file"):
        write_report(folder, summarize(folder, run), folder.path / "no/where.html")


def test_a_label_keeps_quotes_and_loses_the_middle_of_what_is_long() -> None:
    assert label("say \"hi\" & 'bye' <b>") == "say \"hi\" &amp; 'bye' &lt;b&gt;"
    assert len(label("x" * 500)) <= LABEL_LIMIT
    assert label("start" + "x" * 500 + "end").startswith("start")
    assert label("start" + "x" * 500 + "end").endswith("end")
