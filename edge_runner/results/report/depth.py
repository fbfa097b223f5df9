"""Figures over context depth: latency and TTFT, and token rates, against prompt tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from edge_runner.results.events import TurnEvent
from edge_runner.results.report.axes import time_axis
from edge_runner.results.report.figure import Figure, Trace
from edge_runner.results.report.markup import label
from edge_runner.results.report.turns import Turns, measured
from edge_runner.results.schema import DepthSummary, Summary
from edge_runner.results.table import duration
from edge_runner.results.tally import DEPTHS

MANY_POINTS = 300


def latency(summary: Summary, turns: Turns) -> Figure | None:
    points = [turn for turn in turns.points if measured(turn)]
    if not points:
        return None
    latency, first = summary.latency_ns, summary.ttft_ns
    answered = [turn for turn in points if turn.ttft_ns is not None]
    deepest = max(turn.tokens.prompt for turn in points)
    data = [
        _points("latency", points, [turn.latency_ns for turn in points], "--decode", "circle"),
        _points("TTFT", answered, [turn.ttft_ns or 0 for turn in answered], "--prefill", "diamond"),
        _levels("latency, median of the range", summary, deepest, "--decode-deep",
                lambda depth: depth.latency_ns.median),
        _levels("TTFT, median of the range", summary, deepest, "--prefill-deep",
                lambda depth: depth.ttft_ns.median, dash="dash"),
    ]  # fmt: skip
    low = min(value for value in (latency.min, first.min) if value is not None)
    axis = time_axis(latency.max or 1, latency.median or 1, low)
    return Figure(
        id="depth",
        data=[trace for trace in data if trace["x"]],
        layout={
            "hovermode": "closest",
            "xaxis": _prompt_axis(deepest),
            "yaxis": axis | {"title": {"text": "time since issue"}},
            "shapes": _depth_lines(deepest),
        },
        height=400,
        alt="Latency and time to first token of each turn over the tokens in its prompt.",
        caption=(
            f"Latency and time to first token of {_every(turns)} over the tokens in its prompt; "
            "level lines are the medians of each range of depth. The cache makes a turn pay for "
            "its new tokens only, so a deep turn can be quick and a shallow one that lost its "
            "cache slow: depth is not the whole story."
        ),
    )


def rates(summary: Summary, turns: Turns) -> Figure | None:
    points = [turn for turn in turns.points if measured(turn)]
    deepest = max((turn.tokens.prompt for turn in points), default=0)
    prefill = [(turn, turn.tokens.evaluated, turn.ledger_ns.get("prefill", 0)) for turn in points]
    decode = [(turn, turn.tokens.output, turn.ledger_ns.get("decode", 0)) for turn in points]
    data = [
        *_rate("prefill", prefill, "diamond", "y"),
        _levels("prefill, whole range", summary, deepest, "--prefill-deep",
                lambda depth: depth.rates.prefill_tokens_per_s),
        *_rate("decode", decode, "circle", "y2"),
        _levels("decode, whole range", summary, deepest, "--decode-deep",
                lambda depth: depth.rates.decode_tokens_per_s, yaxis="y2"),
    ]  # fmt: skip
    data = [trace for trace in data if trace["x"]]
    if not data:
        return None
    axis = {"rangemode": "tozero", "nticks": 5, "tickformat": ",~r"}
    return Figure(
        id="rates",
        data=data,
        layout={
            "hovermode": "closest",
            "xaxis": _prompt_axis(deepest) | {"anchor": "y2"},
            "yaxis": axis | {"domain": [0.55, 1], "title": {"text": "prefill tokens/s"}},
            "yaxis2": axis | {"domain": [0, 0.45], "title": {"text": "decode tokens/s"}},
            "shapes": _depth_lines(deepest),
        },
        height=480,
        alt="Prefill and decode tokens per second of each turn over the tokens in its prompt.",
        caption=(
            f"Tokens per second of {_every(turns)}, prefill above and decode below; the larger a "
            "mark, the more tokens it stands for, and level lines are whole ranges of depth. Small "
            "marks scatter because fixed costs fall on few tokens: trust the lines before the "
            "outliers."
        ),
    )


def _points(
    name: str, turns: Sequence[TurnEvent], values: Sequence[int], color: str, symbol: str
) -> Trace:
    few = len(turns) <= MANY_POINTS
    shown = [f"{name} {duration(value)}" for value in values]
    return _marks(name, turns, values, shown) | {
        "marker": {
            "color": color,
            "symbol": symbol,
            "size": 7 if few else 5,
            "opacity": 0.8 if few else 0.5,
        }
    }


def _rate(
    part: str, timed: Sequence[tuple[TurnEvent, int, int]], symbol: str, yaxis: str
) -> list[Trace]:
    """Tokens per second of each turn, from (turn, tokens, duration_ns); the area of a mark grows
    with the tokens. Nothing where nothing was done."""
    timed = [item for item in timed if item[1] and item[2] > 0]
    if not timed:
        return []
    rates = [round(tokens * 1e9 / duration_ns, 2) for _, tokens, duration_ns in timed]
    largest = max(tokens for _, tokens, _ in timed)
    shown = [
        f"{part} {rate:,.1f} tokens/s over {tokens:,}"
        for rate, (_, tokens, _) in zip(rates, timed, strict=True)
    ]
    marker = {
        "color": f"--{part}",
        "symbol": symbol,
        "opacity": 0.45,
        "size": [round(4 + 14 * (tokens / largest) ** 0.5, 1) for _, tokens, _ in timed],
    }
    trace = _marks(part, [turn for turn, _, _ in timed], rates, shown)
    return [trace | {"marker": marker, "yaxis": yaxis}]


def _marks(
    name: str, turns: Sequence[TurnEvent], values: Sequence[float], shown: Sequence[str]
) -> Trace:
    return {
        "type": "scatter", "mode": "markers", "name": name,
        "x": [turn.tokens.prompt for turn in turns], "y": list(values),
        "hovertext": [
            f"<b>{label(turn.session)}</b>, turn {turn.turn}<br>{line}<br>"
            f"{turn.tokens.prompt:,} prompt, {turn.tokens.evaluated:,} evaluated, "
            f"{turn.tokens.output:,} output"
            for turn, line in zip(turns, shown, strict=True)
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }  # fmt: skip


def _levels(
    name: str,
    summary: Summary,
    deepest: int,
    color: str,
    value: Callable[[DepthSummary], float | None],
    *,
    dash: str = "solid",
    yaxis: str = "y",
) -> Trace:
    """A level line over each range of depth that has a value."""
    x: list[float | None] = []
    y: list[float | None] = []
    start = 0.0
    for depth, beyond in DEPTHS:
        end = min(beyond, deepest)
        level = value(summary.by_depth[depth]) if depth in summary.by_depth else None
        if level is not None and end >= start:
            x += [start, end, None]
            y += [level, level, None]
        start = beyond
    return {
        "type": "scatter", "mode": "lines", "name": name, "x": x, "y": y, "yaxis": yaxis,
        "hoverinfo": "skip", "line": {"color": color, "dash": dash, "width": 3},
    }  # fmt: skip


def _prompt_axis(deepest: int) -> dict[str, Any]:
    return {
        "title": {"text": "prompt tokens"},
        "range": [0, max(deepest, 1) * 1.03],
        "tickformat": ",d",
        "nticks": 8,
    }


def _depth_lines(deepest: int) -> list[dict[str, Any]]:
    """Where one range of depth ends and the next begins."""
    return [
        {
            "type": "line", "xref": "x", "yref": "paper", "x0": beyond, "x1": beyond,
            "y0": 0, "y1": 1, "layer": "below",
            "line": {"color": "--muted", "width": 1, "dash": "dot"},
        }
        for _, beyond in DEPTHS
        if beyond < deepest
    ]  # fmt: skip


def _every(turns: Turns) -> str:
    return "each turn" if turns.stride == 1 else f"one turn in {turns.stride}"
