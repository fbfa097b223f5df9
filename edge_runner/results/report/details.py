"""The rest of the page: where the time went, the cache, the stack, LoadGen, standing, turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from edge_runner.results.events import TurnEvent
from edge_runner.results.report.markup import Html, join, tag, text
from edge_runner.results.report.overview import scroller
from edge_runner.results.report.turns import Turns, sessions_of
from edge_runner.results.report.values import Numbers, count, rate, ratio, share
from edge_runner.results.schema import Identity, RunRecord, Summary
from edge_runner.results.table import NOT_VERIFIED, duration

NOT_RECORDED = "not recorded"
TURN_COLUMNS = (
    "Turn", "Status", "Prompt", "Cached", "Evaluated", "Output",
    "Latency", "TTFT", "TPOT", "Prefill/s", "Decode/s", "Note",
)  # fmt: skip


def ledger_totals(summary: Summary, numbers: Numbers) -> Html:
    """Each part's share of all the time inside turns, as a bar with its number."""
    whole_ns = sum(summary.ledger_ns.values())
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


def stack(summary: Summary, run: RunRecord, numbers: Numbers) -> Html:
    engine = run.engine
    capabilities = engine.get("capabilities") or {}
    details = engine.get("details") or {}
    context = capabilities.get("context_tokens") or details.get("context_tokens")
    shown = {"device", "runtime", "runtime_version", "engine", "threads", "architecture", "load_ns"}
    load_ns = engine.get("load_ns")
    warnings = engine.get("warnings") or ()
    return join(
        (
            tag(
                "div",
                _sheet(
                    "Engine",
                    ("device", engine.get("device")),
                    ("runtime", _joined(engine.get("runtime"), engine.get("runtime_version"))),
                    ("engine", engine.get("engine")),
                    ("threads", engine.get("threads")),
                    ("effective context, tokens", f"{context:,}" if context else None),
                    ("loaded in", duration(load_ns) if load_ns else None),
                    *((key, value) for key, value in _flat(details) if key not in shown),
                ),
                _sheet(
                    "Model",
                    *_identity(summary.model),
                    ("architecture", engine.get("architecture")),
                    ("weights", numbers.show("precision", "weights", as_=str, missing=NOT_RECORDED)),
                    ("KV cache", numbers.show("precision", "kv", as_=str, missing=NOT_RECORDED)),
                    ("file SHA-256 at load", engine.get("model_sha256")),
                ),
                _sheet("Data", *_identity(summary.data)),
                _sheet(
                    "Run",
                    ("edge-runner", run.edge_runner),
                    ("config fingerprint", run.fingerprint),
                    ("started", run.started),
                    ("ended", run.ended),
                    ("measured for", numbers.show("duration_ns")),
                    ("streams", run.streams),
                ),
                class_="sheets",
            ),
            (tag("p", tag("strong", "Engine. "), line, class_="alert warn") for line in warnings),
            tag(
                "details",
                tag("summary", "Environment"),
                _sheet(None, *_flat(summary.environment)),
            ),
        )
    )


def loadgen(summary: Summary, run: RunRecord) -> Html:
    check = summary.cross_check
    report = summary.loadgen
    lines: list[Html] = []
    if check is not None:
        tone = "bad" if check.clock_mismatch else "good"
        lines.append(tag("p", check.detail, ".", class_=f"alert {tone}"))
    else:
        lines.append(tag("p", "LoadGen's clock was not compared with ours.", class_="note"))
    sheets = []
    if report is not None and report.metrics:
        metrics = ((_worded(key), _metric(key, value)) for key, value in report.metrics.items())
        sheets.append(_sheet("LoadGen's own figures", *metrics))
    if run.settings:
        sheets.append(_sheet("Effective settings", *_flat(run.settings)))
    return join((lines, tag("div", sheets, class_="sheets") if sheets else None))


def standing(summary: Summary) -> Html:
    stands = summary.standing
    beside = (
        f"{stands.division_like}-like, beside {stands.reference}"
        if stands.reference
        else "not set beside any reference"
    )
    return join(
        (
            tag("p", tag("strong", f"This is {NOT_VERIFIED}"), f"; {beside}. Availability: ",
                stands.availability or "not stated", "."),
            tag("p", "It differs from the reference in:") if stands.deviations else None,
            tag("ul", (tag("li", deviation) for deviation in stands.deviations)),
        )
    )  # fmt: skip


