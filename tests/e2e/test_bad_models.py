"""Broken and malicious model files through the command: one line, exit 4, nothing lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from gguf_files import gguf_bytes, write_split
from support import edge_runner
from tiny_models import write_attention_model, write_recurrent_model


def empty(folder: Path) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(b"")
    return path


def saved_page(folder: Path) -> Path:
    path = folder / "model.gguf"
    path.write_text("<!doctype html><title>Sign in</title>", encoding="utf-8")
    return path


def pointer(folder: Path) -> Path:
    path = folder / "model.gguf"
    path.write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 42\n",
        encoding="utf-8",
    )
    return path


def truncated(folder: Path) -> Path:
    path = write_attention_model(folder / "model.gguf")
    path.write_bytes(path.read_bytes()[:-1000])
    return path


def unknown_architecture(folder: Path) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(gguf_bytes().replace(b"llama", b"lamma"))
    return path


def missing_shard(folder: Path) -> Path:
    first, second, *_ = write_split(folder)
    second.unlink()
    return first


def template(source: str) -> Callable[[Path], Path]:
    return lambda folder: write_attention_model(folder / "model.gguf", template=source)


LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{{ b }}{% endfor %}{% endfor %}"
DOUBLING = (
    "{% set ns = namespace(x='x') %}{% for i in range(60) %}"
    "{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}"
)

BROKEN = [
    pytest.param(empty, "is empty", id="empty"),
    pytest.param(saved_page, "is a web page", id="saved page"),
    pytest.param(pointer, "pointer", id="pointer"),
    pytest.param(truncated, "is truncated", id="truncated"),
    pytest.param(unknown_architecture, "lamma", id="unknown architecture"),
    pytest.param(missing_shard, "00002-of-", id="missing shard"),
    pytest.param(template(LOOPS), "limit", id="template that never ends"),
    pytest.param(template(DOUBLING), "limit", id="template that fills memory"),
    pytest.param(template("{% for x in %}"), "chat template", id="template with a syntax error"),
]


@pytest.mark.parametrize(("make", "said"), BROKEN)
def test_a_bad_model_is_one_line(tmp_path: Path, make: Callable[[Path], Path], said: str) -> None:
    model = make(tmp_path)
    done = edge_runner(
        "run", "agentic-quickstart", "--set", f"generator.model={model}", "--json", cwd=tmp_path
    )
    assert done.returncode == 4, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    assert said in last
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("write", [write_attention_model, write_recurrent_model])
def test_a_tiny_model_of_either_kind_runs(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    model = write(tmp_path / "model.gguf")
    done = edge_runner(
        "run", "agentic-quickstart", "--json",
        "--set", f"generator.model={model}", "--set", "device.context_tokens=32768",
        "--set", "workload.sessions=1", "--set", "workload.max_turns=2",
        "--set", "generation.max_tokens=4",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
