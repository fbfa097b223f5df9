"""A fetch in progress: what sources write into, and what becomes visible when it is right.

Because a file is pinned by its hash, bytes already fetched are a prefix of it whichever source
they came from: the next source, or the next process, continues behind them.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from edge_runner.catalog import cache
from edge_runner.catalog.entry import Entry, FileSpec
from edge_runner.catalog.progress import OnProgress, Report
from edge_runner.errors import DownloadError

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


class SourceError(Exception):
    """One source could not deliver; the text says why. The next source is tried."""


class WrongHashError(SourceError):
    """The source delivered other bytes than the pinned ones; they were deleted. `resumed`: part of
    them came from an earlier fetch, so that starting over may help."""

    def __init__(self, text: str, *, resumed: bool) -> None:
        super().__init__(text)
        self.resumed = resumed


class NoSpaceError(DownloadError):
    """The disk is full: no other source would help."""


def no_space(entry: Entry, need_bytes: int | None = None, free_bytes: int | None = None) -> str:
    """The one line for a full disk."""
    figures = ""
    if need_bytes is not None and free_bytes is not None:
        figures = f": {format_bytes(need_bytes)} needed, {format_bytes(free_bytes)} free"
    return (
        f"{entry.name}: no space left in {cache.root()}{figures}; "
        "free some, or set EDGE_RUNNER_CACHE to a folder on a larger disk"
    )


def format_bytes(count: int) -> str:
    """Decimal units, as disks and hubs count: 491400064 is "491 MB"."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


class PartialFile:
    """One pinned file being written: appended in order, hashed on the way, bounded by its size.

    `keep_bytes` limits how much of an interrupted fetch is kept; what is kept is hashed again.
    """

    def __init__(self, fetch: Fetch, spec: FileSpec, keep_bytes: int | None = None) -> None:
        self.spec = spec
        self.path = fetch.folder / spec.name
        self._fetch = fetch
        self._limit = spec.bytes or 0
        self._digest = hashlib.sha256()
        self.size = 0
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("a+b")
        kept = min(self.path.stat().st_size, self._limit)
        self.resumed = kept if keep_bytes is None else min(kept, keep_bytes)
        self._file.truncate(self.resumed)
        self._file.seek(0)
        while self.size < self.resumed:
            chunk = self._file.read(min(cache.CHUNK_BYTES, self.resumed - self.size))
            self._digest.update(chunk)
            self.size += len(chunk)
        self._tick()

    @property
    def missing_bytes(self) -> int:
        return self._limit - self.size

    def append(self, chunk: bytes) -> None:
        if len(chunk) > self.missing_bytes:
            raise SourceError(f"sends more than the {self._limit} bytes of {self.spec.name}")
        self._file.write(chunk)
        self._digest.update(chunk)
        self.size += len(chunk)
        self._tick()

    def restart(self) -> None:
        """Throw away what is there: the source cannot continue behind it."""
        self._file.truncate(0)
        self._digest = hashlib.sha256()
        self.size = self.resumed = 0

    def publish(self) -> None:
        """Check size and hash and move the file to its place, at once and for good."""
        if self.missing_bytes:
            raise SourceError(f"{self.spec.name} ended after {self.size} of {self._limit} bytes")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.close()
        sha256 = self._digest.hexdigest()
        if self.spec.sha256 not in {None, sha256}:
            self.path.unlink()
            raise WrongHashError(
                f"{self.spec.name} has the wrong SHA-256 "
                f"(expected {self.spec.sha256}, got {sha256}; deleted)",
                resumed=self.resumed > 0,
            )
        target = self._fetch.target / self.spec.name
        target.parent.mkdir(parents=True, exist_ok=True)
        self.path.replace(target)
        cache.record_sha256(target, sha256)
        self._fetch.done_bytes += self.size
        self._fetch.tick(0)

    def flush(self) -> None:
        """Hand everything to the operating system, so that it outlives this process."""
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _tick(self) -> None:
        self._fetch.tick(self.size)


class Fetch:
    """The files of one entry that are still to be fetched, and where they go."""

    def __init__(
        self, entry: Entry, *, offline: bool, report: Report, on_progress: OnProgress | None
    ) -> None:
        self.entry = entry
        self.offline = offline
        self.report = report
        self.target = cache.entry_folder(entry)
        self.folder = cache.partial_folder(entry)
        self.done_bytes = sum(
            spec.bytes or 0 for spec in entry.files if (self.target / spec.name).exists()
        )
        self.on_progress = on_progress
        self._shown = 0

    @property
    def missing(self) -> list[FileSpec]:
        """Files not published yet. What is published was checked before it became visible."""
        return [spec for spec in self.entry.files if not (self.target / spec.name).exists()]

    def tick(self, current_bytes: int) -> None:
        """Show `current_bytes` of the files in work, on top of those done; never backwards."""
        self._shown = min(max(self._shown, self.done_bytes + current_bytes), self.entry.bytes)
        if self.on_progress is not None:
            self.on_progress(self._shown, self.entry.bytes, self.entry.name)


@contextmanager
def disk_errors(entry: Entry) -> Iterator[None]:
    """Turn what the cache's disk says into one clear line."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise NoSpaceError(no_space(entry)) from error
        raise DownloadError(
            f"{entry.name}: cannot write the cache at {cache.root()}: {error.strerror or error}; "
            "set EDGE_RUNNER_CACHE to a folder that can be written"
        ) from error
