"""The top of the page: what to know before any number, then the headline numbers."""

from __future__ import annotations

from collections.abc import Iterator

from edge_runner.results.report.elements import facts, scroller
from edge_runner.results.report.markup import Html, join, tag, text
from edge_runner.results.report.values import Numbers, count, rate, score, share
from edge_runner.results.schema import RunRecord, Slo, Summary
from edge_runner.results.table import NOT_VERIFIED, TOO_FEW
from edge_runner.results.verdict import unissued

ENERGY_MISSING = "unavailable"
SERIES = (
    ("latency_ns", "Latency"),
    ("ttft_ns", "TTFT"),
    ("first_delta_ns", "First delta"),
    ("tpot_ns", "TPOT"),
    ("overhead_ns", "Overhead"),
    ("unattributed_ns", "Unattributed"),
    ("query_latency_ns", "Query latency, all"),
)
GLYPHS = {"good": "✓", "bad": "✕", "warn": "!", "calm": "-"}
TONES = {
    "VALID": "good",
    "INVALID": "bad",
    "completed": "good",
    "failed": "bad",
    "aborted": "warn",
}


def masthead(summary: Summary, run: RunRecord) -> Html:
    started = run.started.replace("T", " ")[:16]
    setting = (
        f"{summary.kind}, {summary.mode} mode, {summary.scenario} by {summary.unit}, "
        f"preset {summary.preset}"
    )
    engine = run.engine
    model = summary.model.name if summary.model else engine.get("model") or "no model"
    runtime = " ".join(filter(None, (engine.get("runtime"), engine.get("runtime_version"))))
    on = ", ".join(filter(None, (engine.get("device"), runtime))) or "an engine not recorded"
    return join(
        (
            tag("p", "edge-runner run report", class_="kicker"),
            tag("h1", summary.name or "unnamed run"),
            tag("p", tag("strong", model), f" on {on}. ", setting, ".", class_="lede"),
            tag(
                "p",
                _pill(summary.status, summary.status),
                tag("span", f"started {started} UTC"),
                tag("strong", NOT_VERIFIED),
                class_="facts",
            ),
        )
    )


def before_reading(summary: Summary, numbers: Numbers) -> Html:
    """What failed, was empty, throttled or not measured; the verdicts and their reasons."""
    return join(
        (
            _failure(summary),
            tag(
                "div",
                tag("div", tag("h3", "Verdicts"), _verdicts(summary), class_="panel"),
                tag("div", tag("h3", "Turns"), _turns(summary, numbers), class_="panel"),
                tag("div", tag("h3", "Not measured"), _not_measured(summary), class_="panel"),
                class_="panels",
            ),
            _failures(summary),
            _warnings(summary),
        )
    )


def headline(summary: Summary, numbers: Numbers) -> Html:
    tiles = [
        _tile("Latency", "to the last token", summary, numbers, "latency_ns"),
        _tile("TTFT", "to the first token", summary, numbers, "ttft_ns"),
        _tile("TPOT", "an output token", summary, numbers, "tpot_ns"),
        _throughput(numbers),
    ]
    more = [
        (f"{name}, {_about_score(name)}", numbers.show("scores", name, as_=score))
        for name in summary.scores
    ]
    if summary.slo.attainment is not None:
        attained = numbers.show("slo", "attainment", as_=share)
        more.append((f"of turns within {_limits(summary.slo)}", attained))
    return join(
        (
            tag("div", tiles, class_="tiles"),
            _no_intervals(summary.confidence.note),
            facts(*more) if more else None,
            _series_table(summary, numbers),
        )
    )


def _failure(summary: Summary) -> Html:
    if not summary.failure:
        return Html("")
    return tag("p", tag("strong", "The run failed. "), summary.failure, class_="alert bad")


def _verdicts(summary: Summary) -> Html:
    verdict = summary.verdict
    ours = "not applicable" if verdict.ours == "not-applicable" else verdict.ours
    loadgen = verdict.loadgen or "no verdict"
    note = " (preset quick claims no validity)" if verdict.ours == "not-applicable" else ""
    return join(
        (
            tag("p", "Ours ", _pill(ours, verdict.ours), note),
            tag("p", "LoadGen ", _pill(loadgen, loadgen)),
            tag("ul", (tag("li", reason) for reason in verdict.reasons))
            if verdict.reasons
            else tag("p", "No rule was broken.", class_="note"),
        )
    )


def _turns(summary: Summary, numbers: Numbers) -> Html:
    """Failed, empty, aborted and unissued are always there, so that a 0 can be seen."""
    turns = summary.turns
    expected = numbers.show("turns", "expected", as_=count, missing="an unknown number")
    rows = [
        _count(numbers.show("turns", name, as_=count), name, getattr(turns, name), tone)
        for name, tone in (("empty", "warn"), ("failed", "bad"), ("aborted", "warn"))
    ]
    missing = unissued(turns)
    rows.append(_count(text(count(missing)), "not issued", missing, "bad"))
    if turns.repeated:
        shown = numbers.show("turns", "repeated", as_=count)
        rows.append(_count(shown, "repeated, in no series", 0, "calm"))
    if turns.repeated_failed:
        shown = numbers.show("turns", "repeated_failed", as_=count)
        rows.append(_count(shown, "of the repeats failed", turns.repeated_failed, "bad"))
    completed = numbers.show("turns", "completed", as_=count)
    return join(
        (tag("p", completed, " of ", expected, " completed"), tag("ul", rows, class_="counts"))
    )


def _count(shown: Html, what: str, value: int, tone: str) -> Html:
    tone = tone if value else "calm"
    mark = tag("span", GLYPHS[tone], aria_hidden="true", class_="glyph")
    return tag("li", mark, shown, f" {what}", class_=tone)


