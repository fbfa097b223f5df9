"""The cache on this machine: where files lie, and which of them were already hashed.

    <root>/models/<entry>/<file>     published files: complete and of the right hash; <entry> is
                                     <name>@<pins> for a user's entry with files of its own
    <root>/data/<entry>/<file>
    <root>/<kind>/.partial/<entry>/  a fetch in progress or interrupted
    <root>/locks/                    one lock an entry
    <root>/hashes/                   one record a file that was hashed, wherever it lies

A record is trusted while the file's size, modification time and inode are what they were.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from edge_runner.catalog.entry import Entry
from edge_runner.catalog.progress import OnProgress

CHUNK_BYTES = 1 << 20


def root() -> Path:
    """EDGE_RUNNER_CACHE, else the user's cache folder for edge-runner."""
    override = os.environ.get("EDGE_RUNNER_CACHE")
    if override:
        return Path(override).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("edge-runner", appauthor=False))


def entry_folder(entry: Entry) -> Path:
    return root() / entry.kind / _folder_name(entry)


def entry_path(entry: Entry) -> Path:
    """What users of the entry open: its folder, its only file, or a split model's first."""
    folder = entry_folder(entry)
    return folder if entry.folder else folder / entry.files[0].name


def partial_folder(entry: Entry) -> Path:
    return root() / entry.kind / ".partial" / _folder_name(entry)


def lock_path(entry: Entry) -> Path:
    return root() / "locks" / f"{entry.kind}-{_folder_name(entry)}.lock"


def origin_path(entry: Entry) -> Path:
    """Where the source that delivered the entry is noted."""
    return root() / entry.kind / ".origins" / f"{_folder_name(entry)}.txt"


def is_file(path: Path) -> bool:
    """Path.is_file, but False too where this user may not look."""
    try:
        return path.is_file()
    except OSError:
        return False


def sha256_of(path: Path, *, rehash: bool = False, on_progress: OnProgress | None = None) -> str:
    """The file's SHA-256, from its record when the file has not changed since. Raises OSError."""
    path = path.resolve()
    if not rehash:
        known = recorded_sha256(path)
        if known is not None:
            return known
    digest = hashlib.sha256()
    with path.open("rb") as file:
        before = os.fstat(file.fileno())
        done = 0
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            done += len(chunk)
            if on_progress is not None:
                on_progress(done, before.st_size, f"checking {path.name}")
        after = os.fstat(file.fileno())
    sha256 = digest.hexdigest()
    if _stamp(before) == _stamp(after):
        _record(path, after, sha256)
    return sha256


def recorded_sha256(path: Path) -> str | None:
    """The hash found the last time, or None when there is no record or the file has changed."""
    path = path.resolve()
    try:
        record = json.loads(_record_path(path).read_text(encoding="utf-8"))
        stamp = _stamp(path.stat())
    except (OSError, ValueError):
        return None
    if not isinstance(record, dict) or record.get("stamp") != stamp:
        return None
    sha256 = record.get("sha256")
    return sha256 if isinstance(sha256, str) else None


def record_sha256(path: Path, sha256: str) -> None:
    """Remember a hash that was computed while the file was written."""
    path = path.resolve()
    _record(path, path.stat(), sha256)


def tree_sha256(hashes: Iterable[tuple[str, str]]) -> str:
    """One hash for a folder: SHA-256 of the lines `<sha256>  <name>`, sorted by name."""
    lines = "".join(f"{sha256}  {name}\n" for name, sha256 in sorted(hashes))
    return hashlib.sha256(lines.encode()).hexdigest()


def _folder_name(entry: Entry) -> str:
    return entry.cached_as or entry.name


def _record_path(path: Path) -> Path:
    return root() / "hashes" / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.json"


def _stamp(stat: os.stat_result) -> list[int]:
    return [stat.st_size, stat.st_mtime_ns, stat.st_ino]


def _record(path: Path, stat: os.stat_result, sha256: str) -> None:
    record = {"path": str(path), "stamp": _stamp(stat), "sha256": sha256}
    target = _record_path(path)
    temporary = target.with_suffix(f".{os.getpid()}.tmp")
    # A read-only or full cache only costs the next use another hash.
    with contextlib.suppress(OSError):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(record), encoding="utf-8")
        temporary.replace(target)
