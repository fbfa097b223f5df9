"""Configuration keys of `device` for kind `llama-cpp`."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from edge_runner.adapters import DeviceSection
from edge_runner.devices.llama_cpp.prefix import ROW_MULTIPLE

AUTO_CONTEXT_TOKENS = 32768
"""The most `context_tokens: null` takes: models trained for a million tokens would otherwise ask
for a KV cache that no edge device holds."""

KvType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]


class LlamaCppSection(DeviceSection):
    """Keys of `device` for kind `llama-cpp`.

    context_tokens: context of one sequence; null: what the model was trained for, at most 32768.
        llama.cpp rounds it up; the effective value is recorded.
    batch_tokens: prompt tokens evaluated in one step; cancelling waits for at most one step.
    sequences: conversations that can be open at once, each with a context of its own.
    threads, threads_batch: for decode and for prefill; null: what affinity and cgroup allow.
    flash_attention: off by default, since on CPU its kernels depend on where a step begins, and
        reusing a prefix would no longer be exact.
    kv_type: precision of the KV cache; a quantized one needs flash attention.
    gpu_layers: layers to offload when `device` is gpu; null: all.
    """

    kind: Literal["llama-cpp"] = "llama-cpp"
    device: Literal["cpu", "gpu"] = "cpu"
    context_tokens: int | None = Field(default=None, ge=256)
    batch_tokens: int = Field(default=256, ge=ROW_MULTIPLE, le=256, multiple_of=ROW_MULTIPLE)
    sequences: int = Field(default=1, ge=1, le=64)
    threads: int | None = Field(default=None, ge=1)
    threads_batch: int | None = Field(default=None, ge=1)
    flash_attention: Literal["auto", "on", "off"] = "off"
    kv_type: KvType = "f16"
    gpu_layers: int | None = Field(default=None, ge=0)
    use_mmap: bool = True

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.device == "cpu" and self.gpu_layers:
            raise ValueError("gpu_layers: needs device gpu")
        if self.kv_type.startswith("q") and self.flash_attention == "off":
            raise ValueError(
                f"kv_type: {self.kv_type} needs flash_attention on (llama.cpp quantizes the V "
                "cache under flash attention only)"
            )
        return self
