"""Which part of a sequence's KV cache the next prompt may keep, so that nothing changes by it.

A prompt evaluated on top of a kept prefix must give the very logits that a fresh context gives.
Matrix kernels treat the last rows of a step, and steps of few rows, by other code that rounds
differently. So a position's KV entry is the same in two evaluations only if in both it was computed
by the same kernel. Measured with llama.cpp of llama-cpp-python 0.3.36 on an x86-64 CPU with AVX2,
f16 cache, every split of a prompt into two steps (largest difference of the last logits):

    Qwen2.5-Coder-0.5B Q4_K_M, flash attention off
        split off a multiple of 4, or with fewer than 8 rows on either side    0.06 to 0.3
        split at a multiple of 4, at least 8 rows on both sides                0.000
    the same, flash attention on (its tiled kernel takes steps of 64 rows and more)
        split at any place with fewer than 64 rows on either side              0.2
        split at a multiple of 4, at least 64 rows on both sides               0.000
    SmolLM2-135M Q4_1: the same limits are sufficient.

Generated tokens are evaluated one row at a time, so their entries are never kept for a prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from edge_runner.engines import Divergence
from edge_runner.messages import Message, ToolSpec

ROW_MULTIPLE = 4
"""Kernels take rows in groups of four; a prefix is kept up to a multiple of it."""

MIN_ROWS = 8
MIN_ROWS_FLASH_ATTENTION = 64
"""Steps of fewer rows go through other kernels."""

HISTORY_REPLACED = "history replaced"
TEMPLATE_CHANGED = "template changed"
TOOLS_CHANGED = "tools changed"
CANNOT_BE_TRIMMED = "cannot be trimmed"

_STRIDE = 1024


@dataclass(frozen=True, slots=True)
class Steps:
    """How prompts are cut into evaluation steps: each ends at an absolute position that is a
    multiple of `batch_tokens` (itself one of ROW_MULTIPLE), or at the prompt's end. So the same
    rows share a step whatever prefix was kept. Steps of fewer than `min_rows` rows are avoided
    where a fresh context would not have them."""

    batch_tokens: int
    min_rows: int

    def end(self, position: int, prompt: int) -> int:
        """Where the step that begins at `position` ends."""
        return min(self._begin(position) + self.batch_tokens, prompt)

    def cut(self, limit: int, prompt: int) -> int:
        """The most positions, at most `limit`, a prompt of `prompt` tokens may keep. At least one
        token is left to evaluate: the next token's logits come from it."""
        cut = _floor(min(limit, prompt - 1))
        begin = self._begin(cut)
        if cut != begin and self.end(cut, prompt) - cut < self.min_rows:
            cut = max(begin, _floor(self.end(cut, prompt) - self.min_rows))
        return cut

    def exact(self, evaluated: int) -> int:
        """How many positions hold what any longer prompt would have put there, after a prompt's
        first `evaluated` tokens were evaluated in these steps."""
        begin = self._begin(evaluated)
        return _floor(evaluated) if evaluated - begin >= self.min_rows else begin

    def _begin(self, position: int) -> int:
        return position - position % self.batch_tokens


@dataclass(frozen=True, slots=True)
class Held:
    """What a sequence holds of its last prompt: its tokens as far as they were evaluated, and what
    they were rendered from."""

    tokens: list[int] = field(default_factory=list)
    messages: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = ()


def divergence_of(held: Held, now: Held, shared: int) -> Divergence | None:
    """Why `now` does not simply go on from `held`, with which it shares `shared` tokens."""
    if shared >= len(held.tokens):
        return None
    if held.messages != now.messages[: len(held.messages)]:
        reason = HISTORY_REPLACED
    elif held.tools != now.tools:
        reason = TOOLS_CHANGED
    else:
        reason = TEMPLATE_CHANGED
    return Divergence(shared, reason)


def shared_length(a: Sequence[object], b: Sequence[object]) -> int:
    """Length of the longest common prefix of two lists (or two strings)."""
    limit = min(len(a), len(b))
    start = 0
    # Slices compare in C: only the one stride that differs is walked through.
    while start < limit and a[start : start + _STRIDE] == b[start : start + _STRIDE]:
        start += _STRIDE
    while start < limit and a[start] == b[start]:
        start += 1
    return min(start, limit)


def _floor(position: int) -> int:
    return position - position % ROW_MULTIPLE
