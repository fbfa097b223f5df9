"""Where the time went, depth, cache and harness: the numbers beside the figures."""

from __future__ import annotations

from edge_runner.results.report.elements import facts, scroller
from edge_runner.results.report.markup import Html, join, tag
from edge_runner.results.report.turns import Turns
from edge_runner.results.report.values import Numbers, count, rate, ratio, share
from edge_runner.results.schema import Summary
from edge_runner.results.table import duration

POSITIONS_SHOWN = 100
POSITION_COLUMNS = ("Turn", "Turns there", "Prompt p50", "Latency p50", "TTFT p50")


def ledger_totals(summary: Summary, numbers: Numbers) -> Html:
    """Each part's share of all the time inside turns, as a bar with its number."""
    whole_ns = sum(max(0, part_ns) for part_ns in summary.ledger_ns.values())
    rows = [
        tag(
            "tr",
            tag("th", part, scope="row"),
            tag(
                "td",
                tag("span", style=f"width:{part_ns / whole_ns:.2%};background:var(--{part})")
                if part.isalpha()
                else None,
                class_="bar",
                aria_hidden="true",
            ),
            tag("td", share(part_ns / whole_ns), class_="n"),
            tag("td", numbers.show("ledger_ns", part), class_="n"),
        )
        for part, part_ns in summary.ledger_ns.items()
        if part_ns > 0
    ]
    if not rows:
        return Html("")
    head = tag(
        "tr",
        tag("th", "Part", scope="col"),
        tag("th", tag("span", "Bar", class_="sr"), scope="col"),
        tag("th", "Share", scope="col"),
        tag("th", "Total", scope="col"),
    )
    return tag("table", tag("thead", head), tag("tbody", rows), class_="bars")


def depth_table(summary: Summary, numbers: Numbers) -> Html:
    rows = [
        tag(
            "tr",
            tag("th", f"{name} tokens", scope="row"),
            tag("td", numbers.show("by_depth", name, "latency_ns", "n", as_=count), class_="n"),
            (
                tag("td", numbers.statistic("by_depth", name, series, statistic), class_="n")
                for series in ("latency_ns", "ttft_ns", "tpot_ns")
                for statistic in ("median", "p90")
            ),
            (
                tag("td", numbers.show("by_depth", name, "rates", key, as_=rate), class_="n")
                for key in ("prefill_tokens_per_s", "decode_tokens_per_s")
            ),
        )
        for name, depth in summary.by_depth.items()
        if depth.latency_ns.n
    ]
    heads = (
        "Prompt", "Turns", "Latency p50", "Latency p90", "TTFT p50", "TTFT p90", "TPOT p50",
        "TPOT p90", "Prefill tok/s", "Decode tok/s",
    )  # fmt: skip
    return scroller("Results by context depth", heads, rows) if rows else Html("")


def position_table(summary: Summary) -> Html:
    rows = [
        tag(
            "tr",
            tag("th", row.turn, scope="row"),
            (
                tag("td", shown, class_="n")
                for shown in (
                    count(row.n),
                    count(row.prompt_median_tokens),
                    duration(row.latency_median_ns),
                    duration(row.ttft_median_ns),
                )
            ),
        )
        for row in summary.by_position[:POSITIONS_SHOWN]
    ]
    if not rows:
        return Html("")
    more = len(summary.by_position) - len(rows)
    return tag(
        "details",
        tag("summary", "By place in the session"),
        scroller("Medians by place in the session", POSITION_COLUMNS, rows),
        tag("p", f"and {more:,} later places, in summary.json", class_="note") if more else None,
    )


def cache_facts(numbers: Numbers) -> Html:
    return facts(
        ("prompt tokens", numbers.show("tokens", "prompt", as_=count)),
        ("cached", numbers.show("rates", "cached_share", as_=share)),
        ("evaluated", numbers.show("tokens", "evaluated", as_=count)),
        (
            "evaluated per new token (1.000 is the least)",
            numbers.show("rates", "evaluated_per_new", as_=ratio),
        ),
        ("prompts that diverged", numbers.show("divergences", "turns", as_=count)),
    )


def divergences(summary: Summary, turns: Turns, numbers: Numbers) -> Html:
    if not turns.diverged:
        return tag("p", "Every prompt began with what its sequence held.", class_="note")
    rows = (
        tag(
            "tr",
            tag("th", turn.session, scope="row"),
            tag("td", turn.turn, class_="n"),
            tag("td", f"{turn.divergence.index:,}", class_="n"),
            tag("td", f"{turn.tokens.prompt:,}", class_="n"),
            tag("td", f"{turn.tokens.evaluated - turn.tokens.new:,}", class_="n"),
            tag("td", turn.divergence.reason, class_="wrap"),
        )
        for turn in turns.diverged
        if turn.divergence is not None
    )
    reasons = summary.divergences.reasons
    more = summary.divergences.turns - len(turns.diverged)
    tally = tag(
        "p",
        join(
            tag("span", numbers.show("divergences", "reasons", why, as_=count), f" {why}")
            for why in reasons
        ),
        class_="facts",
    )
    heads = ("Session", "Turn", "At token", "Prompt", "Evaluated again", "Reason")
    return tag(
        "details",
        tag("summary", "Every divergence and its reason" if more <= 0 else "Divergences"),
        tally,
        scroller("Divergences", heads, rows),
        tag("p", f"and {more:,} more, in events.jsonl", class_="note") if more > 0 else None,
        open=len(turns.diverged) <= 10,
    )


def harness(summary: Summary, numbers: Numbers) -> Html:
    gaps = (
        (f"between turns: {part.replace('_', ' ')}, total", numbers.show("gap_ns", part))
        for part, gap_ns in summary.gap_ns.items()
        if gap_ns
    )
    return facts(
        ("a turn, median", numbers.statistic("harness", "per_turn_ns", "median")),
        ("a turn, p90", numbers.statistic("harness", "per_turn_ns", "p90")),
        ("a turn, most", numbers.statistic("harness", "per_turn_ns", "max")),
        ("of all latency", numbers.show("harness", "share", as_=share)),
        *gaps,
    )
