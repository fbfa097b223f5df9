"""`edge-runner models add`: a model of the user's own becomes an entry of the user's catalog.

The file is looked into and its hash taken first, so that the entry pins exactly what was added: a
file on this machine is used where it lies, one from the hub or a URL is fetched into the cache.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from pydantic import ValidationError

from edge_runner.catalog import cache, edit, fetch, hub, ollama, registry, url
from edge_runner.catalog.entry import (
    ENTRY_NAME,
    Entry,
    FileSpec,
    HubSource,
    PathSource,
    Role,
    Source,
    UrlSource,
    literally,
)
from edge_runner.catalog.gguf import GgufInfo, inspect, is_gguf, require_generator
from edge_runner.catalog.partial import SourceError
from edge_runner.catalog.progress import OnProgress, Report, silent
from edge_runner.engines import ToolFormat
from edge_runner.errors import AssetError, DownloadError, ModelFileError, UsageError

_HUB = re.compile(r"hub:(?P<repo>[^/@:]+/[^/@:]+)(?:@(?P<revision>[^/@]+))?/(?P<file>.+)")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user says of the model; None: find out, or leave it out."""

    name: str
    role: Role = "generator"
    tool_format: ToolFormat | None = None
    sha256: str | None = None
    license: str | None = None


def add_model(
    wanted: Wanted,
    source: str,
    *,
    replace: bool = False,
    report: Report = silent,
    on_progress: OnProgress | None = None,
) -> Entry:
    """Write an entry for `source`: a file, a URL, `hub:OWNER/REPO[@REVISION]/FILE` or
    `ollama:NAME[:TAG]`. Returns it as it stands in the user's catalog (`origin`).

    Raises UsageError (bad or taken name), ModelFileError (broken file, wrong hash), DownloadError,
    ConfigError (the catalog is wrong, or cannot be written).
    """
    if not ENTRY_NAME.fullmatch(wanted.name):
        raise UsageError(
            f"{wanted.name!r} is no name for an entry: lower-case letters, digits, '.', '_', '-'"
        )
    if wanted.sha256 is not None and not _SHA256.fullmatch(wanted.sha256):
        raise UsageError(f"--sha256: {wanted.sha256!r} is not 64 hexadecimal digits in lower case")
    catalog = registry.user_catalogs()[0]
    old = _existing(wanted.name)
    if old is not None and not replace:
        where = old.origin or "the shipped catalog"
        raise UsageError(
            f"{wanted.name} is already in {where}: choose another name, or --replace to override it"
        )
    entry = _Job(wanted, catalog, report, on_progress).entry_for(source)
    edit.write_entry(catalog, entry)
    if old is not None and old.origin == catalog and old.cached_as not in {None, entry.cached_as}:
        shutil.rmtree(cache.entry_folder(old), ignore_errors=True)
    return entry


def _existing(name: str) -> Entry | None:
    """Also checks all catalogs that exist: what cannot be read must not be written to. The one to
    be written may be named without being there yet."""
    known = {entry.name: entry for entry in registry.shipped("models")}
    for path in reversed(registry.user_catalogs()):
        known |= {one.name: one for one in registry.read_catalog(path) if one.kind == "models"}
    return known.get(name)


