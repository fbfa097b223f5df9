"""Engines over tiny models, one thread each, so that the tests run in milliseconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_cpp")

from llama_cpp_support import OpenEngine
from tiny_models import TOOL_CHATML, write_attention_model, write_recurrent_model

from edge_runner.assets import ModelRef
from edge_runner.devices.llama_cpp import LlamaCppSection, adapter
from edge_runner.devices.llama_cpp import sequence as sequence_module
from edge_runner.devices.llama_cpp.context import NativeContext
from edge_runner.devices.llama_cpp.engine import LlamaCppGenerator
from edge_runner.devices.llama_cpp.sampler import Greedy


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {
        "attention": write_attention_model(folder / "attention.gguf"),
        "tools": write_attention_model(folder / "tools.gguf", template=TOOL_CHATML),
        "bos": write_attention_model(folder / "bos.gguf", add_bos=True),
        "bare": write_attention_model(folder / "bare.gguf", template=None),
        "recurrent": write_recurrent_model(folder / "recurrent.gguf"),
    }


@pytest.fixture
def open_engine(models: dict[str, Path]) -> Iterator[OpenEngine]:
    """Open an engine over one of `models` or over any `ModelRef`; all are closed at the end."""
    with ExitStack() as opened:

        def open_one(model: str | ModelRef = "attention", **keys: Any) -> LlamaCppGenerator:
            if isinstance(model, str):
                model = ModelRef(model, models[model], "0" * 64)
                keys = {"threads": 1, "threads_batch": 1} | keys
            engine = adapter.open_generator(LlamaCppSection(**keys), model)
            assert isinstance(engine, LlamaCppGenerator)
            return opened.enter_context(engine)

        yield open_one


@pytest.fixture
def first_logits(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Fills with the logits that each greedy request chose its first token from."""
    seen: list[Any] = []

    class Recording(Greedy):
        first = True

        def sample(self, context: NativeContext) -> int:
            if self.first:
                seen.append(context.logits().copy())
            self.first = False
            return super().sample(context)

    monkeypatch.setattr(sequence_module, "Greedy", Recording)
    return seen
