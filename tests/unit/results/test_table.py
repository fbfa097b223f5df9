from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from edge_runner.engines import Divergence, Usage
from edge_runner.results.run_folder import DamagedRun, ListedRun, RunFolder
from edge_runner.results.schema import (
    CrossCheck,
    LoadGenReport,
    RunRecord,
    Standing,
)
from edge_runner.results.summary import summarize, turns_of
from edge_runner.results.table import (
    BAR_WIDTH,
    bar,
    duration,
    print_runs,
    print_summary,
    print_turns,
    visible,
)
from edge_runner.sessions import TurnOutcome

MS = 1_000_000
LONG = "a-very-long-name/" * 12
HOSTILE = "[bold red]x[/bold red] [/] \x1b[31m\x07\r\n\t\u202e\ud800 [link=x]"

MakeOutcome = Callable[..., TurnOutcome]
MakeRun = Callable[..., tuple[RunFolder, RunRecord]]


def rendered(printer: Callable[..., None], *args: Any, width: int = 200, **kwargs: Any) -> str:
    out = io.StringIO()
    printer(*args, console=Console(file=out, width=width, color_system=None), **kwargs)
    return out.getvalue()


def test_the_first_lines_say_what_went_wrong(make_run: MakeRun, make_outcome: MakeOutcome) -> None:
    folder, run = make_run(
        [
            make_outcome(turn=1),
            make_outcome(turn=2, status="empty"),
            make_outcome(turn=3, status="failed", error="the engine raised"),
            make_outcome(turn=4, status="aborted"),
        ],
        expected_turns=6,
    )
    loadgen = LoadGenReport(verdict="INVALID", reasons=("LoadGen: Min duration not satisfied",))
    text = rendered(print_summary, summarize(folder, run, loadgen=loadgen))
    lines = [line.rstrip() for line in text.splitlines()]
    head = "\n".join(lines[: lines.index("")])
    assert "status     completed" in head
    assert "ours INVALID; LoadGen INVALID" in head
    assert "- LoadGen: Min duration not satisfied" in head
    assert "1 of 6 completed, 1 empty, 1 failed, 1 aborted, 2 not issued" in head
    assert "- s1 turn 3: the engine raised" in head
    assert "not verified by MLCommons Association" in head


def test_numbers_come_out_with_units(make_run: MakeRun, make_outcome: MakeOutcome) -> None:
    outcomes = [
        make_outcome(turn=turn, divergence=Divergence(5, "history replaced"))
        for turn in range(1, 65)
    ]
    folder, run = make_run([(outcome, {"gap_ns": {"harness": MS}}) for outcome in outcomes])
    text = rendered(print_summary, summarize(folder, run), folder=Path("runs/x"))
    rows = {line.split("  ")[0].strip(): line.split() for line in text.splitlines()}
    assert rows["latency"][1:] == [
        "64",
        "153",
        "ms",
        "153",
        "ms",
        "too",
        "few",
        "samples",
        "153",
        "ms",
    ]
    assert rows["TTFT"][1:4] == ["64", "101", "ms"]
    assert rows["prefill"][-3:] == ["65.4%", "6.40", "s"]
    assert rows["0-4k"][-2:] == ["1,000", "120"]
    assert "prompt 64,000 (90.0% cached); evaluated 6,400, 1.000 of the new" in text
    assert "64 prompts diverged: 64 history replaced" in text
    assert "command_iou 0.5000 (a weak signal of quality)" in text
    assert "p90 latency 153 ms by early stopping" in text
    assert "p50 4.00 ms a turn; 2.6% of latency" in text
    assert "between turns: harness 64.0 ms" in text
    assert text.rstrip().endswith("runs/x")


