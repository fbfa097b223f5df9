"""The distribution of latency, with LoadGen's early-stopping estimate."""

from __future__ import annotations

from itertools import pairwise

from edge_runner.results.report.axes import cumulative, histogram, time_axis
from edge_runner.results.report.figure import Figure, Trace
from edge_runner.results.report.turns import Turns
from edge_runner.results.schema import Summary
from edge_runner.results.statistics import nearest_rank
from edge_runner.results.table import duration

LEAST_TURNS = 5


def distribution(summary: Summary, turns: Turns) -> Figure | None:
    ordered = sorted(turns.latencies_ns)
    if len(ordered) < LEAST_TURNS:
        return None
    edges, counts = histogram(ordered)
    values, shares = cumulative(ordered)
    centres = [(low + high) / 2 for low, high in pairwise(edges)]
    widths = [high - low for low, high in pairwise(edges)]
    bins = [
        f"{duration(round(low))} to {duration(round(high))}<br>{n:,} turns"
        for (low, high), n in zip(pairwise(edges), counts, strict=True)
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
            "yaxis": {
                "domain": [0.56, 1],
                "nticks": 5,
                "tickformat": ",d",
                "title": {"text": "turns"},
            },
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
