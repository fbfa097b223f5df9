"""Hashes are remembered exactly as long as a file stays what it was."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from edge_runner.catalog import cache


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_hash_is_trusted_while_size_time_and_inode_stay(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    assert cache.sha256_of(path) == sha256(b"one")
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert cache.sha256_of(path) == sha256(b"one")
    assert cache.sha256_of(path, rehash=True) == sha256(b"two")
    assert cache.sha256_of(path) == sha256(b"two")


def test_a_change_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    cache.sha256_of(path)
    path.write_bytes(b"three")
    assert cache.recorded_sha256(path) is None
    assert cache.sha256_of(path) == sha256(b"three")


def test_another_file_in_its_place_is_noticed(tmp_path: Path) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    path.write_bytes(b"one")
    other.write_bytes(b"two")
    cache.sha256_of(path)
    other.replace(path)
    assert cache.sha256_of(path) == sha256(b"two")


@pytest.mark.parametrize("record", ["", "[]", "{}", '{"stamp": 1}', "\udcff"])
def test_broken_records_are_ignored(tmp_path: Path, cache_folder: Path, record: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    cache.sha256_of(path)
    [file] = (cache_folder / "hashes").iterdir()
    file.write_bytes(record.encode(errors="surrogateescape"))
    assert cache.sha256_of(path) == sha256(b"one")


def test_a_cache_that_cannot_be_written_only_costs_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    monkeypatch.setenv("EDGE_RUNNER_CACHE", str(path / "below a file"))
    assert cache.sha256_of(path) == sha256(b"one")


def test_a_folder_has_one_hash_whatever_the_order() -> None:
    lines = f"{sha256(b'1')}  a\n{sha256(b'2')}  b\n"
    hashes = [("b", sha256(b"2")), ("a", sha256(b"1"))]
    assert cache.tree_sha256(hashes) == sha256(lines.encode())


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGE_RUNNER_CACHE", "~/elsewhere")
    assert cache.root() == Path.home() / "elsewhere"
    monkeypatch.delenv("EDGE_RUNNER_CACHE")
    assert cache.root().name == "edge-runner"
