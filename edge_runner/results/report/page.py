"""The page: its sections in order, its policy, its scripts and styles, in one string."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import msgspec

from edge_runner.results.report import depth, details, overview, stack, timeline
from edge_runner.results.report.distribution import distribution
from edge_runner.results.report.figure import Figure
from edge_runner.results.report.legend import legend
from edge_runner.results.report.markup import Content, Html, join, script_json, tag
from edge_runner.results.report.turn_tables import turn_tables
from edge_runner.results.report.turns import Turns
from edge_runner.results.report.values import Numbers
from edge_runner.results.schema import RunRecord, Summary

Section: TypeAlias = tuple[str, str, Html]
"""An id, a title and the element."""

NO_PLOTLY = (
    "The figures are missing: this report was written without the package plotly. Install it "
    "(pip install plotly) and run edge-runner report again. Every number is in the tables."
)


def page(summary: Summary, run: RunRecord, turns: Turns) -> str:
    plotly = plotly_js()
    drawn = _figures(summary, turns)
    sections = list(_sections(summary, run, turns, drawn if plotly else {}))
    body = join(
        (
            tag("header", overview.masthead(summary, run), _contents(sections)),
            tag("noscript", tag("p", "Figures need scripts; the tables do not.", class_="alert")),
            tag("p", NO_PLOTLY, class_="alert warn") if plotly is None and drawn else None,
            tag("main", (section for _, _, section in sections)),
            _footer(run),
        )
    )
    return "".join(_document(summary, body, drawn, plotly))


def _figures(summary: Summary, turns: Turns) -> dict[str, Figure]:
    """The figures there is something to draw for, by id."""
    candidates = [timeline.ledger(turns)]
    if summary.latency_ns.n:
        candidates += [
            depth.latency(summary, turns),
            depth.rates(summary, turns),
            timeline.cache(turns),
            distribution(summary, turns),
        ]
    return {figure.id: figure for figure in candidates if figure is not None}


def _sections(
    summary: Summary, run: RunRecord, turns: Turns, drawn: dict[str, Figure]
) -> Iterator[Section]:
    numbers = Numbers(summary)
    yield _section("before", "Before the numbers", overview.before_reading(summary, numbers))
    yield _section("headline", "Headline", overview.headline(summary, numbers))
    if summary.latency_ns.n or turns.total:
        yield _section(
            "time",
            "Where the time went",
            details.ledger_totals(summary, numbers),
            _figure(drawn, "ledger", "Turn by turn"),
        )
    if summary.latency_ns.n:
        yield _section(
            "depths",
            "Context depth",
            _figure(drawn, "depth", "Latency and TTFT over depth"),
            _figure(drawn, "rates", "Token rates over depth"),
            details.depth_table(summary, numbers),
            details.position_table(summary),
        )
        yield _section(
            "prefix-cache",
            "Prefix cache",
            details.cache_facts(numbers),
            _figure(drawn, "cache", "Share of each prompt that was cached"),
            details.divergences(summary, turns, numbers),
        )
        yield _section(
            "spread",
            "Distribution",
            _figure(drawn, "distribution", "Latency")
            or tag("p", "Too few turns for a distribution; see the table.", class_="note"),
        )
        yield _section(
            "harness",
            "What measuring cost",
            details.harness(summary, numbers),
            tag(
                "p",
                "Our own share of a turn: overhead, time no part claimed, and the time between "
                "turns that was ours. It is in the latencies above only as far as it lies inside "
                "a turn.",
                class_="note",
            ),
        )
    yield _section("stack", "The stack", stack.stack(summary, run, numbers))
    yield _section("loadgen", "LoadGen", stack.loadgen(summary, run))
    yield _section("standing", "Standing", stack.standing(summary))
    if turns.total:
        yield _section("turns", "Turns", turn_tables(summary, turns))
    elif summary.turns.issued:
        missing = "The run's events are not in its folder: figures and turns are left out."
        yield _section("turns", "Turns", tag("p", missing, class_="alert warn"))


def _section(id_: str, title: str, *content: Content) -> Section:
    heading = tag("h2", title, id=f"{id_}-title")
    element = tag("section", heading, content, id=id_, aria_labelledby=f"{id_}-title")
    return id_, title, element


def _contents(sections: Iterable[Section]) -> Html:
    links = (tag("a", title, href=f"#{id_}") for id_, title, _ in sections)
    return tag("nav", links, aria_label="Contents")


def _figure(drawn: dict[str, Figure], id_: str, title: str) -> Html:
    figure = drawn.get(id_)
    if figure is None:
        return Html("")
    return tag(
        "figure",
        tag("h3", title),
        tag("figcaption", figure.caption),
        legend(figure.data),
        tag(
            "div",
            id=f"figure-{id_}",
            class_="plot",
            role="img",
            aria_label=figure.alt,
            style=f"height:{figure.height}px",
        ),
    )


def _footer(run: RunRecord) -> Html:
    return tag(
        "footer",
        tag(
            "p",
            f"Written by edge-runner {run.edge_runner} from the run's folder. This page loads "
            "nothing: its content security policy allows no connection, and only the scripts "
            "whose hashes it names.",
        ),
    )


def _document(
    summary: Summary, body: Html, drawn: dict[str, Figure], plotly: str | None
) -> Iterator[str]:
    scripts = [plotly, _resource("page.js")] if plotly is not None and drawn else []
    title = tag("title", f"{summary.name or 'run'}: edge-runner report")
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield tag("meta", http_equiv="Content-Security-Policy", content=_policy(scripts))
    yield '\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<meta name="color-scheme" content="light dark">\n'
    yield f"{title}\n<style>\n{_resource('style.css')}</style>\n</head>\n<body>\n{body}\n"
    # The rows are in the tables; here they would only make the page larger.
    bare = msgspec.structs.replace(summary, per_turn=())
    yield _data("summary", bare)
    if scripts:
        yield _data("figures", [asdict(figure) for figure in drawn.values()])
    for script in scripts:
        yield f"<script>{script}</script>\n"
    yield "</body>\n</html>\n"


def _data(id_: str, value: object) -> str:
    return f"{tag('script', script_json(value), type='application/json', id=id_)}\n"


def _policy(scripts: Iterable[str]) -> str:
    """Nothing may be loaded, and only these scripts run: markup that slipped in stays inert.
    Plotly sets styles from script and saves pictures through blob: and data: addresses."""
    hashes = " ".join(f"'sha256-{_sha256(script)}'" for script in scripts) or "'none'"
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _sha256(script: str) -> str:
    return b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def plotly_js() -> str | None:
    """Plotly.js as its Python package ships it, which is not imported; None without it."""
    spec = find_spec("plotly")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        script = Path(place) / "package_data" / "plotly.min.js"
        if script.is_file():
            return script.read_text(encoding="utf-8")
    return None
