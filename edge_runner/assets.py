"""Models and data sets that are on this machine, checked and ready to use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edge_runner.engines import ToolFormat


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model file (first shard, if split) or folder. `sha256` is of that file.

    `name` is the catalog's name, or the file's name for one's own model. `tool_format` is what the
    catalog knows of how the model writes tool calls; None: find out from its chat template.
    """

    name: str
    path: Path
    sha256: str
    tool_format: ToolFormat | None = None
    license: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class DataRef:
    """A data file or folder."""

    name: str
    path: Path
    sha256: str
    license: str | None = None
    source: str | None = None
