"""The figures, as the plain data and layout that Plotly.js draws.

Built as dictionaries: importing Plotly's Python side would cost more time than the whole report.
Colours are names of CSS variables (`--prefill`), which the page resolves for a light or a dark
screen. Foreign text goes through `markup.text`: Plotly reads a little HTML in labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edge_runner.results.events import TurnEvent
from edge_runner.results.report.axes import cumulative, histogram, time_axis
from edge_runner.results.report.markup import text
from edge_runner.results.report.turns import Bar, Turns, measured
from edge_runner.results.schema import DepthSummary, Summary
from edge_runner.results.statistics import nearest_rank
from edge_runner.results.table import duration
from edge_runner.results.tally import DEPTHS
from edge_runner.trace import PARTS

Trace = dict[str, Any]

PATTERNED_BARS = 120
NAMED_SESSIONS = 6
MARKS = {"failed": "x", "aborted": "square-open", "empty": "circle-open"}
DISTRIBUTION_FROM = 5


@dataclass(frozen=True, slots=True)
class Figure:
    """`alt` says in a sentence what a viewer sees; `caption` also how it can mislead."""

    id: str
    data: list[Trace]
    layout: dict[str, Any]
    height: int
    alt: str
    caption: str


def figures(summary: Summary, turns: Turns) -> dict[str, Figure]:
    """The figures there is something to draw for, by id."""
    drawn = (
        _ledger(turns),
        _depth(summary, turns),
        _rates(summary, turns),
        _cache(turns),
        _distribution(summary, turns),
    )
    return {figure.id: figure for figure in drawn if figure is not None}


def _ledger(turns: Turns) -> Figure | None:
    bars = turns.bars
    if not bars:
        return None
    places = _places(bars)
    heights = [bar.latency_ns / bar.turns for bar in bars]
    data: list[Trace] = []
    for part in PARTS:
        values = [bar.ledger_ns[part] / bar.turns for bar in bars]
        if not any(values):
            continue
        marker: dict[str, Any] = {"color": f"--{part}", "line": {"width": 0}}
        if part == "decode" and len(bars) <= PATTERNED_BARS:
            marker["pattern"] = {"shape": "/", "size": 5, "solidity": 0.22, "fgcolor": "--paper"}
        data.append(
            {
                "type": "bar", "name": part, "x": places, "y": list(map(round, values)),
                "marker": marker, "hoverinfo": "skip",
            }
        )  # fmt: skip
    data.append(_hover(places, heights, bars, _bar_hover))
    top = max(heights)
    for status, symbol in MARKS.items():
        at = [index for index, bar in enumerate(bars) if bar.statuses[status]]
        if at:
            data.append(
                {
                    "type": "scatter", "mode": "markers", "name": status,
                    "x": [places[i] for i in at], "y": [heights[i] + top * 0.035 for i in at],
                    "marker": {"symbol": symbol, "size": 8, "color": f"--{status}",
                               "line": {"width": 1.5, "color": f"--{status}"}},
                    "hoverinfo": "skip",
                }
            )  # fmt: skip
    axis = time_axis(round(top * 1.08), round(top), 0)
    layout = {
        "barmode": "stack",
        "bargap": 0.12 if len(bars) <= 300 else 0,
        "hovermode": "x",
        "xaxis": _session_axis(bars, places),
        "yaxis": axis | {"title": {"text": "time in the turn"}},
    }
    what = "Each bar is one turn" if turns.per_bar == 1 else _grouped(turns)
    return Figure(
        id="ledger",
        data=data,
        layout=layout,
        height=380,
        alt=f"Stacked bars of {turns.total:,} turns in order of issue, by part of the ledger.",
        caption=(
            f"{what}, in order of issue, split by where its time went; a gap separates sessions, "
            "and the time between turns is not in it. A tall bar may only be a long prompt or a "
            "long answer: look at the rates below before calling a turn slow."
        ),
    )


def _depth(summary: Summary, turns: Turns) -> Figure | None:
    points = [turn for turn in turns.points if measured(turn)]
    if not points:
        return None
    latency, first = summary.latency_ns, summary.ttft_ns
    answered = [turn for turn in points if turn.ttft_ns is not None]
    deepest = max(turn.tokens.prompt for turn in points)
    data = [
        _points("latency", points, [turn.latency_ns for turn in points], "--decode", "circle"),
        _points("TTFT", answered, [turn.ttft_ns or 0 for turn in answered], "--prefill", "diamond"),
        _levels("latency, median of the range", summary, deepest, "--decode-deep", "solid",
                lambda depth: depth.latency_ns.median),
        _levels("TTFT, median of the range", summary, deepest, "--prefill-deep", "dash",
                lambda depth: depth.ttft_ns.median),
    ]  # fmt: skip
    low = min(value for value in (latency.min, first.min) if value is not None)
    axis = time_axis(latency.max or 1, latency.median or 1, low)
    return Figure(
        id="depth",
        data=data,
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


def _rates(summary: Summary, turns: Turns) -> Figure | None:
    points = [turn for turn in turns.points if measured(turn)]
    data: list[Trace] = []
    for row, (part, tokens, color, symbol) in enumerate(
        (("prefill", "evaluated", "--prefill", "diamond"), ("decode", "output", "--decode", "circle"))
    ):
        timed = [turn for turn in points if turn.ledger_ns.get(part) and _tokens(turn, tokens)]
        if not timed:
            continue
        sizes = [_tokens(turn, tokens) for turn in timed]
        rates = [
            round(size * 1e9 / turn.ledger_ns[part], 2)
            for size, turn in zip(sizes, timed, strict=True)
        ]
        trace = _points(part, timed, rates, color, symbol, unit=" tokens/s")
        largest = max(sizes)
        trace["marker"]["size"] = [round(4 + 14 * (size / largest) ** 0.5, 1) for size in sizes]
        trace["marker"]["opacity"] = 0.45
        deepest = max(turn.tokens.prompt for turn in points)
        name = f"{part}, whole range"
        levels = _levels(name, summary, deepest, f"--{part}-deep", "solid",
                         lambda depth, part=part: getattr(depth.rates, f"{part}_tokens_per_s"))  # fmt: skip
        for item in (trace, levels):
            item["yaxis"] = "y" if row == 0 else "y2"
            data.append(item)
    if not data:
        return None
    axis = {"rangemode": "tozero", "nticks": 5}
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


def _cache(turns: Turns) -> Figure | None:
    bars = [bar for bar in turns.bars if bar.prompt]
    if not bars:
        return None
    places = _places(bars)
    reached = [round(bar.cached / bar.prompt, 4) for bar in bars]
    possible = [round((bar.prompt - bar.new) / bar.prompt, 4) for bar in bars]
    data: list[Trace] = [
        {
            "type": "scatter", "mode": "lines", "name": "most that could be cached",
            **_broken_at_gaps(places, possible), "hoverinfo": "skip",
            "line": {"color": "--muted", "width": 1.25, "shape": "hvh"},
        },
        {
            "type": "scatter", "mode": "markers", "name": "cached",
            "x": places, "y": reached, "hoverinfo": "skip",
            "marker": {"color": "--prefill", "size": 6 if len(bars) <= 300 else 4},
        },
        _hover(places, reached, bars, _cache_hover),
    ]  # fmt: skip
    at = [index for index, bar in enumerate(bars) if bar.divergences]
    if at:
        data.append(
            {
                "type": "scatter", "mode": "markers", "name": "diverged",
                "x": [places[i] for i in at], "y": [reached[i] for i in at],
                "marker": {"symbol": "x-thin", "size": 11, "color": "--failed",
                           "line": {"width": 2.5, "color": "--failed"}},
                "hoverinfo": "skip",
            }
        )  # fmt: skip
    each = "turn" if turns.per_bar == 1 else f"{turns.per_bar} turns"
    return Figure(
        id="cache",
        data=data,
        layout={
            "hovermode": "x",
            "xaxis": _session_axis(bars, places),
            "yaxis": {
                "range": [-0.04, 1.06],
                "tickformat": ".0%",
                "title": {"text": "share of the prompt"},
            },
        },
        height=320,
        alt="Share of each prompt that came from the cache, and prompts that diverged from it.",
        caption=(
            f"How much of each prompt came from the cache, a mark per {each}, against the most "
            "that could have; a cross is a prompt that stopped matching. A high share can hide a "
            "costly miss: 5 % of a 20,000-token prompt is 1,000 tokens to evaluate again."
        ),
    )


def _distribution(summary: Summary, turns: Turns) -> Figure | None:
    ordered = sorted(turns.latencies_ns)
    if len(ordered) < DISTRIBUTION_FROM:
        return None
    edges, counts = histogram(ordered)
    values, shares = cumulative(ordered)
    centres = [(low + high) / 2 for low, high in zip(edges, edges[1:], strict=False)]
    widths = [high - low for low, high in zip(edges, edges[1:], strict=False)]
    bins = [
        f"{duration(round(low))} to {duration(round(high))}<br>{n:,} turns"
        for low, high, n in zip(edges, edges[1:], counts, strict=False)
    ]
    data: list[Trace] = [
        {
            "type": "bar", "name": "turns", "x": centres, "y": counts, "width": widths,
            "marker": {"color": "--prefill", "line": {"width": 1, "color": "--paper"}},
            "hovertext": bins, "hovertemplate": "%{hovertext}<extra></extra>",
            "showlegend": False,
        },
        {
            "type": "scatter", "mode": "lines", "name": "share at or below", "yaxis": "y2",
            "x": values, "y": shares, "line": {"shape": "hv", "color": "--ink", "width": 2},
            "hovertext": [duration(value) for value in values],
            "hovertemplate": "%{y:.1%} of turns within %{hovertext}<extra></extra>",
            "showlegend": False,
        },
    ]  # fmt: skip
    series = summary.latency_ns
    for name, value_ns, color, dash in (
        ("median", series.median, "--muted", "dot"),
        ("p90", series.p90, "--decode-deep", "solid"),
        ("p90 by early stopping", series.early_stopping.p90, "--failed", "dash"),
    ):
        if value_ns is not None:
            data.append(
                {
                    "type": "scatter", "mode": "lines", "yaxis": "y2",
                    "name": f"{name} {duration(value_ns)}", "x": [value_ns] * 2, "y": [0, 1],
                    "line": {"color": color, "dash": dash, "width": 2}, "hoverinfo": "skip",
                }
            )  # fmt: skip
    axis = time_axis(ordered[-1], nearest_rank(ordered, 0.5), ordered[0])
    estimate = (
        "the early-stopping estimate is, with 99 % confidence, no less than the true p90"
        if series.early_stopping.p90 is not None
        else "there are too few samples for an early-stopping estimate (p90 needs 64)"
    )
    scale = " The scale is logarithmic." if axis.get("type") == "log" else ""
    return Figure(
        id="distribution",
        data=data,
        layout={
            "hovermode": "closest",
            "xaxis": axis | {"anchor": "y2", "title": {"text": "latency"}},
            "yaxis": {"domain": [0.56, 1], "nticks": 5, "title": {"text": "turns"}},
            "yaxis2": {
                "domain": [0, 0.46],
                "range": [0, 1.02],
                "tickformat": ".0%",
                "title": {"text": "share"},
            },
        },
        height=440,
        alt=f"Histogram and cumulative share of the latencies of {len(ordered):,} turns.",
        caption=(
            f"The latencies of all {len(ordered):,} measured turns, as counts and as the share at "
            f"or below; {estimate}.{scale} Turns of one session resemble each other, so there is "
            "less independent evidence here than the count suggests."
        ),
    )


def _points(
    name: str,
    turns: Sequence[TurnEvent],
    values: Sequence[float],
    color: str,
    symbol: str,
    unit: str | None = None,
) -> Trace:
    shown = (f"{value:,.1f}{unit}" if unit else duration(round(value)) for value in values)
    return {
        "type": "scatter", "mode": "markers", "name": name,
        "x": [turn.tokens.prompt for turn in turns], "y": list(values),
        "marker": {"color": color, "symbol": symbol, "size": 7 if len(turns) <= 300 else 5,
                   "opacity": 0.8 if len(turns) <= 300 else 0.5},
        "hovertext": [
            f"<b>{text(turn.session)}</b>, turn {turn.turn}<br>{name} {value}<br>"
            f"{turn.tokens.prompt:,} prompt, {turn.tokens.evaluated:,} evaluated, "
            f"{turn.tokens.output:,} output"
            for turn, value in zip(turns, shown, strict=True)
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }  # fmt: skip


def _levels(
    name: str, summary: Summary, deepest: int, color: str, dash: str, value: Any
) -> Trace:
    """A level line over each range of depth that has a value."""
    x: list[float | None] = []
    y: list[float | None] = []
    start = 0.0
    for depth, beyond in DEPTHS:
        end = min(beyond, deepest)
        level = value(summary.by_depth.get(depth, DepthSummary()))
        if level is not None and end >= start:
            x += [start, end, None]
            y += [level, level, None]
        start = beyond
    return {
        "type": "scatter", "mode": "lines", "name": name, "x": x, "y": y, "hoverinfo": "skip",
        "line": {"color": color, "dash": dash, "width": 3},
    }  # fmt: skip


def _hover(
    places: Sequence[int], heights: Sequence[float], bars: Sequence[Bar], line: Any
) -> Trace:
    """One label a bar with everything in it, on a mark that is not drawn."""
    return {
        "type": "scatter", "mode": "markers", "x": list(places), "y": list(heights),
        "marker": {"opacity": 0, "color": "--ink"}, "showlegend": False,
        "hovertext": [line(bar) for bar in bars], "hovertemplate": "%{hovertext}<extra></extra>",
    }  # fmt: skip


def _bar_hover(bar: Bar) -> str:
    whole_ns = max(bar.latency_ns, 1)
    mean = " on average" if bar.turns > 1 else ""
    lines = [_bar_title(bar), f"latency {duration(round(bar.latency_ns / bar.turns))}{mean}"]
    for part, part_ns in bar.ledger_ns.items():
        if part_ns:
            of_turn = duration(round(part_ns / bar.turns))
            lines.append(f"{text(part)} {of_turn} ({part_ns / whole_ns:.1%})")
    lines.append(_bar_tokens(bar))
    return "<br>".join(lines)


def _cache_hover(bar: Bar) -> str:
    lines = [_bar_title(bar), f"{bar.cached / bar.prompt:.1%} of the prompt cached"]
    lines += [f"diverged at token {at.index:,}: {text(at.reason)}" for at in bar.divergences[:5]]
    return "<br>".join([*lines, _bar_tokens(bar)])


def _bar_title(bar: Bar) -> str:
    turns = f"turn {bar.first}" if bar.turns == 1 else f"turns {bar.first} to {bar.last}"
    worse = [f"{n} {status}" for status, n in bar.statuses.items() if status in MARKS]
    notes = [*(worse if bar.turns > 1 else bar.statuses), *(["again"] if bar.repeat else [])]
    return f"<b>{text(bar.session)}</b>, {turns}" + (f" ({', '.join(notes)})" if notes else "")


def _bar_tokens(bar: Bar) -> str:
    return (
        f"tokens: {bar.prompt:,} prompt = {bar.cached:,} cached + {bar.evaluated:,} evaluated; "
        f"{bar.new:,} new; {bar.output:,} output"
    )


def _places(bars: Sequence[Bar]) -> list[int]:
    """Where each bar stands: one after the other, with a place left free between sessions."""
    places: list[int] = []
    gap = max(1, len(bars) // 150)
    for index, bar in enumerate(bars):
        before = places[-1] + 1 if places else 0
        places.append(before + (gap if index and bars[index - 1].group != bar.group else 0))
    return places


def _session_axis(bars: Sequence[Bar], places: Sequence[int]) -> dict[str, Any]:
    """Sessions under their bars: by name where a few, by number where many."""
    spans: list[tuple[Bar, int, int]] = []
    for bar, place in zip(bars, places, strict=True):
        if spans and spans[-1][0].group == bar.group:
            spans[-1] = (spans[-1][0], spans[-1][1], place)
        else:
            spans.append((bar, place, place))
    named = len(spans) <= NAMED_SESSIONS
    every = max(1, len(spans) // 24)
    ticks = [
        ((start + end) / 2, _shorten(bar.session) if named else str(number))
        for number, (bar, start, end) in enumerate(spans, 1)
        if named or (number - 1) % every == 0
    ]
    return {
        "title": {"text": "session" if named else "session (number)"},
        "tickvals": [place for place, _ in ticks],
        "ticktext": [str(text(label)) for _, label in ticks],
        "range": [-1, places[-1] + 1],
        "showgrid": False,
    }


def _shorten(name: str, limit: int = 22) -> str:
    return name if len(name) <= limit else "…" + name[1 - limit :]


def _broken_at_gaps(places: Sequence[int], values: Sequence[float]) -> dict[str, Any]:
    x: list[int | None] = []
    y: list[float | None] = []
    for place, value in zip(places, values, strict=True):
        if x and place != (x[-1] or 0) + 1:
            x.append(None)
            y.append(None)
        x.append(place)
        y.append(value)
    return {"x": x, "y": y}


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


def _grouped(turns: Turns) -> str:
    return (
        f"This run has {turns.total:,} turns: each bar is the mean of up to {turns.per_bar} "
        "consecutive turns of one session"
    )


def _every(turns: Turns) -> str:
    return "each turn" if turns.stride == 1 else f"one turn in {turns.stride}"


def _tokens(turn: TurnEvent, name: str) -> int:
    count: int = getattr(turn.tokens, name)
    return count


