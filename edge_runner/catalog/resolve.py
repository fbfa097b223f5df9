"""From a name or path in a configuration to a file or folder that was checked."""

from __future__ import annotations

from pathlib import Path

from edge_runner.adapters import looks_like_path
from edge_runner.assets import DataRef, ModelRef
from edge_runner.catalog import cache
from edge_runner.catalog.entry import Role, find
from edge_runner.catalog.fetch import ensure
from edge_runner.catalog.gguf import inspect, require_generator
from edge_runner.catalog.progress import OnProgress, Report, silent
from edge_runner.errors import AssetError, DataError, EdgeRunnerError, ModelFileError


def resolve_model(
    name_or_path: str,
    *,
    role: Role | None = None,
    offline: bool = False,
    report: Report | None = None,
    progress: OnProgress | None = None,
) -> ModelRef:
    """A catalog entry (fetched if need be) or one's own file or folder.

    GGUF files are inspected: ModelFileError says what is wrong with one. With `role`, an entry of
    another role is refused, and so is a file that cannot generate text where that is wanted.
    Raises AssetError for an unknown name, DownloadError when no source delivers.
    """
    if looks_like_path(name_or_path):
        path = Path(name_or_path).expanduser()
        if path.suffix == ".gguf" or (role == "generator" and path.is_file()):
            info = inspect(path)
            if role == "generator":
                require_generator(info)
        return ModelRef(path.name, path, _hash_own(path, ModelFileError, progress))
    entry = find("models", name_or_path)
    if role is not None and entry.role != role:
        raise ModelFileError(f"{entry.name} is a model of role {entry.role}, not {role}")
    located = ensure(entry, offline=offline, report=report or silent, on_progress=progress)
    if located.path.suffix == ".gguf":
        inspect(located.path)
    return ModelRef(
        entry.name,
        located.path,
        located.sha256,
        tool_format=entry.tool_format,
        license=entry.license,
        source=located.source,
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
        entry.name, located.path, located.sha256, license=entry.license, source=located.source
    )


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