@dataclass(frozen=True, slots=True)
class _Job:
    """One addition: how each kind of source becomes an entry."""

    wanted: Wanted
    catalog: Path
    report: Report
    on_progress: OnProgress | None

    def entry_for(self, source: str) -> Entry:
        if source.startswith("hub:"):
            return self._from_hub(source)
        if source.startswith(("http://", "https://")):
            return self._from_url(source)
        if source.startswith(ollama.PREFIX):
            return self._from_file(ollama.find(source).blob)
        return self._from_file(Path(source).expanduser().absolute())

    def _from_file(self, path: Path) -> Entry:
        if path.is_dir():
            raise UsageError(f"{path} is a folder: give one file, or write the entry by hand")
        if not path.is_file():
            raise AssetError(f"{path} does not exist")
        info = self._look_into(path)
        if info is None or len(info.shards) == 1:
            spec = self._spec(path, _file_name(path.name))
            return self._entry([spec], PathSource(kind="path", path=literally(str(path))), info)
        specs = [self._spec(shard, shard.name) for shard in info.shards]
        together = f"{literally(str(path.parent))}/{{file}}"
        return self._entry(specs, PathSource(kind="path", path=together), info)

    def _from_url(self, link: str) -> Entry:
        self._need_network(link)
        source = UrlSource(kind="url", url=literally(link))
        try:
            size = url.size_of(link)
        except SourceError as error:
            raise DownloadError(f"{link}: {error}") from None
        name = _file_name(PurePosixPath(unquote(urlsplit(link).path)).name)
        spec = FileSpec(name=name, bytes=size, sha256=self.wanted.sha256)
        if spec.sha256 is not None:
            return self._fetched(spec, source)
        # Not validated: an entry without a hash is what no catalog may hold.
        draft = Entry.model_construct(
            name=self.wanted.name,
            kind="models",
            files=(spec,),
            sources=(source,),
            cached_as=f"{self.wanted.name}@unpinned",
        )
        sha256 = fetch.fetch_unpinned(
            draft, source, report=self.report, on_progress=self.on_progress
        )
        staged = cache.entry_path(draft)
        try:
            pinned = spec.model_copy(update={"sha256": sha256})
            entry = self._entry([pinned], source, self._look_into(staged))
            target = cache.entry_path(entry)
            target.parent.mkdir(parents=True, exist_ok=True)
            staged.replace(target)
            cache.record_sha256(target, sha256)
        finally:
            shutil.rmtree(cache.entry_folder(draft), ignore_errors=True)
        return entry

    def _from_hub(self, text: str) -> Entry:
        match = _HUB.fullmatch(text)
        if match is None:
            raise UsageError(f"{text}: must be hub:OWNER/REPO[@REVISION]/FILE")
        self._need_network(text)
        repo, file = match["repo"], match["file"]
        try:
            found = hub.ask(repo, file, match["revision"] or "main")
        except SourceError as error:
            raise DownloadError(f"{text}: {error}") from None
        sha256 = found.sha256 or self.wanted.sha256
        if sha256 is None or found.bytes is None or found.commit is None:
            raise DownloadError(f"{text}: the hub gives no SHA-256 of this file; give --sha256")
        self._expect(sha256, text)
        name = _file_name(PurePosixPath(file).name)
        path = "{file}" if name == file else literally(file)
        source = HubSource(kind="hub", repo=repo, revision=found.commit, file=path)
        return self._fetched(FileSpec(name=name, bytes=found.bytes, sha256=sha256), source)

    def _fetched(self, spec: FileSpec, source: HubSource | UrlSource) -> Entry:
        entry = self._entry([spec], source)
        fetch.ensure(entry, report=self.report, on_progress=self.on_progress)
        try:
            info = self._look_into(cache.entry_path(entry))
        except ModelFileError:
            if entry.cached_as is not None:
                shutil.rmtree(cache.entry_folder(entry), ignore_errors=True)
            raise
        return self._entry([spec], source, info)

    def _entry(self, files: list[FileSpec], source: Source, info: GgufInfo | None = None) -> Entry:
        said = info.metadata.get("general.license") if info is not None else None
        try:
            entry = Entry(
                name=self.wanted.name,
                kind="models",
                role=self.wanted.role,
                license=self.wanted.license or (said if isinstance(said, str) else "unknown"),
                tool_format=self.wanted.tool_format,
                context=info.context_length if info is not None else None,
                files=tuple(files),
                sources=(source,),
            )
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(map(str, first["loc"]))
            raise UsageError(f"{key}: {first['msg']}, not {first['input']!r}") from None
        return registry.placed(entry, self.catalog)

    def _spec(self, path: Path, name: str) -> FileSpec:
        try:
            sha256 = cache.sha256_of(path, on_progress=self.on_progress)
            size = path.stat().st_size
        except OSError as error:
            raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from error
        self._expect(sha256, str(path))
        return FileSpec(name=name, bytes=size, sha256=sha256)

    def _look_into(self, path: Path) -> GgufInfo | None:
        """Refuses what could not be loaded, with the inspection's message."""
        generator = self.wanted.role == "generator"
        if not generator and not is_gguf(path):
            return None
        info = inspect(path)
        if generator:
            require_generator(info)
        return info

    def _expect(self, sha256: str, where: str) -> None:
        if self.wanted.sha256 not in {None, sha256}:
            raise ModelFileError(f"{where} has SHA-256 {sha256}, not {self.wanted.sha256}")

    def _need_network(self, source: str) -> None:
        if fetch.offline_by_environment():
            raise DownloadError(f"{source}: nothing is fetched offline (EDGE_RUNNER_OFFLINE)")


def _file_name(text: str) -> str:
    """A name as catalogs allow it; what the source calls the file stands in the source."""
    return re.sub(r"[^A-Za-z0-9_.+-]", "_", text).lstrip("-.+") or "model"
