"""How the models that `edge-runner models find` found are shown."""

from __future__ import annotations

import shlex
import textwrap
from typing import TYPE_CHECKING, Any

import typer

from edge_runner.catalog.partial import format_bytes

if TYPE_CHECKING:
    from edge_runner.catalog.find_local import LocalModel, LocalModels

NAME_WIDTH = 26
WIDTH = 80
INDENT = "    "


def print_found(found: LocalModels) -> None:
    """Two lines a model: what it is within 80 columns, and uncut what names it in a config."""
    if found.models:
        typer.echo(_row("NAME", "SIZE", "QUANT", "ARCH", "CONTEXT", "TOOLS", "USE"))
    for model in found.models:
        info = model.info
        typer.echo(
            _row(
                _printable(model.name),
                format_bytes(model.bytes) if model.bytes else "-",
                (info and info.quantization) or "-",
                info.architecture if info else "-",
                str((info and info.context_length) or "-"),
                ("yes" if model.tools else "no") if info else "-",
                "yes" if model.usable else "no",
            )
        )
        typer.echo(f"{INDENT}{_printable(model.model)}")
        if model.problem:
            text = _printable(f"cannot be used: {model.problem}")
            typer.echo(textwrap.fill(text, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT))
    for line in _hints(found):
        typer.echo(line, err=True)


def found_facts(model: LocalModel) -> dict[str, Any]:
    info = model.info
    return {
        "name": model.name,
        "place": model.place,
        "model": model.model,
        "path": None if model.path is None else str(model.path),
        "bytes": model.bytes,
        "quantization": info and info.quantization,
        "architecture": info and info.architecture,
        "parameters": info and info.parameters,
        "context_length": info and info.context_length,
        "tool_template": model.tools if info else None,
        "usable": model.usable,
        "problem": model.problem,
    }


def _row(name: str, size: str, quant: str, arch: str, context: str, tools: str, use: str) -> str:
    short = name if len(name) <= NAME_WIDTH else f"…{name[1 - NAME_WIDTH :]}"
    return (
        f"{short:<{NAME_WIDTH}}  {size:>7}  {quant[:8]:<8}  {arch[:11]:<11}  {context:>7}"
        f"  {tools:<5}  {use}"
    )


def _printable(text: str) -> str:
    """File names come from anywhere, and a terminal obeys what it is sent."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _hints(found: LocalModels) -> list[str]:
    hints = list(found.notes)
    usable = [model for model in found.models if model.usable]
    foreign = [model for model in usable if model.place != "edge-runner"]
    if not found.models:
        looked = ", ".join(map(str, found.searched)) or "no folder of Ollama, LM Studio, the hub"
        hints.append(f"no model found in: {looked}; name a folder to look in it")
    if usable:
        hints.append(f"use one:  edge-runner bench agentic --model {_typed(usable[0])}")
    if foreign:
        hints.append(f"name one: edge-runner models add NAME {_typed(foreign[0])}")
    return hints


def _typed(model: LocalModel) -> str:
    return shlex.quote(_printable(model.model))
