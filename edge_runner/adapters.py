"""What a device adapter and a workload give to the core, and how they are found.

Both register as entry points, ours like anybody's: `edge_runner.devices` (name: the config's
`device.kind`) and `edge_runner.workloads` (name: the config's `kind`). Names are listed without
importing anything; exactly one adapter is imported when it is asked for, and importing it must not
import its runtime: that happens in `open_generator`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.fields import FieldInfo

from edge_runner.assets import DataRef, ModelRef
from edge_runner.engines import Generator
from edge_runner.errors import ConfigError
from edge_runner.sessions import SessionSource

DEVICES = "edge_runner.devices"
WORKLOADS = "edge_runner.workloads"


class BasedStr(str):
    """A string from a configuration that remembers the folder relative paths in it start from."""

    __slots__ = ("base",)
    base: Path

    def __new__(cls, text: str, base: Path) -> Self:
        based = super().__new__(cls, text)
        based.base = base
        return based


def looks_like_path(text: str) -> bool:
    """A name never has a separator or a file's ending; a path has one of them. `ollama:NAME` is a
    name whatever it holds."""
    if text.startswith("ollama:"):
        return False
    return "/" in text or "\\" in text or Path(text).suffix in {".gguf", ".jsonl", ".yaml", ".onnx"}


def _resolve(value: object) -> object:
    if isinstance(value, str) and looks_like_path(value):
        base = value.base if isinstance(value, BasedStr) else Path.cwd()
        return str((base / Path(value).expanduser()).resolve())
    return str(value) if isinstance(value, BasedStr) else value


PathOrName = Annotated[str, BeforeValidator(_resolve)]
"""A catalog name, or a path: relative to the YAML file, or to the working directory in `--set`."""


def is_path_or_name(field: FieldInfo) -> bool:
    """Can a section's field be a PathOrName?"""
    return _mentions_resolve(field.annotation, field.metadata)


def _mentions_resolve(annotation: Any, metadata: Iterable[Any] = ()) -> bool:
    if any(getattr(item, "func", None) is _resolve for item in metadata):
        return True
    inner = getattr(annotation, "__metadata__", ())
    return any(_mentions_resolve(part, inner) for part in get_args(annotation))


class Section(BaseModel):
    """Base of every part of a configuration: unknown keys are errors, values do not change, and
    numbers are finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DeviceSection(Section):
    """Base of the `device` section. Adapters add their own keys."""

    kind: str
    device: str = "cpu"


class WorkloadSection(Section):
    """Base of the `workload` section. Workloads add their own keys."""

    data: PathOrName
    turn_timeout_s: float = Field(default=600, gt=0)


class GenerationSection(Section):
    """How outputs are made. `output_length: recorded` decodes the recorded reply's token count,
    ignoring end of text: the fair setting for comparing engines."""

    max_tokens: int = Field(default=1024, ge=1)
    temperature: float = Field(default=0.0, ge=0, le=10)
    seed: int = Field(default=42, ge=0, le=2**32 - 1)
    output_length: Literal["natural", "recorded"] = "natural"


class DeviceAdapter(Protocol):
    """Opens engines on one kind of device."""

    @property
    def section(self) -> type[DeviceSection]: ...

    @property
    def needs_model(self) -> bool:
        """False for an engine that brings its own (the scripted one)."""
        ...

    def open_generator(self, section: DeviceSection, model: ModelRef | None) -> Generator:
        """Load and return. Raises UnavailableError (runtime or device missing: says which extra to
        install) or ModelFileError."""
        ...


class WorkloadAdapter(Protocol):
    """Turns a `workload` section and its data into sessions."""

    @property
    def section(self) -> type[WorkloadSection]: ...

    def load(
        self, section: WorkloadSection, generation: GenerationSection, data: DataRef
    ) -> SessionSource:
        """Read and check the whole data set. Raises DataError naming file and line."""
        ...

    def standing(
        self,
        section: WorkloadSection,
        generation: GenerationSection,
        data: DataRef,
        model: ModelRef | None,
    ) -> Mapping[str, Any]:
        """What the run stands against: {"reference": name, "deviations": [text, ...]}."""
        ...


def names(group: str) -> list[str]:
    """Registered names, sorted. Imports no adapter."""
    return sorted({point.name for point in entry_points(group=group)})


def load_device(kind: str) -> DeviceAdapter:
    adapter: DeviceAdapter = _find(DEVICES, kind, "device.kind").load()
    return adapter


def load_workload(kind: str) -> WorkloadAdapter:
    adapter: WorkloadAdapter = _find(WORKLOADS, kind, "kind").load()
    return adapter


def _find(group: str, name: str, key: str) -> EntryPoint:
    for point in entry_points(group=group, name=name):
        return point
    known = names(group)
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise ConfigError(f"{key}: {name!r} is not known; installed: {', '.join(known)}{hint}")
