"""The folder that holds everything about one run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import msgspec

from edge_runner.errors import ConfigError, DataError, RunFailedError, UsageError
from edge_runner.results.events import EVENTS_FILE, OUTPUTS_FILE
from edge_runner.results.files import decode, encode_pretty, write_atomic
from edge_runner.results.schema import EndStatus, RunRecord

RUNS_DIR = Path("runs")
LATEST = "latest"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run's folder. Holds no state: `run.json` is the record, read anew each time, since the
    process that watches a run and the one that carries it out both add to it."""

    path: Path

    @classmethod
    def create(cls, out: Path | None, record: RunRecord, runs_dir: Path = RUNS_DIR) -> Self:
        """Make the folder, its `loadgen/` and its `run.json`.

        `out` is the exact folder, new or empty; without it, `runs_dir/<time>-<name>`, with the
        time in UTC so that names sort. Raises ConfigError when that cannot be.
        """
        where = out if out is not None else runs_dir
        try:
            folder = cls(_new_folder_in(runs_dir, record.name) if out is None else _empty(out))
            folder.loadgen.mkdir()
            folder._write(record)
        except (FileExistsError, NotADirectoryError):
            raise ConfigError(f"run folder {where}: a file is in the way; name another") from None
        except OSError as error:
            raise ConfigError(f"run folder {where}: cannot be written: {error.strerror}") from None
        return folder

    @classmethod
    def open(cls, path: Path) -> Self:
        """An existing run's folder. Raises UsageError when it is none, DataError when its
        `run.json` is damaged or of a newer format."""
        folder = cls(path)
        folder.read()
        return folder

    @property
    def record_file(self) -> Path:
        return self.path / "run.json"

    @property
    def events(self) -> Path:
        return self.path / EVENTS_FILE

    @property
    def outputs(self) -> Path:
        return self.path / OUTPUTS_FILE

    @property
    def loadgen(self) -> Path:
        """The folder LoadGen writes its logs in; it exists."""
        return self.path / "loadgen"

    @property
    def summary(self) -> Path:
        return self.path / "summary.json"

    @property
    def turns(self) -> Path:
        return self.path / "turns.jsonl"

    def read(self) -> RunRecord:
        """The record as it is now. Raises like `open`."""
        try:
            data = self.record_file.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            what = "holds no run.json" if self.path.is_dir() else "there is no such folder"
            raise UsageError(f"{self.path}: not a run: {what}") from None
        except OSError as error:
            raise DataError(f"{self.record_file}: cannot be read: {error.strerror}") from None
        return decode(data, RunRecord, self.record_file)

    def update(self, **changes: Any) -> RunRecord:
        """Change fields of the record. Raises RunFailedError when it cannot be written."""
        record = msgspec.structs.replace(self.read(), **changes)
        try:
            self._write(record)
        except OSError as error:
            raise RunFailedError(
                f"{self.record_file}: cannot be written: {error.strerror}"
            ) from None
        return record

    def end(self, status: EndStatus, failure: str | None = None) -> RunRecord:
        """Record how the run ended, now."""
        return self.update(status=status, failure=failure, ended=utc_now())

    def _write(self, record: RunRecord) -> None:
        write_atomic(self.record_file, encode_pretty(record))


@dataclass(frozen=True, slots=True)
class DamagedRun:
    """A folder among the runs whose record cannot be read, and why."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class ListedRun:
    path: Path
    record: RunRecord


def list_runs(runs_dir: Path = RUNS_DIR) -> list[ListedRun | DamagedRun]:
    """The runs in `runs_dir`, by folder name, damaged ones among them. Folders without a `run.json`
    are not runs. Raises UsageError when `runs_dir` cannot be listed, [] when it is not there."""
    try:
        paths = sorted(path for path in runs_dir.iterdir() if path.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"{runs_dir}: cannot be listed: {error.strerror}") from None
    runs: list[ListedRun | DamagedRun] = []
    for path in paths:
        try:
            runs.append(ListedRun(path, RunFolder(path).read()))
        except UsageError:
            continue
        except DataError as error:
            runs.append(DamagedRun(path, str(error)))
    return runs


def latest(runs_dir: Path = RUNS_DIR) -> RunFolder:
    """The run that started last. Raises UsageError when there is none."""
    runs = [run for run in list_runs(runs_dir) if isinstance(run, ListedRun)]
    if not runs:
        raise UsageError(f"no run in {runs_dir}")
    return RunFolder(max(runs, key=lambda run: (run.record.started, run.path.name)).path)


def find_run(name: str, runs_dir: Path = RUNS_DIR) -> RunFolder:
    """The run called `name`: `latest`, a folder under `runs_dir`, or a path."""
    if name == LATEST:
        return latest(runs_dir)
    inside = runs_dir / name
    return RunFolder.open(inside if inside.is_dir() else Path(name))


def utc_now() -> str:
    """ISO 8601, UTC, to the millisecond: 2025-01-31T12:00:00.000Z."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _empty(out: Path) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise ConfigError(f"run folder {out}: not empty; name a new one")
    return out


def _new_folder_in(runs_dir: Path, name: str) -> Path:
    """`runs_dir/<time>-<name>`, made now; a number is added when two runs start in one second."""
    label = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:60] or "run"
    stem = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{label}"
    path, count = runs_dir / stem, 1
    runs_dir.mkdir(parents=True, exist_ok=True)
    while path.exists():
        count += 1
        path = runs_dir / f"{stem}-{count}"
    path.mkdir()
    return path
