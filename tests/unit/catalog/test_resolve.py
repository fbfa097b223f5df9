"""Names and paths become checked files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from gguf_files import METADATA, write_gguf

from edge_runner.catalog import cache, resolve_data, resolve_model
from edge_runner.errors import AssetError, DownloadError, ModelFileError


def test_ones_own_model(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "own.gguf")
    ref = resolve_model(str(path), role="generator", offline=True)
    assert (ref.name, ref.path) == ("own.gguf", path)
    assert ref.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert ref.tool_format is None


def test_ones_own_broken_or_unfit_model(tmp_path: Path) -> None:
    path = tmp_path / "own.gguf"
    path.write_bytes(b"<html>")
    with pytest.raises(ModelFileError, match="web page"):
        resolve_model(str(path))
    write_gguf(path, metadata=METADATA | {"general.architecture": "bert"})
    assert resolve_model(str(path)).path == path
    with pytest.raises(ModelFileError, match="cannot generate text"):
        resolve_model(str(path), role="generator")


def test_a_model_without_its_ending_is_inspected_too(tmp_path: Path) -> None:
    path = tmp_path / "blob"
    path.write_bytes(b"what is this")
    with pytest.raises(ModelFileError, match="not a GGUF file"):
        resolve_model(str(path), role="generator")


def test_missing_paths_and_names(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.gguf")
    with pytest.raises(AssetError, match=r"none\.gguf does not exist"):
        resolve_model(missing)
    with pytest.raises(AssetError, match=r"none\.jsonl does not exist"):
        resolve_data(str(tmp_path / "none.jsonl"))
    with pytest.raises(AssetError, match="not in the catalog"):
        resolve_model("no-such-model")
    with pytest.raises(AssetError, match="not in the catalog"):
        resolve_data("no-such-data")


def test_a_catalog_model_of_another_role() -> None:
    with pytest.raises(ModelFileError, match="embedder, not generator"):
        resolve_model("bge-small-en-v1.5-int8", role="generator", offline=True)


def test_a_catalog_model_that_is_not_here() -> None:
    with pytest.raises(DownloadError, match="models pull smollm2-135m-instruct-q4_1"):
        resolve_model("smollm2-135m-instruct-q4_1", offline=True)


def test_ones_own_data(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "own.jsonl"
    path.parent.mkdir()
    path.write_text("{}\n")
    sha256 = hashlib.sha256(b"{}\n").hexdigest()
    assert resolve_data(str(path)).sha256 == sha256
    folder = resolve_data(str(path.parent))
    assert folder.sha256 == cache.tree_sha256([("own.jsonl", sha256)])
    path.write_text("[]\n")
    assert resolve_data(str(path.parent)).sha256 != folder.sha256


def test_the_shipped_data() -> None:
    ref = resolve_data("quickstart", offline=True)
    assert ref.path.suffix == ".jsonl"
    assert ref.license == "Apache-2.0"
    assert not (cache.root() / "data").exists()
