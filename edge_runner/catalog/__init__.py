"""Models and data sets by name: found, fetched, checked, inspected."""

from __future__ import annotations

from edge_runner.catalog.fetch import ensure, locate, state, verify
from edge_runner.catalog.find_local import find_models
from edge_runner.catalog.registry import entries, find, overridden
from edge_runner.catalog.resolve import resolve_data, resolve_model

__all__ = [
    "ensure",
    "entries",
    "find",
    "find_models",
    "locate",
    "overridden",
    "resolve_data",
    "resolve_model",
    "state",
    "verify",
]
