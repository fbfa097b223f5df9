"""The native context: KV cache, evaluation, logits. Used by the engine's worker thread only."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from edge_runner.devices.llama_cpp.library import clear_log, last_complaint, log_text
from edge_runner.devices.llama_cpp.model import LoadedModel
from edge_runner.devices.llama_cpp.section import LlamaCppSection
from edge_runner.errors import EngineError, UnavailableError

Logits = npt.NDArray[np.float32]

_DECODE_RESULTS = {
    1: "no room in the KV cache",
    2: "aborted",
    -1: "invalid batch",
}


class NativeContext:
    """One context for `section.sequences` sequences, each with KV cells of its own.

    Raises UnavailableError when the memory for it cannot be had.
    """

    def __init__(
        self,
        native: Any,
        model: LoadedModel,
        section: LlamaCppSection,
        *,
        threads: int,
        threads_batch: int,
    ) -> None:
        tokens = model.context_tokens(section.context_tokens)
        parameters = native.llama_context_default_params()
        parameters.n_ctx = tokens * section.sequences
        parameters.n_batch = parameters.n_ubatch = section.batch_tokens
        parameters.n_seq_max = section.sequences
        # Logits are asked for one token a sequence; the default reserves them for a whole batch.
        parameters.n_outputs_max = section.sequences
        parameters.n_threads, parameters.n_threads_batch = threads, threads_batch
        parameters.flash_attn_type = {
            "auto": native.LLAMA_FLASH_ATTN_TYPE_AUTO,
            "on": native.LLAMA_FLASH_ATTN_TYPE_ENABLED,
            "off": native.LLAMA_FLASH_ATTN_TYPE_DISABLED,
        }[section.flash_attention]
        parameters.type_k = parameters.type_v = getattr(
            native, f"GGML_TYPE_{section.kv_type.upper()}"
        )
        parameters.offload_kqv = parameters.op_offload = section.device != "cpu"
        # Sequences of their own stream decode faster together: attention skips the others' cells.
        parameters.kv_unified = False
        # A cache that drops what left the window could not go back to an earlier position.
        parameters.swa_full = True
        parameters.no_perf = True
        clear_log()
        self._native = native
        self._pointer: Any = native.llama_init_from_model(model.pointer, parameters)
        if not self._pointer:
            why = last_complaint()
            raise UnavailableError(
                f"llama.cpp cannot make a context of {section.sequences} x {tokens} tokens"
                + (f": {why}" if why else "")
                + "; lower device.context_tokens or device.sequences"
            )
        self.log = log_text()
        self._memory = native.llama_get_memory(self._pointer)
        self._trimmable = not model.recurrent
        self.context_tokens = int(native.llama_n_ctx_seq(self._pointer))
        self._vocab_size = int(native.llama_vocab_n_tokens(model.vocab))
        self._logits_at = 0
        self._logits: Logits = np.empty(0, np.float32)
        self._decode = native.llama_decode
        self._make_batch(section.batch_tokens, section.sequences)

    def _make_batch(self, capacity: int, sequences: int) -> None:
        """Arrays of our own instead of llama_batch_init's: they take slices, and a step of one
        token sets three numbers."""
        native = self._native
        self._tokens: Any = (ctypes.c_int32 * capacity)()
        self._positions: Any = (ctypes.c_int32 * capacity)()
        self._counts = (ctypes.c_int32 * capacity)(*([1] * capacity))
        self._wanted = (ctypes.c_int8 * capacity)()
        pointer = ctypes.POINTER(ctypes.c_int32)
        self._ids = [(ctypes.c_int32 * 1)(sequence) for sequence in range(sequences)]
        self._id_pointers = [
            (pointer * capacity)(*[ctypes.cast(one, pointer)] * capacity) for one in self._ids
        ]
        self._batch = native.llama_batch()
        self._batch.token = ctypes.cast(self._tokens, pointer)
        self._batch.pos = ctypes.cast(self._positions, pointer)
        self._batch.n_seq_id = ctypes.cast(self._counts, pointer)
        self._batch.logits = ctypes.cast(self._wanted, ctypes.POINTER(ctypes.c_int8))
        self._batch_ids = [
            ctypes.cast(pointers, ctypes.POINTER(pointer)) for pointers in self._id_pointers
        ]

    @property
    def pointer(self) -> Any:
        return self._pointer

    def evaluate(self, sequence: int, tokens: list[int], position: int, *, logits: bool) -> None:
        """Run `tokens` at `position` and after; keep the last one's logits if asked. At most one
        batch. Raises EngineError."""
        count = len(tokens)
        self._tokens[:count] = tokens
        self._positions[:count] = list(range(position, position + count))
        self._wanted[count - 1] = logits
        batch = self._batch
        batch.n_tokens = count
        batch.seq_id = self._batch_ids[sequence]
        result = self._decode(self._pointer, batch)
        self._wanted[count - 1] = 0
        if result != 0:
            what = _DECODE_RESULTS.get(result, f"error {result}")
            raise EngineError(
                f"llama.cpp could not evaluate {count} tokens at position {position}: {what}"
            )

    def synchronize(self) -> None:
        """Wait until what was asked for is computed."""
        self._native.llama_synchronize(self._pointer)

    def logits(self) -> Logits:
        """The last evaluation's logits, shape [vocabulary]: the library's own buffer, valid and
        writable until the next evaluation."""
        row = self._native.llama_get_logits_ith(self._pointer, -1)
        if not row:
            raise EngineError("llama.cpp has no logits for the last token")
        at = ctypes.addressof(row.contents)
        if at != self._logits_at:
            self._logits = np.ctypeslib.as_array(row, (self._vocab_size,))
            self._logits_at = at
        return self._logits

    def trim(self, sequence: int, keep: int) -> bool:
        """Forget all but the first `keep` positions. False if this memory cannot: then nothing can
        be kept, and `clear` is next."""
        if not self._trimmable or self._native.llama_memory_seq_pos_min(self._memory, sequence) > 0:
            return False
        return bool(self._native.llama_memory_seq_rm(self._memory, sequence, keep, -1))

    def clear(self, sequence: int) -> None:
        self._native.llama_memory_seq_rm(self._memory, sequence, -1, -1)

    def close(self) -> None:
        if self._pointer:
            self._native.llama_free(self._pointer)
            self._pointer = None
            self._logits = np.empty(0, np.float32)