def _not_measured(summary: Summary) -> Html:
    return tag("ul", (tag("li", tag("strong", what), f": {why}") for what, why in _gaps(summary)))


def _gaps(summary: Summary) -> Iterator[tuple[str, str]]:
    """What a reader may look for and not find, with the reason."""
    yield "Throttling", "no temperature or clock was read during the run"
    if summary.energy is None or summary.energy.startswith(ENERGY_MISSING):
        yield "Energy", "no power sensor was read"
    if not summary.latency_ns.n:
        yield "Every duration", "no turn came to an end that counts"
    elif not summary.tpot_ns.n:
        yield "TPOT", "no turn had two tokens"
    if not summary.scores:
        yield "Quality", "no output was scored"
    if summary.verdict.loadgen is None:
        accuracy = summary.mode == "accuracy"
        yield "LoadGen's verdict", "it gives none in accuracy mode" if accuracy else "it gave none"
    if summary.cross_check is None:
        yield "LoadGen's clock", "there is nothing to compare ours with"
    if not summary.tools.steps:
        yield "Tools", "none ran live; recorded ones cost nothing here"


def _failures(summary: Summary) -> Html:
    if not summary.failures:
        return Html("")
    turns = summary.turns
    more = turns.failed + turns.repeated_failed - len(summary.failures)
    return join(
        (
            tag("h3", "Failed turns"),
            tag(
                "ul",
                (
                    tag(
                        "li",
                        tag("strong", failure.session),
                        f", turn {failure.turn}: ",
                        tag("span", failure.error),
                    )
                    for failure in summary.failures
                ),
                class_="failures",
            ),
            tag("p", f"and {more:,} more", class_="note") if more > 0 else None,
        )
    )


def _warnings(summary: Summary) -> Html:
    return join(
        tag("p", tag("strong", "Warning. "), warning, class_="alert warn")
        for warning in summary.warnings
    )


def _tile(name: str, what: str, summary: Summary, numbers: Numbers, series: str) -> Html:
    estimate = numbers.statistic(series, "early_stopping", "p90")
    interval: Html | None = None
    if getattr(summary.confidence, series).median is not None:
        low, high = (numbers.show("confidence", series, "median", end) for end in ("low", "high"))
        level = f" ({summary.confidence.level:.0%})"
        interval = tag("p", low, " to ", high, level, class_="note")
    return tag(
        "div",
        tag("h3", name),
        tag("p", numbers.statistic(series, "median"), class_="big"),
        tag("p", "median, ", what, class_="note"),
        interval,
        tag(
            "dl",
            *_pair("p90", numbers.statistic(series, "p90")),
            *_pair("p90, early stopping", estimate),
            *_pair("turns", numbers.show(series, "n", as_=count)),
        ),
        class_="tile",
    )


def _throughput(numbers: Numbers) -> Html:
    return tag(
        "div",
        tag("h3", "Output"),
        tag("p", numbers.show("output_tokens_per_s", as_=rate), " ", tag("small", "tokens/s"),
            class_="big"),
        tag("p", "first issue to last completion", class_="note"),
        tag(
            "dl",
            *_pair("prefill tokens/s", numbers.show("rates", "prefill_tokens_per_s", as_=rate)),
            *_pair("decode tokens/s", numbers.show("rates", "decode_tokens_per_s", as_=rate)),
            *_pair("prompt cached", numbers.show("rates", "cached_share", as_=share)),
        ),
        class_="tile",
    )  # fmt: skip


def _series_table(summary: Summary, numbers: Numbers) -> Html:
    """Every series with every statistic."""
    columns = ("min", "mean", "median", "p90", "p99", "max")
    rows = [
        tag(
            "tr",
            tag("th", label, scope="row"),
            tag("td", numbers.show(name, "n", as_=count), class_="n"),
            (tag("td", numbers.statistic(name, column), class_="n") for column in columns),
            (
                tag("td", numbers.statistic(name, "early_stopping", column), class_="n")
                for column in ("p90", "p99")
            ),
        )
        for name, label in SERIES
        if getattr(summary, name).n
    ]
    if not rows:
        return tag("p", "No turn was measured, so there is no series to show.", class_="note")
    heads = ("Series", "n", *columns, "p90 early stopping", "p99 early stopping")
    return tag(
        "details",
        tag("summary", "All series and statistics"),
        scroller("All series and statistics", heads, rows),
        tag(
            "p",
            f"Percentiles are nearest-rank; “{TOO_FEW}” is said below 10 samples for p90 and 100 "
            "for p99, and below LoadGen's own minimum (64 and 662) for early-stopping estimates. "
            "Query latency is over every turn that LoadGen saw, repeats and failures included.",
            class_="note",
        ),
    )


def _no_intervals(note: str | None) -> Html | None:
    return tag("p", f"No confidence intervals: {note}.", class_="note") if note else None


def _limits(slo: Slo) -> str:
    limits = (("TTFT", slo.ttft_ms), ("TPOT", slo.tpot_ms))
    return " and ".join(f"{name} {limit:g} ms" for name, limit in limits if limit is not None)


def _about_score(name: str) -> str:
    return "a weak signal of quality" if "iou" in name.lower() else "mean over scorable turns"


def _pair(name: str, value: Html) -> tuple[Html, Html]:
    return tag("dt", name), tag("dd", value)


def _pill(shown: str, key: str) -> Html:
    tone = TONES.get(key, "calm")
    mark = tag("span", GLYPHS[tone], aria_hidden="true", class_="glyph")
    return tag("span", mark, shown, class_=f"pill {tone}")
