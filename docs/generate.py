"""Writes docs/configuration.md from the configuration's own schema; `make docs` calls it.

With `--check` it writes nothing and exits with 1 when the page is not up to date.
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from edge_runner.adapters import (
    DEVICES,
    WORKLOADS,
    GenerationSection,
    is_path_or_name,
    load_device,
    load_workload,
    names,
)
from edge_runner.config import EngineSpec, RunConfig, Scenario, SloSection, shipped

ITEM = re.compile(r"^(\w+(?:, \w+)*): ")
PAGE = Path(__file__).with_name("configuration.md")

INTRODUCTION = """\
# Configuration

Made from the schema by `make docs`; do not edit.

A run is one YAML file. Unknown keys are errors. Paths in a file are relative to the file; in
`--set` they are relative to the working directory. A name without a separator and without a file's
ending is a name of the catalog. `--set key=value` changes one key; the value is read as YAML.

```console
$ edge-runner run agentic-quickstart --set device.kind=scripted --set generation.max_tokens=8
```

Shipped configurations, which you can run by name: {shipped}.
"""


def main() -> int:
    page = "\n".join(_page()).rstrip() + "\n"
    if "--check" in sys.argv[1:]:
        return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page)
    PAGE.write_text(page, encoding="utf-8")
    return 0


def _page() -> Iterator[str]:
    yield INTRODUCTION.format(shipped=", ".join(f"`{name}`" for name in shipped()))
    yield from _section("Top level", RunConfig)
    yield from _section("`scenario`", Scenario)
    yield from _section("`generator`", EngineSpec)
    yield from _section("`generation`", GenerationSection)
    yield from _section("`slo`", SloSection)
    for kind in names(WORKLOADS):
        yield from _section(f"`workload` of kind `{kind}`", load_workload(kind).section)
    for kind in names(DEVICES):
        yield from _section(f"`device` of kind `{kind}`", load_device(kind).section)


def _section(title: str, model: type[BaseModel]) -> Iterator[str]:
    yield f"## {title}\n"
    if model.__doc__:
        # A line `key: text` of a docstring becomes an item of a list.
        lines = (line.strip() for line in model.__doc__.strip().splitlines())
        yield "\n".join(ITEM.sub(r"- `\1`: ", line) for line in lines) + "\n"
    yield "| key | value | default |"
    yield "|---|---|---|"
    for name, field in model.model_fields.items():
        plain = field.annotation is str and is_path_or_name(field)
        kind = "a name or a path" if plain else _kind(field.annotation)
        yield f"| `{name}` | {kind} | {_default(field)} |"
    yield ""


def _kind(annotation: Any) -> str:
    """A type in words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return "a path" if inner[0] is str else _kind(inner[0])
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in inner)
    if origin in (Union, types.UnionType):
        return " or ".join(_kind(part) for part in inner)
    if origin is not None:
        return "a list" if origin in (tuple, list) else "a mapping"
    if annotation is type(None):
        return "`null`"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "a section"
    return {str: "text", int: "a whole number", float: "a number", bool: "`true` or `false`"}[
        annotation
    ]


def _default(field: Any) -> str:
    if field.is_required():
        return "must be given"
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined or isinstance(value, BaseModel) or value in ((), {}):
        return ""
    return (
        "`null`"
        if value is None
        else f"`{str(value).lower() if value is True or value is False else value}`"
    )


if __name__ == "__main__":
    sys.exit(main())
