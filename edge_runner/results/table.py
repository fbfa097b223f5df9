"""A run's summary as a table for the console: at most 80 columns, readable without colour.

Names, errors and paths come from outside: they are shown literally, never as markup, with control
characters made visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from edge_runner.results.events import TurnEvent
from edge_runner.results.run_folder import DamagedRun, ListedRun
from edge_runner.results.schema import Confidence, Summary
from edge_runner.results.statistics import Series
from edge_runner.results.verdict import unissued

WIDTH = 80
BAR_WIDTH = 34
LABEL_WIDTH = 10
NAME_WIDTH = 20
FAILURES_SHOWN = 5
NOT_VERIFIED = "not verified by MLCommons Association"
TOO_FEW = "too few samples"

_STYLE = {
    "completed": "green",
    "empty": "yellow",
    "failed": "bold red",
    "aborted": "yellow",
    "VALID": "green",
    "INVALID": "bold red",
}


def print_summary(
    summary: Summary, *, folder: Path | None = None, console: Console | None = None
) -> None:
    """Print the whole table. `folder` is named in the last line."""
    console = console or Console()
    _print(console, [_facts(_head(summary))])
    if summary.latency_ns.n:
        _print(console, [_metrics(summary)])
        _print(console, [_ledger(summary, console.options.ascii_only)])
        _print(console, [_depths(summary)])
    _print(console, [_facts(_tail(summary, folder))])


def print_turns(
    rows: Iterable[TurnEvent], *, limit: int = 20, console: Console | None = None
) -> None:
    """Print one line a turn, the first `limit` of them, and how many more there are."""
    console = console or Console()
    table = _table("session", "turn", "prompt", "cached", "latency", "TTFT", "tok/s", "status")
    more = 0
    for index, row in enumerate(rows):
        if index >= limit:
            more += 1
            continue
        tokens, decode_ns = row.tokens, row.ledger_ns.get("decode", 0)
        table.add_row(
            _clipped(row.session, NAME_WIDTH),
            str(row.turn),
            f"{tokens.prompt:,}",
            f"{tokens.cached / tokens.prompt:.0%}" if tokens.prompt else "-",
            duration(row.latency_ns),
            duration(row.ttft_ns),
            _number(tokens.output * 1e9 / decode_ns if decode_ns > 0 else None),
            Text(row.status + (" again" if row.repeat else ""), _STYLE[row.status]),
        )
    notes = [Text(f"and {more:,} more", "dim")] if more else []
    _print(console, [table, *notes])


def print_runs(runs: Iterable[ListedRun | DamagedRun], *, console: Console | None = None) -> None:
    """Print one line a run; a damaged one says why below its name."""
    console = console or Console()
    table = _table("run", "started (UTC)", "mode", "status", numbers=False)
    for run in runs:
        match run:
            case ListedRun(path, record):
                started = record.started.replace("T", " ")[:16]
                status = Text(record.status, _STYLE.get(record.status, ""))
                table.add_row(Text(visible(path.name)), started, record.mode, status)
            case DamagedRun(path, reason):
                name = Text(visible(path.name)).append(f"\n{visible(reason)}", "dim")
                table.add_row(name, "-", "-", Text("damaged", _STYLE["failed"]))
    _print(console, [table])


def visible(text: str) -> str:
    """`text` with everything that is not printable (control, bidirectional, surrogate characters)
    as its escape."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def duration(value_ns: int | None) -> str:
    """Nanoseconds at three digits in the unit that fits: "812 ns", "1.21 ms", "3.4 s", "12 min"."""
    if value_ns is None:
        return "-"
    for unit, size in (("h", 3600e9), ("min", 60e9), ("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        amount = value_ns / size
        if abs(amount) >= (2 if unit in ("h", "min") else 0.9995):
            return f"{amount:,.0f} {unit}" if abs(amount) >= 99.95 else f"{amount:#.3g} {unit}"
    return f"{value_ns} ns"


def _head(summary: Summary) -> Iterator[tuple[str, Text]]:
    """What must be known before any number is looked at."""
    turns, verdict, standing = summary.turns, summary.verdict, summary.standing
    setting = f"{summary.kind}, {summary.mode} mode, {summary.scenario} by {summary.unit}"
    yield (
        "run",
        Text(visible(summary.name), "bold").append(
            visible(f": {setting}, preset {summary.preset}"), "not bold"
        ),
    )
    status = Text().append(summary.status, _STYLE[summary.status])
    yield "status", status.append(f": {visible(summary.failure)}" if summary.failure else "")
    ours = Text("ours ").append(verdict.ours, _STYLE.get(verdict.ours, ""))
    if verdict.ours == "not-applicable":
        ours.append(" (preset quick claims no validity)")
    loadgen = verdict.loadgen or "no verdict"
    yield "verdict", ours.append("; LoadGen ").append(loadgen, _STYLE.get(loadgen, ""))
    for reason in verdict.reasons:
        yield "", Text(f"- {visible(reason)}")
    yield "turns", _turn_counts(summary)
    for failure in summary.failures[:FAILURES_SHOWN]:
        where = f"- {visible(failure.session)} turn {failure.turn}: "
        yield "", Text(where).append(visible(failure.error), "red")
    if (more := turns.failed + turns.repeated_failed - FAILURES_SHOWN) > 0:
        yield "", Text(f"- and {more:,} more that failed", "dim")
    yield "standing", Text(NOT_VERIFIED, "bold")
    if standing.reference:
        yield "", Text(f"{standing.division_like}-like, beside {visible(standing.reference)}")
    for deviation in standing.deviations:
        yield "", Text(f"- {visible(deviation)}", "dim")
    for warning in summary.warnings:
        yield "warning", Text(visible(warning), "yellow")


def _turn_counts(summary: Summary) -> Text:
    """Failed, empty, aborted and unissued are always there, so that a 0 can be seen."""
    turns = summary.turns
    expected = "?" if turns.expected is None else f"{turns.expected:,}"
    text = Text(f"{turns.completed:,} of {expected} completed")
    for count, what, style in (
        (turns.empty, "empty", _STYLE["empty"]),
        (turns.failed, "failed", _STYLE["failed"]),
        (turns.aborted, "aborted", _STYLE["aborted"]),
        (unissued(turns), "not issued", _STYLE["failed"]),
    ):
        text.append(", ").append(f"{count:,} {what}", style if count else "")
    if turns.repeated:
        text.append(f"; and {turns.repeated:,} repeated")
    return text


def _metrics(summary: Summary) -> Table:
    table = _table("", "n", "median", "p90", "p99", "max")
    for name, series in (
        ("latency", summary.latency_ns),
        ("TTFT", summary.ttft_ns),
        ("first delta", summary.first_delta_ns),
        ("TPOT", summary.tpot_ns),
    ):
        table.add_row(
            name,
            f"{series.n:,}",
            _statistic(series, series.median),
            _statistic(series, series.p90),
            _statistic(series, series.p99),
            _statistic(series, series.max),
        )
    return table


def _statistic(series: Series, value_ns: int | None) -> str:
    return TOO_FEW if value_ns is None and series.n else duration(value_ns)


def _ledger(summary: Summary, ascii_only: bool) -> Table:
    """Where the time went: each part's share of the latency as a bar."""
    total_ns = sum(summary.ledger_ns.values())
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", width=13, no_wrap=True)
    table.add_column(width=BAR_WIDTH, no_wrap=True)
    table.add_column(justify="right", width=7)
    table.add_column(justify="right", width=10)
    table.add_row("time in turns", "", "share", "total", style="dim")
    for part, part_ns in summary.ledger_ns.items():
        if part_ns:
            share = part_ns / total_ns
            table.add_row(part, bar(share, ascii_only), _share(share), duration(part_ns))
    return table


def _share(share: float) -> str:
    return "<0.1%" if 0 < share < 0.0005 else f"{share:.1%}"


def bar(share: float, ascii_only: bool = False) -> Text:
    """`share` (0 to 1) of BAR_WIDTH, to an eighth of a character where the console has them."""
    eighths = round(min(max(share, 0), 1) * BAR_WIDTH * 8)
    if ascii_only:
        return Text("#" * round(eighths / 8), "cyan")
    rest = " ▏▎▍▌▋▊▉"[eighths % 8].strip()
    return Text("█" * (eighths // 8) + rest, "cyan")


def _depths(summary: Summary) -> Table:
    table = _table("depth", "n", "latency p50", "TTFT p50", "prefill tok/s", "decode tok/s")
    for name, depth in summary.by_depth.items():
        if depth.latency_ns.n:
            table.add_row(
                name,
                f"{depth.latency_ns.n:,}",
                duration(depth.latency_ns.median),
                duration(depth.ttft_ns.median),
                _number(depth.rates.prefill_tokens_per_s),
                _number(depth.rates.decode_tokens_per_s),
            )
    return table


def _tail(summary: Summary, folder: Path | None) -> Iterator[tuple[str, Text]]:
    tokens, rates, gap_ns = summary.tokens, summary.rates, summary.gap_ns
    if (estimate_ns := summary.latency_ns.early_stopping.p90) is not None:
        yield "estimate", Text(f"p90 latency {duration(estimate_ns)} by early stopping, as LoadGen")
    if summary.latency_ns.n:
        yield "interval", _interval(summary.confidence)
    if summary.slo.attainment is not None:
        limits = ", ".join(
            f"{name} {limit:g} ms"
            for name, limit in (("TTFT", summary.slo.ttft_ms), ("TPOT", summary.slo.tpot_ms))
            if limit is not None
        )
        yield "SLO", Text(f"{summary.slo.attainment:.1%} of turns within {limits}")
    if tokens.prompt:
        cached = f"{rates.cached_share:.1%} cached" if rates.cached_share is not None else ""
        ratio = rates.evaluated_per_new
        per_new = f", {ratio:.3f} of the new ones" if ratio is not None else ""
        yield (
            "tokens",
            Text(
                f"prompt {tokens.prompt:,} ({cached}); evaluated {tokens.evaluated:,}{per_new}; "
                f"output {tokens.output:,}"
            ),
        )
    if summary.divergences.turns:
        reasons = ", ".join(f"{n:,} {why}" for why, n in summary.divergences.reasons.items())
        yield "cache", Text(f"{summary.divergences.turns:,} prompts diverged: {visible(reasons)}")
    for name, score in summary.scores.items():
        note = " (a weak signal of quality)" if "iou" in name.lower() else ""
        yield "score", Text(f"{visible(name)} {score:.4f}{note}")
    if summary.harness.per_turn_ns.n:
        harness = summary.harness
        share = f"; {_share(harness.share)} of latency" if harness.share is not None else ""
        p50_ns = harness.per_turn_ns.median
        yield "harness", Text(f"p50 {duration(p50_ns)} a turn{share}")
    if any(gap_ns.values()):
        parts = ", ".join(
            f"{part.replace('_', ' ')} {duration(ns)}" for part, ns in gap_ns.items() if ns
        )
        yield "gaps", Text(f"between turns: {parts}")
    if summary.cross_check is not None:
        yield "clocks", Text(visible(summary.cross_check.detail))
    if folder is not None:
        yield "folder", Text(visible(str(folder)))


def _interval(confidence: Confidence) -> Text:
    median = confidence.latency_ns.median
    if median is None:
        return Text(confidence.note or TOO_FEW)
    return Text(
        f"latency median {duration(median.low)} to {duration(median.high)} "
        f"({confidence.level:.0%}, over {confidence.sessions} sessions)"
    )


def _facts(facts: Iterable[tuple[str, Text]]) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(style="bold", width=LABEL_WIDTH)
    table.add_column(overflow="fold")
    for label, text in facts:
        table.add_row(label, text)
    return table


def _table(*headers: str, numbers: bool = True) -> Table:
    """A plain table: the first column a name, the others numbers that do not wrap."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for index, header in enumerate(headers):
        if index == 0:
            table.add_column(header, overflow="fold", style="bold")
        else:
            table.add_column(header, justify="right" if numbers else "left", no_wrap=True)
    return table


def _print(console: Console, parts: Sequence[RenderableType]) -> None:
    width = min(WIDTH, console.width)
    for part in parts:
        console.print(part, width=width, overflow="fold", highlight=False)
    console.print()


def _clipped(text: str, width: int) -> Text:
    clipped = Text(visible(text))
    if clipped.cell_len > width:
        clipped.truncate(width - 2)
        clipped.append("..")
    return clipped


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 99.95 else f"{value:#.3g}"
