"""The llama.cpp engine: GGUF models through llama-cpp-python's low-level API.

`engine` is the generator, `worker` its thread, `job` a request's way through it; `sequence` is the
caller's side; `prefix` decides what a KV cache may keep. Importing this imports no runtime.
"""

from __future__ import annotations

from edge_runner.adapters import DeviceSection
from edge_runner.assets import ModelRef
from edge_runner.devices.llama_cpp.section import LlamaCppSection
from edge_runner.engines import Generator
from edge_runner.errors import ConfigError


class LlamaCppAdapter:
    """Entry point `llama-cpp`."""

    section = LlamaCppSection
    needs_model = True

    def open_generator(self, section: DeviceSection, model: ModelRef | None) -> Generator:
        from edge_runner.devices.llama_cpp.engine import LlamaCppGenerator

        if model is None:
            raise ConfigError("generator.model: device kind 'llama-cpp' needs a model")
        assert isinstance(section, LlamaCppSection)  # noqa: S101 - chosen by the same kind
        return LlamaCppGenerator(section, model)


adapter = LlamaCppAdapter()
