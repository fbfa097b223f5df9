"""Models of Ollama, LM Studio, the hub and llama.cpp, in trees as those programs make them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from gguf_files import METADATA, gguf_bytes, write_gguf, write_split
from typer.testing import CliRunner

from edge_runner.catalog import cache, find_local, find_models, ollama, resolve_model
from edge_runner.catalog.add import Wanted, add_model
from edge_runner.cli.models import app
from edge_runner.errors import AssetError, ModelFileError, UsageError

TOOLS = METADATA | {
    "tokenizer.chat_template": "{% for tool in tools %}{{ tool }}{% endfor %}",
    "general.file_type": 15,
}
GOOD = gguf_bytes(TOOLS)


@pytest.fixture
def pulled(tmp_path: Path) -> Any:
    """Put a model where Ollama would, under `parts` of host, namespace, model and tag."""

    def pull(
        *parts: str, content: bytes = GOOD, layers: list[dict[str, Any]] | None = None
    ) -> Path:
        root = tmp_path / "ollama"
        sha256 = hashlib.sha256(content).hexdigest()
        blob = root / "blobs" / f"sha256-{sha256}"
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(content)
        model = {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{sha256}"}
        text = {
            "mediaType": "application/vnd.ollama.image.template",
            "digest": "sha256:" + "0" * 64,
        }
        manifest = {"schemaVersion": 2, "layers": [text, model] if layers is None else layers}
        path = root.joinpath("manifests", *parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(manifest))
        return blob

    return pull


def library(model: str, tag: str) -> tuple[str, ...]:
    return ("registry.ollama.ai", "library", model, tag)


def test_nothing_is_found_in_an_empty_home() -> None:
    assert find_models().models == ()
    result = CliRunner().invoke(app, ["find"])
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no model found" in result.stderr


def test_ollama(pulled: Any) -> None:
    blob = pulled(*library("qwen", "0.5b"))
    pulled("registry.ollama.ai", "someone", "mine", "latest", content=gguf_bytes())
    pulled("hf.co", "owner", "repo", "Q4_K_M", content=b"GGUF")
    found = {one.name: one for one in find_models().models}
    assert set(found) == {
        "ollama:qwen:0.5b",
        "ollama:someone/mine:latest",
        "ollama:hf.co/owner/repo:Q4_K_M",
    }
    qwen = found["ollama:qwen:0.5b"]
    assert (qwen.path, qwen.place, qwen.bytes) == (blob, "ollama", len(GOOD))
    assert qwen.usable
    assert qwen.tools
    assert qwen.info is not None
    assert qwen.info.quantization == "Q4_K_M"
    assert not found["ollama:someone/mine:latest"].tools
    broken = found["ollama:hf.co/owner/repo:Q4_K_M"]
    assert broken.info is None
    assert "truncated" in str(broken.problem)


@pytest.mark.parametrize(
    ("layers", "says"),
    [
        ([], "no GGUF files"),
        (None, "2 GGUF files"),
        ([{"mediaType": "application/vnd.ollama.image.adapter", "digest": "x"}], "adapter"),
        (
            [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../etc"}],
            "manifest is damaged",
        ),
    ],
)
def test_ollama_models_without_one_file(pulled: Any, layers: Any, says: str) -> None:
    model = {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:" + "0" * 64}
    pulled(*library("odd", "latest"), layers=[model, model] if layers is None else layers)
    [found] = find_models().models
    assert found.path is None
    assert says in str(found.problem)
    with pytest.raises(AssetError, match=f"ollama:odd:latest: .*{says}"):
        resolve_model("ollama:odd")


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"layers": 3}', '{"layers": [1, {}]}', "[" * 9999]
)
def test_damaged_manifests(pulled: Any, tmp_path: Path, text: str) -> None:
    pulled(*library("good", "latest"))
    pulled(*library("bad", "latest"), content=b"x")
    (tmp_path / "ollama/manifests" / Path(*library("bad", "latest"))).write_text(text)
    found = {one.name: one.problem for one in find_models().models}
    assert found["ollama:good:latest"] is None
    assert found["ollama:bad:latest"]


def test_a_model_of_ollama_is_used_by_name(pulled: Any) -> None:
    blob = pulled(*library("qwen", "latest"))
    pulled(*library("qwen", "0.5b"), content=gguf_bytes())
    ref = resolve_model("ollama:qwen", role="generator")
    assert (ref.name, ref.path, ref.source) == ("ollama:qwen:latest", blob, "ollama")
    assert ref.sha256 == hashlib.sha256(GOOD).hexdigest()
    assert resolve_model("ollama:qwen:0.5b").path != blob
    assert add_model(Wanted("mine"), "ollama:qwen").files[0].sha256 == ref.sha256
    assert resolve_model("mine", role="generator").path == blob
    with pytest.raises(
        AssetError, match=r"no model 'qwem:latest'.*did you mean ollama:qwen:latest"
    ):
        resolve_model("ollama:qwem")
    blob.write_bytes(gguf_bytes(TOOLS | {"general.name": "Else"}))
    with pytest.raises(ModelFileError, match="ollama pull qwen:latest"):
        resolve_model("ollama:qwen")


def test_ollamas_own_folders(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.delenv("OLLAMA_MODELS")
    assert home / ".ollama/models" in ollama.folders()


@pytest.mark.parametrize("root", [".lmstudio/models", ".cache/lm-studio/models"])
def test_lm_studio(home: Path, root: str) -> None:
    folder = home / root / "publisher/repo"
    folder.mkdir(parents=True)
    path = write_gguf(folder / "model.gguf")
    write_gguf(folder / "mmproj.gguf", metadata=METADATA | {"general.architecture": "clip"})
    (folder / "._model.gguf").write_bytes(b"a Mac's")
    mmproj, model = find_models().models
    assert (model.name, model.model) == ("publisher/repo/model.gguf", str(path))
    assert model.place == "lm-studio"
    assert "cannot generate text" in str(mmproj.problem)


@pytest.mark.parametrize("variable", ["HF_HOME", "HF_HUB_CACHE", None])
def test_the_hubs_cache(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str | None
) -> None:
    hub = {"HF_HOME": tmp_path / "hf/hub", "HF_HUB_CACHE": tmp_path / "elsewhere"}.get(
        str(variable), home / ".cache/huggingface/hub"
    )
    monkeypatch.delenv("HF_HOME")
    if variable is not None:
        monkeypatch.setenv(variable, str(hub.parent if variable == "HF_HOME" else hub))
    repo = hub / "models--owner--repo"
    (repo / "blobs").mkdir(parents=True)
    (repo / "blobs/abc").write_bytes(GOOD)
    for revision in ("1" * 40, "2" * 40):
        folder = repo / "snapshots" / revision / "sub"
        folder.mkdir(parents=True)
        (folder / "model.gguf").symlink_to("../../../blobs/abc")
        (folder / "gone.gguf").symlink_to("../../../blobs/gone")
    gone, model, again = find_models().models
    assert model.name == "owner/repo/sub/model.gguf"
    assert model.path == repo / "snapshots" / ("1" * 40) / "sub/model.gguf"
    assert model.usable
    assert gone.problem == again.problem == "does not exist"


def test_llama_cpps_cache(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_CACHE", str(tmp_path / "llama"))
    (tmp_path / "llama").mkdir()
    write_gguf(tmp_path / "llama" / "owner_repo_model.gguf")
    assert [one.place for one in find_models().models] == ["llama.cpp"]


def test_our_own_cache_goes_by_the_catalogs_names() -> None:
    name = "smollm2-135m-instruct-q4_1"
    folder = cache.root() / "models"
    (folder / name).mkdir(parents=True)
    (folder / ".partial" / name).mkdir(parents=True)
    write_gguf(folder / name / "SmolLM2-135M-Instruct.Q4_1.gguf")
    write_gguf(folder / ".partial" / name / "SmolLM2-135M-Instruct.Q4_1.gguf")
    [found] = find_models().models
    assert (found.name, found.model, found.place) == (name, name, "edge-runner")


def test_links_loops_and_shards(tmp_path: Path) -> None:
    root = tmp_path / "models"
    deep = root / "a/b"
    deep.mkdir(parents=True)
    write_split(deep, 3)
    lone = root / "lone"
    lone.mkdir()
    shutil.copy(deep / "tiny-00002-of-00003.gguf", lone)
    (deep / "up").symlink_to(root, target_is_directory=True)
    (deep / "self").symlink_to("self")
    os.link(deep / "tiny-00001-of-00003.gguf", root / "same.gguf")
    (root / "linked.gguf").symlink_to(deep / "tiny-00001-of-00003.gguf")
    found = find_models([root]).models
    assert [one.name for one in found if one.usable] == ["models/a/b/tiny-00001-of-00003.gguf"]
    assert [one.problem for one in found if not one.usable] == [
        "part 2 of 3; give the first: tiny-00001-of-00003.gguf"
    ]


def test_a_file_and_a_folder_that_is_not_there(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "own.gguf")
    [found] = find_models([path]).models
    assert (found.name, found.path) == ("own.gguf", path)
    with pytest.raises(UsageError, match="nowhere does not exist"):
        find_models([tmp_path / "nowhere"])


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a user without rights")
def test_a_folder_one_may_not_read_is_told(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(0)
    assert any("closed" in note for note in find_models([tmp_path]).notes)


def test_the_search_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        write_gguf(tmp_path / f"{number}.gguf")
    deep = tmp_path.joinpath(*"abcdefghijkl")
    deep.mkdir(parents=True)
    write_gguf(deep / "deep.gguf")
    assert len(find_models([tmp_path]).models) == 5
    monkeypatch.setattr(find_local, "MAX_MODELS", 2)
    found = find_models([tmp_path])
    assert len(found.models) == 2
    assert found.notes[0].startswith("stopped early: more than")
    found = find_models([tmp_path], budget_s=0)
    assert found.models == ()
    assert "it took more than 0 s" in found.notes[0]


def test_the_table_fits_and_says_how_to_go_on(tmp_path: Path, pulled: Any) -> None:
    pulled(*library("qwen", "0.5b"))
    broken = tmp_path / "aaa" / "broken\x1b[31m.gguf"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"<html>")
    result = CliRunner().invoke(app, ["find", str(broken.parent)])
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    rows = [line for line in result.stdout.splitlines() if not line.startswith("    /")]
    assert max(map(len, rows)) <= 80
    assert rows[0].split() == ["NAME", "SIZE", "QUANT", "ARCH", "CONTEXT", "TOOLS", "USE"]
    assert "cannot be used: a web page, not a model" in result.stdout
    [qwen] = [row for row in rows if row.startswith("ollama:qwen:0.5b")]
    assert qwen.split()[-5:] == ["Q4_K_M", "llama", "128", "yes", "yes"]
    assert "edge-runner bench agentic --model ollama:qwen:0.5b" in result.stderr
    assert "edge-runner models add NAME ollama:qwen:0.5b" in result.stderr
    listed = json.loads(CliRunner().invoke(app, ["find", str(broken.parent), "--json"]).stdout)
    assert [one["usable"] for one in listed] == [False, True]
    assert listed[1]["quantization"] == "Q4_K_M"
    shown = CliRunner().invoke(app, ["show", "ollama:qwen:0.5b"]).stdout
    assert "Q4_K_M" in shown
