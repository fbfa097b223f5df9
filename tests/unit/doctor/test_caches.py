from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edge_runner.catalog import cache
from edge_runner.doctor import caches
from edge_runner.doctor.machine import Machine


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache that does not exist yet."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("EDGE_RUNNER_CACHE", str(folder))
    for name in caches.OFFLINE_SWITCHES:
        monkeypatch.delenv(name, raising=False)
    return folder


def free(monkeypatch: pytest.MonkeyPatch, free_bytes: int) -> None:
    from shutil import _ntuple_diskusage  # type: ignore[attr-defined]

    answer = _ntuple_diskusage(free_bytes, 0, free_bytes)
    monkeypatch.setattr(caches.shutil, "disk_usage", lambda _: answer)


def test_an_empty_cache_is_only_a_note_and_is_not_made(root: Path, lines: Any) -> None:
    found = lines([*caches.folder(Machine()), *caches.model(Machine())])
    assert found["folder"].state == found["disk"].state == "ok"
    assert "(EDGE_RUNNER_CACHE)" in found["folder"].value
    assert found["model"].state == "note"
    assert "models pull qwen2.5-coder-0.5b" in found["model"].advice
    assert not root.exists()


def test_a_cached_model(root: Path, lines: Any) -> None:
    model = cache.entry_path(caches.quickstart_model())
    model.parent.mkdir(parents=True)
    model.write_bytes(b"x" * 2000)
    found = lines([*caches.folder(Machine()), *caches.model(Machine())])
    assert found["model"].state == "ok"
    assert "2.0 kB in it" in found["folder"].value


def test_a_cache_that_is_a_file(root: Path, lines: Any) -> None:
    root.write_text("", encoding="utf-8")
    found = lines([*caches.folder(Machine()), *caches.model(Machine())])
    assert (found["folder"].state, found["folder"].exit_code) == ("problem", 4)
    assert "is not a folder" in found["folder"].value
    assert "disk" not in found


def test_a_cache_that_cannot_be_written(
    root: Path, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(**_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(caches.tempfile, "TemporaryFile", read_only)
    check = lines(caches.folder(Machine()))["folder"]
    assert (check.state, check.exit_code) == ("problem", 4)
    assert "read-only file system" in check.value
    assert "EDGE_RUNNER_CACHE" in check.advice


def test_offline_without_the_model(root: Path, lines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    check = lines(caches.model(Machine()))["model"]
    assert (check.state, check.exit_code) == ("problem", 4)
    assert "HF_HUB_OFFLINE forbids fetching" in check.value
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert lines(caches.model(Machine()))["model"].state == "note"


def test_a_full_disk(root: Path, lines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 1_000_000)
    check = lines(caches.model(Machine()))["disk"]
    assert (check.state, check.exit_code) == ("problem", 4)
    assert "1.0 MB free" in check.value
    model = cache.entry_path(caches.quickstart_model())
    model.parent.mkdir(parents=True)
    model.touch()
    assert lines(caches.model(Machine()))["disk"].state == "note"


def test_what_an_interrupted_fetch_left(root: Path, lines: Any) -> None:
    folder = cache.partial_folder(caches.quickstart_model())
    folder.mkdir(parents=True)
    (folder / "part").write_bytes(b"x" * 5000)
    check = lines(caches.folder(Machine()))["unfinished"]
    assert check.state == "note"
    assert "qwen2.5-coder-0.5b-instruct-q4_k_m (5.0 kB)" in check.value
