"""Models and data sets by name: found, fetched, checked, inspected."""

from __future__ import annotations

from edge_runner.catalog.entry import entries, find
from edge_runner.catalog.fetch import ensure, locate, state, verify
from edge_runner.catalog.resolve import resolve_data, resolve_model

__all__ = [
    "ensure",
    "entries",
    "find",
    "locate",
    "resolve_data",
    "resolve_model",
    "state",
    "verify",
]
