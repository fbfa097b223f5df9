"""Numbers on the page, each tied to the place in `summary.json` it was read from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from edge_runner.results.report.markup import Html, tag
from edge_runner.results.schema import Summary
from edge_runner.results.table import TOO_FEW, duration

Format = Callable[[Any], str]


def count(value: int) -> str:
    return f"{value:,}"


def rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 99.95 else f"{value:#.3g}"


def share(value: float) -> str:
    return "<0.1%" if 0 < value < 0.0005 else f"{value:.1%}"


def ratio(value: float) -> str:
    return f"{value:.3f}"


def score(value: float) -> str:
    return f"{value:.4f}"


class Numbers:
    """What a summary holds, as elements `<data value=RAW data-of=JSON-POINTER>shown</data>`."""

    def __init__(self, summary: Summary) -> None:
        self._summary = summary

    def at(self, *path: str) -> Any:
        """The value at `path`, None where there is none."""
        value: Any = self._summary
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else getattr(value, name)
            if value is None:
                return None
        return value

    def show(self, *path: str, as_: Format = duration, missing: str = "not measured") -> Html:
        """The value at `path`, or `missing` in words."""
        value = self.at(*path)
        if value is None:
            return tag("span", missing, class_="missing")
        exact = f"{value:,} ns" if as_ is duration else None
        return tag("data", as_(value), value=value, data_of=_pointer(path), title=exact)

    def statistic(self, *path: str) -> Html:
        """A number of a series: where it is missing, too few samples or none at all."""
        series = path[: -2 if path[-2] == "early_stopping" else -1]
        return self.show(*path, missing=TOO_FEW if self.at(*series, "n") else "not measured")


def _pointer(path: tuple[str, ...]) -> str:
    """RFC 6901."""
    return "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in path)
