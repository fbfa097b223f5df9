"""A figure's legend as part of the page: it wraps on a phone, prints, and is read aloud."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edge_runner.results.report.markup import Html, tag

_GLYPHS = {
    "circle": "\u25cf",
    "diamond": "\u25c6",
    "x": "\u2716",
    "x-thin": "\u2716",
    "circle-open": "\u25cb",
    "square-open": "\u25a1",
    "line-ew": "\u2013",
}


def legend(traces: Sequence[dict[str, Any]]) -> Html:
    """One entry a named trace, in the order drawn, with its own mark: never by colour alone."""
    named = [trace for trace in traces if trace.get("showlegend", True)]
    return tag("ul", (tag("li", _mark(trace), trace["name"]) for trace in named), class_="legend")


def _mark(trace: dict[str, Any]) -> Html:
    if trace["type"] == "bar":
        hatched = " hatched" if "pattern" in trace["marker"] else ""
        return _swatch(f"square{hatched}", f"background-color:var({trace['marker']['color']})")
    if trace["mode"] == "lines":
        line = trace["line"]
        style = {"dash": "dashed", "dot": "dotted"}.get(line["dash"], "solid")
        return _swatch("line", f"border-top:3px {style} var({line['color']})")
    marker = trace["marker"]
    glyph = _GLYPHS[marker.get("symbol", "circle")]
    return _swatch("glyph", f"color:var({marker['color']})", glyph)


def _swatch(kind: str, style: str, glyph: str | None = None) -> Html:
    return tag("span", glyph, class_=f"mark {kind}", style=style, aria_hidden="true")
