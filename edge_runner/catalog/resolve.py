"""From a name or path in a configuration to a file or folder that was checked."""

from __future__ import annotations

from pathlib import Path

from edge_runner.adapters import looks_like_path
from edge_runner.assets import DataRef, ModelRef
from edge_runner.catalog import cache, ollama
from edge_runner.catalog.entry import Entry, Role
from edge_runner.catalog.fetch import Located, ensure
from edge_runner.catalog.gguf import inspect, is_gguf, require_generator
from edge_runner.catalog.progress import OnProgress, Report, silent
from edge_runner.catalog.registry import find
from edge_runner.errors import AssetError, DataError, EdgeRunnerError, ModelFileError


def resolve_model(
    name_or_path: str,
    *,
    role: Role | None = None,
    offline: bool = False,
    report: Report | None = None,
    progress: OnProgress | None = None,
) -> ModelRef:
    """A catalog entry (fetched if need be), one's own file or folder, or `ollama:NAME[:TAG]`.

    GGUF files are inspected: ModelFileError says what is wrong with one. With `role`, an entry of
    another role is refused, and so is a file that cannot generate text where that is wanted.
    Raises AssetError for an unknown name, DownloadError when no source delivers, ConfigError when
    a catalog of the user is wrong.
    """
    if name_or_path.startswith(ollama.PREFIX):
        return _of_ollama(name_or_path, role, progress)
    if looks_like_path(name_or_path):
        path = Path(name_or_path).expanduser()
        _inspect(path, role)
        return ModelRef(path.name, path, _hash_own(path, ModelFileError, progress))
    entry = find("models", name_or_path)
    if role is not None and entry.role != role:
        raise ModelFileError(f"{entry.name} is a model of role {entry.role}, not {role}")
    located = ensure(entry, offline=offline, report=report or silent, on_progress=progress)
    _inspect(located.path, role)
    return ModelRef(
        entry.name,
        located.path,
        located.sha256,
        tool_format=entry.tool_format,
        license=entry.license,
        source=_origin(entry, located),
    )


def resolve_data(
    name_or_path: str,
    *,
    offline: bool = False,
    report: Report | None = None,
    progress: OnProgress | None = None,
) -> DataRef:
    """A catalog entry (fetched if need be) or one's own file or folder.

    Raises AssetError for an unknown name or missing path, DownloadError when no source delivers.
    """
    if looks_like_path(name_or_path):
        path = Path(name_or_path).expanduser()
        return DataRef(path.name, path, _hash_own(path, DataError, progress))
    entry = find("data", name_or_path)
    located = ensure(entry, offline=offline, report=report or silent, on_progress=progress)
    return DataRef(
        entry.name,
        located.path,
        located.sha256,
        license=entry.license,
        source=_origin(entry, located),
    )


def _of_ollama(name: str, role: Role | None, progress: OnProgress | None) -> ModelRef:
    found = ollama.find(name)
    _inspect(found.blob, role)
    sha256 = _hash_own(found.blob, ModelFileError, progress)
    if sha256 != found.sha256:
        raise ModelFileError(
            f"{found.blob} has not the SHA-256 that Ollama knows it by; `ollama pull {found.name}`"
        )
    return ModelRef(f"{ollama.PREFIX}{found.name}", found.blob, sha256, source="ollama")


def _inspect(path: Path, role: Role | None) -> None:
    if is_gguf(path) or (role == "generator" and path.is_file()):
        info = inspect(path)
        if role == "generator":
            require_generator(info)


def _origin(entry: Entry, located: Located) -> str | None:
    """The source, saying so where the name is not one of the shipped catalog's."""
    if entry.origin is None:
        return located.source
    return f"{located.source} (the user's own catalog entry)"


def _hash_own(path: Path, problem: type[EdgeRunnerError], progress: OnProgress | None) -> str:
    """SHA-256 of a file, or of everything in a folder; remembered until it changes."""
    if not path.exists():
        raise AssetError(f"{path} does not exist")
    try:
        if not path.is_dir():
            return cache.sha256_of(path, on_progress=progress)
        files = sorted(file for file in path.rglob("*") if file.is_file())
        return cache.tree_sha256(
            (file.relative_to(path).as_posix(), cache.sha256_of(file, on_progress=progress))
            for file in files
        )
    except OSError as error:
        raise problem(f"{path} cannot be read: {error.strerror or error}") from error
