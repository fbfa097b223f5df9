"""A figure, as the plain data and layout that Plotly.js draws.

Built as dictionaries: importing Plotly's Python side would cost more time than the whole report.
Colours are names of CSS variables (`--prefill`), which the page resolves for a light or a dark
screen. Foreign text goes through `markup.label`: Plotly reads a little HTML in labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

Trace: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """`alt` says in a sentence what a viewer sees; `caption` also how it can mislead. `height` in
    CSS pixels."""

    id: str
    data: list[Trace]
    layout: dict[str, Any]
    height: int
    alt: str
    caption: str
