"""A loaded model: weights, vocabulary and what the file says about itself."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from edge_runner.devices.llama_cpp.library import clear_log, last_complaint
from edge_runner.devices.llama_cpp.section import AUTO_CONTEXT_TOKENS, LlamaCppSection
from edge_runner.errors import ModelFileError, UnavailableError

_TEXT_BYTES = 512


class LoadedModel:
    """Weights in memory. `close` frees them; contexts made from it must be gone by then."""

    def __init__(self, native: Any, path: Path, section: LlamaCppSection) -> None:
        if not path.is_file():
            raise ModelFileError(f"{path}: no such model file; name a .gguf file")
        if section.device == "gpu" and not native.llama_supports_gpu_offload():
            raise UnavailableError(
                "requested device gpu, available: cpu (this build of llama-cpp-python has no GPU "
                "backend)"
            )
        parameters = native.llama_model_default_params()
        parameters.n_gpu_layers = 0 if section.device == "cpu" else section.gpu_layers
        if section.device == "gpu" and section.gpu_layers is None:
            parameters.n_gpu_layers = -1
        if not section.use_mmap:
            parameters.load_mode = native.LLAMA_LOAD_MODE_NONE
        clear_log()
        self._native = native
        self.pointer: Any = native.llama_model_load_from_file(str(path).encode(), parameters)
        if not self.pointer:
            why = last_complaint()
            raise ModelFileError(
                f"{path}: llama.cpp cannot load this model" + (f": {why}" if why else "")
            )
        self.vocab: Any = native.llama_model_get_vocab(self.pointer)
        try:
            self._check_kind(path)
        except ModelFileError:
            self.close()
            raise

    def _check_kind(self, path: Path) -> None:
        native, pointer = self._native, self.pointer
        if native.llama_model_has_encoder(pointer) or not native.llama_model_has_decoder(pointer):
            raise ModelFileError(f"{path}: not a text generator (an encoder or embedding model)")
        if native.llama_model_is_diffusion(pointer):
            raise ModelFileError(f"{path}: a diffusion model, which is not supported")
        if native.llama_vocab_n_tokens(self.vocab) < 1:
            raise ModelFileError(f"{path}: has no vocabulary")

    @property
    def chat_template(self) -> str | None:
        source = self._native.llama_model_chat_template(self.pointer, None)
        return source.decode("utf-8", "replace") if source else None

    @property
    def trained_context(self) -> int:
        return int(self._native.llama_model_n_ctx_train(self.pointer))

    @property
    def window(self) -> int:
        """Tokens a sliding-window layer sees, 0 without such layers."""
        return int(self._native.llama_model_n_swa(self.pointer))

    @property
    def recurrent(self) -> bool:
        """Its memory is a state that cannot be cut back, in all or in some layers."""
        return bool(
            self._native.llama_model_is_recurrent(self.pointer)
            or self._native.llama_model_is_hybrid(self.pointer)
        )

    def context_tokens(self, asked: int | None) -> int:
        """Context of one sequence to ask for."""
        return asked or min(self.trained_context or AUTO_CONTEXT_TOKENS, AUTO_CONTEXT_TOKENS)

    def meta(self, key: str) -> str | None:
        """One value of the file's metadata, cut at 511 bytes."""
        buffer = ctypes.create_string_buffer(_TEXT_BYTES)
        length = self._native.llama_model_meta_val_str(
            self.pointer, key.encode(), buffer, _TEXT_BYTES
        )
        return buffer.value.decode("utf-8", "replace") if length >= 0 else None

    @property
    def description(self) -> str:
        buffer = ctypes.create_string_buffer(_TEXT_BYTES)
        self._native.llama_model_desc(self.pointer, buffer, _TEXT_BYTES)
        return buffer.value.decode("utf-8", "replace")

    @property
    def file_type(self) -> str | None:
        """Precision of the weights, such as "Q4_K - Medium"."""
        name = self._native.llama_ftype_name(self._native.llama_model_ftype(self.pointer))
        return name.decode("utf-8", "replace") if name else None

    def facts(self) -> dict[str, Any]:
        """For the run's record."""
        return {
            "description": self.description,
            "name": self.meta("general.name"),
            "parameters": int(self._native.llama_model_n_params(self.pointer)),
            "tensor_bytes": int(self._native.llama_model_size(self.pointer)),
            "trained_context_tokens": self.trained_context,
            "sliding_window_tokens": self.window,
            "recurrent": self.recurrent,
        }

    def close(self) -> None:
        if self.pointer:
            self._native.llama_model_free(self.pointer)
            self.pointer = None
