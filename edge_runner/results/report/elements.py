"""Pieces that several sections are made of."""

from __future__ import annotations

from edge_runner.results.report.markup import Content, Html, tag


def scroller(label: str, heads: tuple[str, ...], rows: Content) -> Html:
    """A table that scrolls sideways by itself where the screen is narrow."""
    head = tag("tr", (tag("th", name, scope="col") for name in heads))
    return tag(
        "div",
        tag("table", tag("thead", head), tag("tbody", rows)),
        class_="scroll",
        role="region",
        aria_label=label,
        tabindex="0",
    )


def facts(*pairs: tuple[str, Html]) -> Html:
    """Numbers in a row, each above its name."""
    rows = (tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs)
    return tag("dl", rows, class_="strip")