def turn_tables(summary: Summary, turns: Turns) -> Html:
    """One fold a session, each with its turns."""
    many = sum(1 for _ in sessions_of(turns.rows)) > 1
    folds = [_session(rows, open_=not many) for rows in sessions_of(turns.rows)]
    more = turns.total - len(turns.rows)
    where = summary.per_turn_file or "events.jsonl"
    note = (
        f"The first {len(turns.rows):,} of {turns.total:,} turns to complete; {where} has them all."
        if more > 0
        else f"All {turns.total:,} turns, in order of issue."
    )
    return join((tag("p", note, class_="note"), folds))


def facts(*pairs: tuple[str, Html]) -> Html:
    return tag(
        "dl", (tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs),
        class_="strip",
    )  # fmt: skip


def _session(rows: list[TurnEvent], *, open_: bool) -> Html:
    first = rows[0]
    whole_ns = sum(row.latency_ns for row in rows)
    stream = f", stream {first.stream}" if first.stream else ""
    again = ", again" if first.repeat else ""
    turns = f"{len(rows):,} turn" + ("s" if len(rows) > 1 else "")
    bad = sum(row.status not in ("completed", "empty") for row in rows)
    return tag(
        "details",
        tag(
            "summary",
            tag("strong", first.session),
            tag("span", f"{turns}{stream}{again}, {duration(whole_ns)} in turns"),
            tag("span", f"{bad:,} failed or aborted", class_="bad") if bad else None,
        ),
        scroller(f"Turns of {first.session}", TURN_COLUMNS, join(map(_row, rows))),
        open=open_,
    )


def _row(turn: TurnEvent) -> Html:
    tokens, ledger_ns = turn.tokens, turn.ledger_ns
    cached = f"{tokens.cached / tokens.prompt:.1%}" if tokens.prompt else "–"
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
    return "–" if value_ns is None else duration(value_ns)


def _rate(tokens: int, duration_ns: int) -> str:
    return rate(tokens * 1e9 / duration_ns) if tokens and duration_ns > 0 else "–"


def _sheet(title: str | None, *pairs: tuple[str, object]) -> Html:
    rows = (
        tag("div", tag("dt", name), tag("dd", _fact(value)))
        for name, value in pairs
    )
    return tag("div", tag("h3", title) if title else None, tag("dl", rows), class_="sheet")


def _fact(value: object) -> Html:
    if value is None or value == "":
        return tag("span", NOT_RECORDED, class_="missing")
    if isinstance(value, Html):
        return value
    shown = str(value)
    return tag("code", shown) if len(shown) >= 40 and " " not in shown else text(shown)


def _identity(identity: Identity | None) -> Iterator[tuple[str, object]]:
    if identity is None:
        yield "name", None
        return
    yield "name", identity.name
    yield "SHA-256", identity.sha256
    yield "licence", identity.license
    yield "source", identity.source


def _flat(mapping: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Nested mappings as one list of worded names; what is None was not found."""
    for key, value in mapping.items():
        name = f"{prefix}{_worded(str(key))}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}: ")
        elif isinstance(value, bool):
            yield name, "yes" if value else "no"
        elif isinstance(value, int) and str(key) in ("total", "available", "limit"):
            yield name, f"{value / 2**30:.1f} GiB"
        elif isinstance(value, int) and str(key).endswith("_ns"):
            yield name.removesuffix(" ns"), duration(value)
        elif isinstance(value, (list, tuple)):
            yield name, ", ".join(map(str, value)) or "none"
        else:
            yield name, value


def _metric(key: str, value: object) -> object:
    if key.endswith("_ns") and isinstance(value, int):
        return duration(value)
    return value


def _worded(key: str) -> str:
    return key.removesuffix("_ns").replace("_", " ")


def _joined(*parts: object) -> str | None:
    return " ".join(str(part) for part in parts if part) or None


