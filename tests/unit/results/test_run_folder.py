from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from edge_runner.errors import ConfigError, DataError, UsageError
from edge_runner.results.run_folder import (
    DamagedRun,
    ListedRun,
    RunFolder,
    find_run,
    latest,
    list_runs,
    utc_now,
)
from edge_runner.results.schema import Identity, RunRecord

Make = Callable[..., RunRecord]


def test_default_folder_carries_time_and_name(tmp_path: Path, make_record: Make) -> None:
    folder = RunFolder.create(None, make_record(name="my run/../x"), tmp_path / "runs")
    assert folder.path.parent == tmp_path / "runs"
    assert re.fullmatch(r"\d{8}-\d{6}-my-run-\.\.-x", folder.path.name)
    assert folder.loadgen.is_dir()


def test_runs_of_one_second_do_not_share_a_folder(tmp_path: Path, make_record: Make) -> None:
    paths = {RunFolder.create(None, make_record(), tmp_path).path for _ in range(5)}
    assert len(paths) == 5


def test_out_is_the_exact_folder(tmp_path: Path, make_record: Make) -> None:
    (tmp_path / "empty").mkdir()
    assert RunFolder.create(tmp_path / "empty", make_record()).path == tmp_path / "empty"
    deep = tmp_path / "a" / "b"
    assert RunFolder.create(deep, make_record()).record_file.exists()


def test_out_that_holds_something_is_refused(tmp_path: Path, make_record: Make) -> None:
    kept = tmp_path / "results.txt"
    kept.write_text("mine")
    with pytest.raises(ConfigError, match="not empty"):
        RunFolder.create(tmp_path, make_record())
    assert [path.name for path in tmp_path.iterdir()] == ["results.txt"]


@pytest.mark.parametrize("out", ["file", "file/inside"])
def test_a_file_in_the_way_is_one_line(tmp_path: Path, make_record: Make, out: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="a file is in the way"):
        RunFolder.create(tmp_path / out, make_record())
    with pytest.raises(ConfigError, match="a file is in the way"):
        RunFolder.create(None, make_record(), runs_dir=tmp_path / out)


def test_an_unwritable_folder_is_one_line(
    tmp_path: Path, make_record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(ConfigError, match=r"cannot be written: Permission denied$"):
        RunFolder.create(tmp_path / "out", make_record())


def test_the_record_comes_back(tmp_path: Path, make_record: Make) -> None:
    record = make_record(
        model=Identity(name="m", sha256="ab"), config={"a": [1, {"b": None}]}, expected_turns=12
    )
    folder = RunFolder.create(tmp_path / "run", record)
    assert RunFolder.open(folder.path).read() == record
    assert json.loads(folder.record_file.read_bytes())["format"] == 1


def test_updates_from_two_sides_are_both_kept(tmp_path: Path, make_record: Make) -> None:
    folder = RunFolder.create(tmp_path / "run", make_record())
    RunFolder.open(folder.path).update(engine={"engine": "scripted"})
    record = folder.end("failed", "the worker was killed")
    assert record.engine == {"engine": "scripted"}
    assert (record.status, record.failure) == ("failed", "the worker was killed")
    assert record.ended is not None
    assert record.started < record.ended
    assert sorted(path.name for path in folder.path.iterdir()) == ["loadgen", "run.json"]


def test_times_are_utc() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", utc_now())


def test_what_is_not_a_run_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no run\.json"):
        RunFolder.open(tmp_path)
    with pytest.raises(UsageError, match="there is no such folder"):
        RunFolder.open(tmp_path / "missing")


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"format": 2, "unheard": "of"}')
    with pytest.raises(DataError, match=r"format 2 was written by a newer edge-runner"):
        RunFolder.open(tmp_path)


def test_a_record_cut_anywhere_is_one_line(tmp_path: Path, make_record: Make) -> None:
    folder = RunFolder.create(tmp_path / "run", make_record())
    data = folder.record_file.read_bytes().rstrip()
    for length in range(0, len(data), 7):
        folder.record_file.write_bytes(data[:length])
        with pytest.raises(DataError, match="damaged or cut short") as caught:
            folder.read()
        assert "\n" not in str(caught.value)


def test_listing_shows_damaged_runs_and_skips_other_folders(
    tmp_path: Path, make_record: Make
) -> None:
    good = RunFolder.create(None, make_record(), tmp_path)
    bad = RunFolder.create(tmp_path / "broken", make_record())
    bad.record_file.write_text("{")
    (tmp_path / "notes").mkdir()
    (tmp_path / "file.txt").write_text("")
    runs = {run.path: run for run in list_runs(tmp_path)}
    assert set(runs) == {good.path, bad.path}
    assert isinstance(runs[good.path], ListedRun)
    damaged = runs[bad.path]
    assert isinstance(damaged, DamagedRun)
    assert "damaged" in damaged.reason
    assert list_runs(tmp_path / "nowhere") == []


def test_latest_is_the_run_that_started_last(tmp_path: Path, make_record: Make) -> None:
    RunFolder.create(tmp_path / "z", make_record(started="2025-01-01T00:00:00.000Z"))
    newest = RunFolder.create(tmp_path / "a", make_record(started="2025-01-02T00:00:00.000Z"))
    broken = RunFolder.create(tmp_path / "b", make_record(started="2025-01-03T00:00:00.000Z"))
    broken.record_file.write_text("")
    assert latest(tmp_path) == newest
    assert find_run("latest", tmp_path) == newest
    assert find_run("z", tmp_path).path == tmp_path / "z"
    assert find_run(str(tmp_path / "z"), tmp_path / "elsewhere").path == tmp_path / "z"
    with pytest.raises(UsageError, match="no run in"):
        latest(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="not a run"):
        find_run("unknown", tmp_path)
