"""A cache of its own for every test, and entries whose sources are made on the spot."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from edge_runner.catalog.entry import Entry


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("EDGE_RUNNER_CACHE", str(folder))
    monkeypatch.delenv("EDGE_RUNNER_OFFLINE", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    return folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, so that no test finds what its user has."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    for name in (
        "EDGE_RUNNER_CATALOG", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "LLAMA_CACHE",
        "XDG_CACHE_HOME", "XDG_CONFIG_HOME",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    return folder


@pytest.fixture
def own_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Write a catalog of the user's, the only one read."""

    def write(text: str) -> Path:
        path = tmp_path / "own" / "catalog.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        monkeypatch.setenv("EDGE_RUNNER_CATALOG", str(path))
        return path

    return write


@pytest.fixture
def make_entry() -> Callable[..., Entry]:
    """An entry with the given files, pinned to the given contents."""

    def make(contents: Mapping[str, bytes], sources: list[dict[str, Any]], **fields: Any) -> Entry:
        files = [
            {"name": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in contents.items()
        ]
        basic = {"name": "thing", "kind": "models", "role": "generator", "license": "MIT"}
        return Entry.model_validate({**basic, "files": files, "sources": sources, **fields})

    return make


@pytest.fixture
def wheelhouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is pip's whole world: no index, no network."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def make_wheel(wheelhouse: Path) -> Callable[..., Path]:
    """Write `<name>-<version>-py3-none-any.whl` with the given members."""

    def make(name: str, version: str, members: Mapping[str, bytes]) -> Path:
        stem = f"{name.replace('-', '_')}-{version}"
        path = wheelhouse / f"{stem}-py3-none-any.whl"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        wheel = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, content in members.items():
                archive.writestr(member, content)
            archive.writestr(f"{stem}.dist-info/METADATA", metadata)
            archive.writestr(f"{stem}.dist-info/WHEEL", wheel)
            archive.writestr(f"{stem}.dist-info/RECORD", "")
        return path

    return make
