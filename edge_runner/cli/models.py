"""`edge-runner models`: list, show, find, add, pull, verify and locate models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from edge_runner.engines import ToolFormat

if TYPE_CHECKING:
    from edge_runner.catalog.entry import Entry, Kind
    from edge_runner.catalog.gguf import GgufInfo

ModelRole = Literal["generator", "embedder", "reranker"]

app = typer.Typer(no_args_is_help=True, help="Models: list, show, find, add, pull, verify, path.")

Names = Annotated[list[str], typer.Argument(help="Names as shown by `list`.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Offline = Annotated[bool, typer.Option("--offline", help="Use what is on this machine only.")]


@app.command("list")
def list_models(as_json: Json = False) -> None:
    """Show every model of the catalog and whether it is on this machine."""
    print_entries("models", as_json)


@app.command()
def show(
    name: Annotated[
        str, typer.Argument(help="A name of the catalog, a .gguf file, or ollama:NAME.")
    ],
    as_json: Json = False,
) -> None:
    """Show what is known of one model; a GGUF file is inspected."""
    from edge_runner.adapters import looks_like_path
    from edge_runner.catalog import find, locate, ollama
    from edge_runner.catalog.gguf import inspect, is_gguf

    facts: dict[str, Any] = {}
    path: Path | None = Path(name).expanduser()
    if name.startswith(ollama.PREFIX):
        path = ollama.find(name).blob
    elif not looks_like_path(name):
        entry = find("models", name)
        located = locate(entry)
        path = located.path if located else None
        facts = _entry_facts(entry) | {"path": str(path) if path else None}
    if path is not None and (not facts or is_gguf(path)):
        facts |= _gguf_facts(inspect(path))
    print_facts(facts, as_json)


@app.command("find")
def find_(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="More folders (or files) to look in.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Find GGUF models that Ollama, LM Studio, llama.cpp or the hub put on this machine."""
    from edge_runner.catalog import find_models
    from edge_runner.cli.found import found_facts, print_found

    found = find_models(folders or [])
    if as_json:
        print_json([found_facts(model) for model in found.models])
        for note in found.notes:
            typer.echo(note, err=True)
    else:
        print_found(found)


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="The entry's name, as for `pull` and in configs.")],
    source: Annotated[
        str,
        typer.Argument(
            help="A file, a URL, hub:OWNER/REPO[@REVISION]/FILE, or ollama:NAME[:TAG].",
            metavar="FILE|URL|hub:...|ollama:...",
        ),
    ],
    role: Annotated[ModelRole, typer.Option(help="What it is for.")] = "generator",
    tool_format: Annotated[
        ToolFormat | None,
        typer.Option(help="How it writes tool calls; if left out, its template says."),
    ] = None,
    sha256: Annotated[str | None, typer.Option(help="Refuse any other file.")] = None,
    license_: Annotated[
        str | None, typer.Option("--license", help="If left out, what the file says.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace or override the entry of that name.")
    ] = False,
) -> None:
    """Add a model of your own to your catalog; it is checked, hashed and pinned first."""
    from edge_runner.catalog import overridden
    from edge_runner.catalog.add import Wanted, add_model
    from edge_runner.cli.bars import Bars

    wanted = Wanted(name, role, tool_format, sha256, license_)
    with Bars() as bars:
        entry = add_model(wanted, source, replace=replace, report=bars.say, on_progress=bars.fetch)
    what = "overrides the shipped entry" if overridden(entry) else "added"
    typer.echo(f"{entry.name}: {what} in {entry.origin}", err=True)
    print_facts(_entry_facts(entry), as_json=False)


@app.command()
def pull(names: Names, offline: Offline = False) -> None:
    """Fetch models into the cache and print their paths."""
    pull_entries("models", names, offline)


@app.command()
def verify(names: Names) -> None:
    """Hash cached models anew; exit 4 if one is missing or wrong."""
    from edge_runner.catalog import find
    from edge_runner.catalog import verify as verify_entry
    from edge_runner.cli.bars import Bars
    from edge_runner.errors import ModelFileError

    wrong = []
    with Bars() as bars:
        for entry in [find("models", name) for name in names]:
            right = "ok" if entry.pinned else "there, but not pinned"
            for file, problem in verify_entry(entry, on_progress=bars.fetch):
                typer.echo(f"{entry.name}  {file}  {problem or right}")
                if problem and entry.name not in wrong:
                    wrong.append(entry.name)
    if wrong:
        again = " ".join(wrong)
        raise ModelFileError(
            f"not as pinned: {', '.join(wrong)}; `edge-runner models pull {again}`"
        )