@pytest.mark.parametrize("width", [80, 200])
def test_no_line_is_wider_than_80(
    make_run: MakeRun, make_outcome: MakeOutcome, make_record: Any, width: int
) -> None:
    usage = Usage(prompt=10**12, cached=10**12 - 10**9, evaluated=10**9, new=10**9, output=10**11)
    outcomes = [
        make_outcome(
            session=text,
            turn=turn,
            status=status,
            error=text,
            usage=usage,
            scores={text: 0.5},
            divergence=Divergence(1, text),
        )
        for turn, status in enumerate(("completed", "failed", "empty"), 1)
        for text in (LONG, HOSTILE, "日本語のとても長い名前" * 9, "x" * 300)
    ]
    folder, run = make_run(
        outcomes,
        name=LONG,
        failure=HOSTILE + LONG,
        status="failed",
        standing=Standing(reference=LONG, deviations=(HOSTILE, LONG)),
        started="2025-01-31T12:00:00.000Z",
    )
    summary = summarize(
        folder,
        run,
        warnings=[LONG, HOSTILE],
        loadgen=LoadGenReport(verdict="INVALID", reasons=(LONG,)),
        cross_check=CrossCheck(clock_mismatch=True, detail=LONG),
    )
    texts = [
        rendered(print_summary, summary, folder=Path("/" + LONG), width=width),
        rendered(print_turns, turns_of(folder), width=width),
        rendered(
            print_runs,
            [
                ListedRun(Path(LONG.replace("/", "-")), run),
                DamagedRun(Path("b" * 200), HOSTILE + LONG),
            ],
            width=width,
        ),
    ]
    for text in texts:
        assert max(cell_len(line) for line in text.splitlines()) <= 80


def test_foreign_text_is_literal(make_run: MakeRun, make_outcome: MakeOutcome) -> None:
    folder, run = make_run(
        [make_outcome(session="[bold]s[/bold]", status="failed", error="\x1b[31m[/]boom\nnext")]
    )
    for text in (
        rendered(print_summary, summarize(folder, run)),
        rendered(print_turns, turns_of(folder)),
    ):
        assert "[bold]s[/bold]" in text
        assert "\x1b" not in text
    assert r"\x1b[31m[/]boom\nnext" in rendered(print_summary, summarize(folder, run))


@pytest.mark.parametrize("expected", [0, 4, None])
def test_a_run_without_turns_still_has_its_head(make_run: MakeRun, expected: int | None) -> None:
    folder, run = make_run([], expected_turns=expected, status="failed", failure="no such model")
    text = rendered(print_summary, summarize(folder, run))
    assert "failed: no such model" in text
    assert f"0 of {'?' if expected is None else expected} completed" in text
    assert "latency" not in text


def test_turns_are_limited_and_counted(make_run: MakeRun, make_outcome: MakeOutcome) -> None:
    folder, _ = make_run(
        [
            *(make_outcome(turn=turn) for turn in range(1, 30)),
            (make_outcome(turn=1), {"repeat": True}),
        ]
    )
    text = rendered(print_turns, turns_of(folder))
    assert len(text.rstrip().splitlines()) == 1 + 20 + 1
    assert text.rstrip().endswith("and 10 more")
    first = text.splitlines()[1].split()
    assert first == ["s1", "1", "1,000", "90%", "153", "ms", "101", "ms", "120", "completed"]
    assert "completed again" in rendered(print_turns, turns_of(folder), limit=30)


def test_a_console_without_unicode(make_run: MakeRun, make_outcome: MakeOutcome) -> None:
    folder, run = make_run([make_outcome(session="x" * 90)])
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    console = Console(file=out, width=80, color_system=None)
    print_summary(summarize(folder, run), console=console)
    print_turns(turns_of(folder), console=console)
    assert b"######" in raw.getvalue()


def test_bars_are_proportional() -> None:
    assert bar(1.0).plain == "█" * BAR_WIDTH
    assert bar(0.0).plain == ""
    assert bar(0.5).plain == "█" * (BAR_WIDTH // 2)
    assert bar(1.7).plain == "█" * BAR_WIDTH
    assert bar(1 / BAR_WIDTH / 2).plain == "▌"
    assert bar(0.5, ascii_only=True).plain == "#" * (BAR_WIDTH // 2)


@pytest.mark.parametrize(
    ("value_ns", "text"),
    [
        (None, "-"),
        (0, "0 ns"),
        (812, "812 ns"),
        (1_000, "1.00 us"),
        (999_600, "1.00 ms"),
        (1_234_567, "1.23 ms"),
        (99_960_000, "100 ms"),
        (12_000_000_000, "12.0 s"),
        (119_000_000_000, "119 s"),
        (150_000_000_000, "2.50 min"),
        (9_000_000_000_000, "2.50 h"),
        (-5_000_000, "-5.00 ms"),
    ],
)
def test_durations(value_ns: int | None, text: str) -> None:
    assert duration(value_ns) == text


def test_visible_keeps_what_can_be_seen() -> None:
    assert visible("plain é 日本 😀") == "plain é 日本 😀"
    assert visible("\x1b\n\u202e\ud800\u200b") == r"\x1b\n\u202e\ud800\u200b"
