"""Figures over the run: the ledger of each turn, and how much of each prompt was cached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from edge_runner.results.report.axes import time_axis
from edge_runner.results.report.figure import Figure, Trace
from edge_runner.results.report.markup import label
from edge_runner.results.report.turns import Bar, Group, Turns
from edge_runner.results.table import duration
from edge_runner.trace import PARTS

HATCHED_BARS = 120
LEAST_PLACES = 11
"""Room on the axis, so that the bars of a very short run do not fill it."""
HATCH = {"shape": "/", "size": 6, "solidity": 0.2, "fillmode": "overlay", "fgcolor": "--paper"}
MARKS = {"failed": "x", "aborted": "square-open", "empty": "circle-open"}


def ledger(turns: Turns) -> Figure | None:
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
        if part == "decode" and len(bars) <= HATCHED_BARS:
            marker["pattern"] = HATCH
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
        "xaxis": _session_axis(bars, places, turns),
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


def cache(turns: Turns) -> Figure | None:
    bars = [bar for bar in turns.bars if bar.prompt]
    if not bars:
        return None
    places = _places(bars)
    reached = [round(bar.cached / bar.prompt, 4) for bar in bars]
    possible = [round((bar.prompt - bar.new) / bar.prompt, 4) for bar in bars]
    data: list[Trace] = [
        {
            "type": "scatter", "mode": "markers", "name": "most that could be cached",
            "x": places, "y": possible, "hoverinfo": "skip",
            "marker": {"symbol": "line-ew", "size": 9, "color": "--muted",
                       "line": {"color": "--muted", "width": 1.5}},
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
                "hoverinfo": "skip", "cliponaxis": False,
            }
        )  # fmt: skip
    each = "turn" if turns.per_bar == 1 else f"{turns.per_bar} turns"
    return Figure(
        id="cache",
        data=data,
        layout={
            "hovermode": "x",
            "xaxis": _session_axis(bars, places, turns),
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


def _hover(
    places: Sequence[int],
    heights: Sequence[float],
    bars: Sequence[Bar],
    line: Callable[[Bar], str],
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
            lines.append(f"{label(part)} {of_turn} ({part_ns / whole_ns:.1%})")
    lines.append(_bar_tokens(bar))
    return "<br>".join(lines)


def _cache_hover(bar: Bar) -> str:
    lines = [_bar_title(bar), f"{bar.cached / bar.prompt:.1%} of the prompt cached"]
    lines += [f"diverged at token {at.index:,}: {label(at.reason)}" for at in bar.divergences[:5]]
    return "<br>".join([*lines, _bar_tokens(bar)])


def _bar_title(bar: Bar) -> str:
    turns = f"turn {bar.first}" if bar.turns == 1 else f"turns {bar.first} to {bar.last}"
    worse = [f"{n} {status}" for status, n in bar.statuses.items() if status in MARKS]
    notes = [*(worse if bar.turns > 1 else bar.statuses), *(["again"] if bar.repeat else [])]
    return f"<b>{label(bar.session)}</b>, {turns}" + (f" ({', '.join(notes)})" if notes else "")


def _bar_tokens(bar: Bar) -> str:
    return (
        f"{bar.prompt:,} prompt tokens, {bar.new:,} of them new<br>"
        f"{bar.cached:,} cached, {bar.evaluated:,} evaluated, {bar.output:,} output"
    )


def _places(bars: Sequence[Bar]) -> list[int]:
    """Where each bar stands: one after the other, with a place left free between sessions."""
    places: list[int] = []
    gap = max(1, len(bars) // 150)
    for index, bar in enumerate(bars):
        before = places[-1] + 1 if places else 0
        places.append(before + (gap if index and bars[index - 1].group != bar.group else 0))
    return places


def _session_axis(bars: Sequence[Bar], places: Sequence[int], turns: Turns) -> dict[str, Any]:
    """Sessions under their bars, by number: names would not fit a phone."""
    spans: dict[Group, tuple[int, int]] = {}
    for bar, place in zip(bars, places, strict=True):
        start, _ = spans.get(bar.group, (place, place))
        spans[bar.group] = (start, place)
    every = max(1, len(spans) // 20)
    ticks = [
        ((start + end) / 2, turns.numbers[group])
        for index, (group, (start, end)) in enumerate(spans.items())
        if index % every == 0
    ]
    return {
        "title": {"text": "session, numbered as under Turns"},
        "tickvals": [place for place, _ in ticks],
        "ticktext": [str(number) for _, number in ticks],
        "range": [-1, max(places[-1] + 1, LEAST_PLACES)],
        "showgrid": False,
    }


def _grouped(turns: Turns) -> str:
    return (
        f"This run has {turns.total:,} turns: each bar is the mean of up to {turns.per_bar} "
        "consecutive turns of one session"
    )
