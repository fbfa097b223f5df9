"""What an engine's properties mean for a result: plain lines beside the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

REFERENCE_CONTEXT_TOKENS = 32_768


def remarks(info: Mapping[str, Any], capabilities: Mapping[str, Any]) -> Iterator[str]:
    """One line for each property that a reader must know of; both mappings as the worker sends
    them (EngineInfo, GeneratorCapabilities)."""
    yield from info.get("warnings", ())
    if not capabilities["tools"]:
        yield (
            "the model's chat template shows it no tools: it is never told that it can run "
            "commands, so its command score says nothing about what it could do; latencies and "
            "rates are not affected"
        )
    context = capabilities["context_tokens"]
    if context < REFERENCE_CONTEXT_TOKENS:
        yield (
            f"its context is {context:,} tokens (MLPerf's reference has "
            f"{REFERENCE_CONTEXT_TOKENS:,}): a session that grows beyond it fails from that turn "
            "on, and results at greater depth cannot be had from this model"
        )
    if capabilities["prefix_reuse"] == "none":
        yield (
            "its cache cannot be trimmed: every turn evaluates its whole prompt anew, and latency "
            "grows with the conversation"
        )
