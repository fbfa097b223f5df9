"""Text to tokens and back, by the model's own vocabulary.

A conversation's prompt grows at its end, and tokenizing it from the start each turn would cost more
with every turn (27 ms for 17,000 tokens). Special tokens split a text before anything else happens
to it, so what stands before one is tokenized alike whatever follows: a prompt that shares its
beginning with the last one is tokenized from the last special token in the shared part on.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Collection
from typing import Any

from edge_runner.devices.llama_cpp.prefix import shared_length
from edge_runner.errors import EngineClosedError, EngineError

PIECE_BYTES = 64
_SHORTEST_ANCHOR = 3


class Vocabulary:
    """One model's vocabulary. Safe to call from several threads; `close` makes later calls raise
    EngineClosedError instead of reading freed memory.

    `shown` are control tokens whose text is part of a reply (`<tool_call>` where a model has it as
    a control token); the other control tokens are never shown.
    """

    def __init__(self, native: Any, vocab: Any, shown: Collection[str] = ()) -> None:
        self._native = native
        self._vocab = vocab
        self._lock = threading.Lock()
        self.size: int = native.llama_vocab_n_tokens(vocab)
        self._adds_bos = bool(native.llama_vocab_get_add_bos(vocab))
        bos, eos = native.llama_vocab_bos(vocab), native.llama_vocab_eos(vocab)
        self._bos: int = bos
        self.bos_text = self._text(bos)
        self.eos_text = self._text(eos)
        self.specials = {
            token: text
            for token in range(self.size)
            if native.llama_vocab_get_attr(vocab, token)
            & (native.LLAMA_TOKEN_ATTR_CONTROL | native.LLAMA_TOKEN_ATTR_USER_DEFINED)
            and (text := self._text(token))
        }
        self.end_tokens = frozenset(
            token for token in range(self.size) if native.llama_vocab_is_eog(vocab, token)
        )
        """Tokens that end a reply."""
        self._shown = frozenset(token for token, text in self.specials.items() if text in shown)
        self._pieces: dict[int, bytes] = {}

    def tokenize(self, text: str) -> list[int]:
        """Tokens of `text`, special tokens recognised, no BOS added."""
        data = text.encode("utf-8", "replace")
        capacity = len(data) // 2 + 16
        with self._lock:
            self._check_open()
            while True:
                tokens = (ctypes.c_int32 * capacity)()
                count = self._native.llama_tokenize(
                    self._vocab, data, len(data), tokens, capacity, False, True
                )
                if count >= 0:
                    return tokens[:count]
                if -count <= capacity:
                    raise EngineError(f"the prompt of {len(data)} bytes cannot be tokenized")
                capacity = -count

    def bos(self, text: str) -> list[int]:
        """What to put before the tokens of a prompt so that it begins with exactly one BOS, if this
        model wants one: many templates write it themselves."""
        wanted = self._adds_bos and self._bos >= 0
        if not wanted or (self.bos_text and text.startswith(self.bos_text)):
            return []
        return [self._bos]

    def piece(self, token: int) -> bytes:
        """The bytes a token stands for; none for a control token that is not shown. From the
        thread that owns the engine only."""
        piece = self._pieces.get(token)
        if piece is None:
            piece = self._pieces[token] = self._piece(token, token in self._shown)
        return piece

    def anchors(self, template: str) -> tuple[str, ...]:
        """Special tokens, of those that `template` writes, at whose beginning a text may be cut:
        they take no white space from their surroundings and overlap with no other special."""
        native = self._native
        strips = native.LLAMA_TOKEN_ATTR_LSTRIP | native.LLAMA_TOKEN_ATTR_RSTRIP
        written = {*self.specials.values()}
        chosen = []
        for token, text in self.specials.items():
            if len(text) < _SHORTEST_ANCHOR or (
                text not in template and token not in self.end_tokens
            ):
                continue
            with self._lock:
                self._check_open()
                attributes = native.llama_vocab_get_attr(self._vocab, token)
            if attributes & strips or self.tokenize(text) != [token]:
                continue
            if not any(other != text and _overlap(text, other) for other in written):
                chosen.append(text)
        return tuple(chosen)

    def close(self) -> None:
        with self._lock:
            self._vocab = None

    def _check_open(self) -> None:
        if self._vocab is None:
            raise EngineClosedError("the engine was closed")

    def _text(self, token: int) -> str:
        return self._piece(token, special=True).decode("utf-8", "replace") if token >= 0 else ""

    def _piece(self, token: int, special: bool) -> bytes:
        size = PIECE_BYTES
        while True:
            buffer = ctypes.create_string_buffer(size)
            written = self._native.llama_token_to_piece(
                self._vocab, token, buffer, size, 0, special
            )
            if written >= 0:
                return buffer.raw[:written]
            size = -written


class PromptTokenizer:
    """Tokenizes the successive prompts of one conversation."""

    def __init__(self, vocabulary: Vocabulary, anchors: tuple[str, ...]) -> None:
        self._vocabulary = vocabulary
        self._anchors = anchors
        self._text = ""
        self._tokens: list[int] = []
        self._cuts: list[tuple[int, int]] = []

    def tokenize(self, text: str) -> list[int]:
        """Exactly the tokens of the whole text, with its one BOS."""
        shared = len(self._text)
        if not text.startswith(self._text):
            shared = shared_length(self._text, text)
        cuts = [(at, tokens) for at, tokens in self._cuts if self._anchored(text, at, shared)]
        at, count = cuts[-1] if cuts else (0, 0)
        head = self._tokens[:count] if cuts else self._vocabulary.bos(text)
        last = max((text.rfind(anchor, at) for anchor in self._anchors), default=-1)
        if last > at:
            head = head + self._vocabulary.tokenize(text[at:last])
            cuts.append((last, len(head)))
            at = last
        tokens = head + self._vocabulary.tokenize(text[at:])
        self._text, self._tokens, self._cuts = text, tokens, cuts
        return tokens

    def tokens_beyond(self, text: str) -> list[int] | None:
        """Tokens of `text` beyond the last prompt's, or None if it does not go on from it. Leaves
        the conversation as it is."""
        if not text.startswith(self._text) or not self._cuts:
            return None
        at, count = self._cuts[-1]
        tokens = self._vocabulary.tokenize(text[at:])
        held = self._tokens[count:]
        return tokens[len(held) :] if tokens[: len(held)] == held else None

    def reset(self) -> None:
        self._text, self._tokens, self._cuts = "", [], []

    def _anchored(self, text: str, at: int, shared: int) -> bool:
        """Is the cut in the shared part, with its whole anchor in the new text as well?"""
        return at < shared and any(text.startswith(anchor, at) for anchor in self._anchors)


def _overlap(text: str, other: str) -> bool:
    """Could an occurrence of `other` share characters with one of `text`?"""
    if text in other or other in text:
        return True
    longest = min(len(text), len(other)) - 1
    return any(
        text.endswith(other[:size]) or other.endswith(text[:size]) for size in range(1, longest + 1)
    )