@app.command()
def path(name: Annotated[str, typer.Argument(help="A name as shown by `list`.")]) -> None:
    """Print where a model lies; exit 4 if it was not pulled."""
    print_path("models", name)


def print_entries(kind: Kind, as_json: bool) -> None:
    """The catalog's entries of one kind, a line each, within 80 columns; the user's are marked."""
    from edge_runner.catalog import entries, state
    from edge_runner.catalog.partial import format_bytes

    listed = entries(kind)
    if as_json:
        print_json([_entry_facts(entry) | {"state": state(entry)} for entry in listed])
        return
    width = max(len(entry.name) for entry in listed)
    origins = {entry.origin: None for entry in listed if entry.origin is not None}
    rows = [("NAME", "ROLE", "SIZE", "STATE", "CATALOG" if origins else "")]
    for entry in listed:
        size = format_bytes(entry.bytes) if entry.bytes else "-"
        rows.append((entry.name, entry.role, size, state(entry), _mark(entry)))
    for name, role, size, where, mark in rows:
        typer.echo(f"{name:<{width}}  {role:<10}  {size:>8}  {where:<10}  {mark}".rstrip())
    for origin in origins:
        typer.echo(f"own entries and overrides: {origin}", err=True)


def pull_entries(kind: Kind, names: list[str], offline: bool) -> None:
    """Fetch entries one after the other; all names are checked before the first."""
    from edge_runner.catalog import ensure, find
    from edge_runner.cli.bars import Bars

    wanted = [find(kind, name) for name in names]
    for entry in wanted:
        with Bars() as bars:
            located = ensure(entry, offline=offline, report=bars.say, on_progress=bars.fetch)
        typer.echo(str(located.path))


def print_path(kind: Kind, name: str) -> None:
    from edge_runner.catalog import find, locate
    from edge_runner.errors import AssetError

    located = locate(find(kind, name))
    if located is None:
        raise AssetError(f"{name} is not on this machine: `edge-runner {kind} pull {name}`")
    typer.echo(str(located.path))


def print_facts(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(facts)
        return
    width = max(len(key) for key in facts)
    for key, value in facts.items():
        if value not in (None, "", []):
            shown = "\n".join(map(str, value)) if isinstance(value, list) else str(value)
            typer.echo(f"{key:<{width}}  " + shown.replace("\n", "\n" + " " * (width + 2)))


def print_json(value: object) -> None:
    import json

    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def _mark(entry: Entry) -> str:
    from edge_runner.catalog import overridden

    if entry.origin is None:
        return ""
    return "override" if overridden(entry) else "own"


def _entry_facts(entry: Entry) -> dict[str, Any]:
    from edge_runner.catalog import overridden

    hidden = overridden(entry)
    same = hidden is not None and hidden.pins == entry.pins
    unpinned = "(shipped)" if entry.origin is None else "(not pinned: hashed when used)"
    return {
        "name": entry.name,
        "catalog": str(entry.origin or "shipped"),
        "overrides": hidden and f"the shipped entry, with {'the same' if same else 'other'} files",
        "role": entry.role,
        "license": entry.license,
        "bytes": entry.bytes,
        "official": entry.official,
        "tool_format": entry.tool_format,
        "context": entry.context,
        "notes": entry.notes,
        "files": [f"{spec.name}\n{spec.sha256 or unpinned}" for spec in entry.files],
        "sources": [source.label for source in entry.sources],
    }


def _gguf_facts(info: GgufInfo) -> dict[str, Any]:
    return {
        "gguf_version": info.version,
        "architecture": info.architecture,
        "model_name": info.name,
        "quantization": info.quantization,
        "parameters": info.parameters,
        "tensors": info.tensors,
        "tensor_bytes": info.tensor_bytes,
        "file_bytes": info.file_bytes,
        "shards": len(info.shards),
        "context_length": info.context_length,
        "layers": info.block_count,
        "embedding": info.embedding_length,
        "head_count_kv": info.head_count_kv,
        "vocabulary": info.vocabulary,
        "tokenizer": info.tokenizer,
        "chat_template": info.chat_template is not None,
    }
