"""A llama.cpp model as a `Generator`."""

from __future__ import annotations

import heapq
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from time import monotonic_ns
from types import TracebackType
from typing import Any, Self

from edge_runner.assets import ModelRef
from edge_runner.devices.chat_template import CHATML, ChatTemplate, detect_tool_format
from edge_runner.devices.cpu import thread_budget
from edge_runner.devices.llama_cpp.context import NativeContext
from edge_runner.devices.llama_cpp.job import Job, Slot
from edge_runner.devices.llama_cpp.library import PACKAGE, installed_version, load_library
from edge_runner.devices.llama_cpp.model import LoadedModel
from edge_runner.devices.llama_cpp.prefix import (
    MIN_ROWS,
    MIN_ROWS_FLASH_ATTENTION,
    ROW_MULTIPLE,
    Held,
    Steps,
)
from edge_runner.devices.llama_cpp.section import LlamaCppSection
from edge_runner.devices.llama_cpp.sequence import LlamaCppSequence, Model
from edge_runner.devices.llama_cpp.tokens import Vocabulary
from edge_runner.devices.llama_cpp.worker import Worker
from edge_runner.devices.reply import THINK, THINK_END
from edge_runner.devices.tool_blocks import CALL_END, OPENING_TAGS
from edge_runner.engines import EngineInfo, GeneratorCapabilities
from edge_runner.errors import EngineClosedError, EngineError, EngineUnresponsiveError

GRACE_S = 10.0
"""The least a stopped request may take to come back; a step that took longer raises it."""


class LlamaCppGenerator:
    """One loaded model and its worker thread.

    Raises UnavailableError without the package or the memory, ModelFileError for a file that
    llama.cpp cannot load or whose chat template cannot be compiled.
    """

    def __init__(self, section: LlamaCppSection, model: ModelRef) -> None:
        started_ns = monotonic_ns()
        self.grace_floor_s = GRACE_S
        self._lock = threading.Lock()
        self._free = list(range(section.sequences))
        self._closed = False
        self._unresponsive = False
        native = load_library()
        budget = thread_budget()
        threads = section.threads or budget.threads
        with ExitStack() as undo:
            loaded = LoadedModel(native, model.path, section)
            undo.callback(loaded.close)
            source = loaded.chat_template or CHATML
            tool_format = model.tool_format or detect_tool_format(loaded.chat_template)
            shown = {*OPENING_TAGS[tool_format], CALL_END, THINK, THINK_END}
            vocabulary = Vocabulary(native, loaded.vocab, shown)
            template = ChatTemplate(
                source,
                bos_token=vocabulary.bos_text,
                eos_token=vocabulary.eos_text,
                name=model.name,
            )
            undo.callback(template.close)
            tools = template.supports_tools
            context = NativeContext(
                native,
                loaded,
                section,
                threads=threads,
                threads_batch=section.threads_batch or budget.threads,
            )
            undo.callback(context.close)
            self.shared = Model(native, template, vocabulary, vocabulary.anchors(source))
            flash = section.flash_attention != "off"
            steps = Steps(section.batch_tokens, MIN_ROWS_FLASH_ATTENTION if flash else MIN_ROWS)
            undo.pop_all()
        self.worker = Worker(loaded, context, vocabulary, steps)
        self.capabilities = GeneratorCapabilities(
            context_tokens=context.context_tokens,
            tools=tools,
            tool_format=tool_format,
            prefix_reuse="none" if loaded.recurrent else "exact",
            parallel_sequences=section.sequences,
            placement={"layers": section.device, "kv": section.device},
        )
        self.info = EngineInfo(
            engine="llama-cpp",
            runtime="llama.cpp",
            runtime_version=f"{PACKAGE} {installed_version()}",
            device=section.device,
            model=model.name,
            model_path=str(model.path),
            model_sha256=model.sha256,
            architecture=loaded.meta("general.architecture"),
            weights_precision=loaded.file_type,
            kv_precision=section.kv_type,
            threads=threads,
            load_ns=monotonic_ns() - started_ns,
            warnings=tuple(_warnings(section, loaded, context)),
            details={
                **loaded.facts(),
                "context_tokens": context.context_tokens,
                "sequences": section.sequences,
                "batch_tokens": section.batch_tokens,
                "threads_batch": section.threads_batch or budget.threads,
                "threads_reason": "configured" if section.threads else budget.reason,
                "flash_attention": _flash_attention(section, context.log),
                "gpu_layers": section.gpu_layers if section.device == "gpu" else 0,
                "use_mmap": section.use_mmap,
                "prefix_row_multiple": ROW_MULTIPLE,
                "prefix_min_rows": steps.min_rows,
                "system_info": native.llama_print_system_info().decode("utf-8", "replace").strip(),
            },
        )

    def open_sequence(self) -> LlamaCppSequence:
        self.check_usable()
        with self._lock:
            if not self._free:
                places = self.capabilities.parallel_sequences
                raise EngineError(
                    f"all {places} sequences of the engine are taken; raise device.sequences"
                )
            slot = Slot(heapq.heappop(self._free))
        return LlamaCppSequence(self, self.shared, slot, self._give_back)

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if not self.worker.close(self.grace_s()):
            self._unresponsive = True
        self.shared.template.close()

    def submit(self, job: Job) -> None:
        self.worker.submit(job)

    def check_usable(self) -> None:
        if self._unresponsive:
            raise EngineUnresponsiveError(
                "the llama.cpp engine did not come back from an earlier request; start a new one"
            )
        if self._closed:
            raise EngineClosedError("the llama.cpp engine was closed")

    def grace_s(self) -> float:
        return max(self.grace_floor_s, 4 * self.worker.longest_step_ns / 1e9)

    def give_up(self) -> EngineUnresponsiveError:
        self._unresponsive = True
        return EngineUnresponsiveError(
            f"the llama.cpp engine did not come back within {self.grace_s():.1f} s of being stopped"
        )

    def _give_back(self, slot: Slot) -> None:
        slot.held = Held()
        with self._lock:
            heapq.heappush(self._free, slot.index)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _warnings(
    section: LlamaCppSection, loaded: LoadedModel, context: NativeContext
) -> Iterator[str]:
    if loaded.chat_template is None:
        yield "the model has no chat template: ChatML is used"
    if context.context_tokens > loaded.trained_context > 0:
        yield (
            f"the context of {context.context_tokens} tokens is longer than the "
            f"{loaded.trained_context} the model was trained for"
        )
    if section.device != "cpu":
        yield "prefix reuse was proven exact for CPU kernels only"


def _flash_attention(section: LlamaCppSection, log: str) -> str:
    """What `auto` came to, as the library's log tells it."""
    if section.flash_attention != "auto":
        return section.flash_attention
    found: Any = re.search(r"Flash Attention .*\b(enabled|disabled)", log)
    return {"enabled": "on", "disabled": "off"}.get(found[1], "auto") if found else "auto"
