"""A table of turns for each session."""

from __future__ import annotations

from edge_runner.results.events import TurnEvent
from edge_runner.results.report.elements import scroller
from edge_runner.results.report.markup import Html, join, tag, text
from edge_runner.results.report.turns import Turns, group_of, sessions_of
from edge_runner.results.report.values import rate
from edge_runner.results.schema import Summary
from edge_runner.results.table import duration

COLUMNS = (
    "Turn", "Status", "Prompt", "Cached", "Evaluated", "Output",
    "Latency", "TTFT", "TPOT", "Prefill/s", "Decode/s", "Note",
)  # fmt: skip


def turn_tables(summary: Summary, turns: Turns) -> Html:
    """One fold a session, each with its turns."""
    many = sum(1 for _ in sessions_of(turns.rows)) > 1
    folds = [_session(rows, turns, open_=not many) for rows in sessions_of(turns.rows)]
    more = turns.total - len(turns.rows)
    where = summary.per_turn_file or "events.jsonl"
    note = (
        f"The first {len(turns.rows):,} of {turns.total:,} turns to complete; {where} has them all."
        if more > 0
        else f"All {turns.total:,} turns, in order of issue."
    )
    return join((tag("p", note, class_="note"), folds))


def _session(rows: list[TurnEvent], turns: Turns, *, open_: bool) -> Html:
    first = rows[0]
    whole_ns = sum(row.latency_ns for row in rows)
    stream = f", stream {first.stream}" if first.stream else ""
    again = ", again" if first.repeat else ""
    size = f"{len(rows):,} turn" + ("s" if len(rows) > 1 else "")
    bad = sum(row.status not in ("completed", "empty") for row in rows)
    return tag(
        "details",
        tag(
            "summary",
            tag("strong", f"{turns.numbers[group_of(first)]}. {first.session}"),
            tag("span", f"{size}{stream}{again}, {duration(whole_ns)} in turns"),
            tag("span", f"{bad:,} failed or aborted", class_="bad") if bad else None,
        ),
        scroller(f"Turns of {first.session}", COLUMNS, join(map(_row, rows))),
        open=open_,
    )


def _row(turn: TurnEvent) -> Html:
    tokens, ledger_ns = turn.tokens, turn.ledger_ns
    cached = f"{tokens.cached / tokens.prompt:.1%}" if tokens.prompt else "-"
    numbers = (
        f"{tokens.prompt:,}",
        cached,
        f"{tokens.evaluated:,}",
        f"{tokens.output:,}",
        duration(turn.latency_ns),
        _or_dash(turn.ttft_ns),
        _or_dash(turn.tpot_ns),
        _rate(tokens.evaluated, ledger_ns.get("prefill", 0)),
        _rate(tokens.output, ledger_ns.get("decode", 0)),
    )
    cells = "".join(f'<td class="n">{number}</td>' for number in numbers)
    return Html(
        f'<tr><th scope="row">{turn.turn}</th><td class="{turn.status}">{turn.status}</td>{cells}'
        f'<td class="wrap">{text(_note(turn))}</td></tr>'
    )


def _note(turn: TurnEvent) -> str:
    at = turn.divergence
    diverged = f"diverged at {at.index:,}: {at.reason}" if at is not None else None
    finish = f"finish {turn.finish}" if turn.finish not in (None, "stop", "tool_calls") else None
    return "; ".join(filter(None, (turn.error, diverged, finish)))


def _or_dash(value_ns: int | None) -> str:
    return "-" if value_ns is None else duration(value_ns)


def _rate(tokens: int, duration_ns: int) -> str:
    return rate(tokens * 1e9 / duration_ns) if tokens and duration_ns > 0 else "-"
