"""The user's catalogs over the shipped one: what is added, what is hidden, what is told."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from gguf_files import write_gguf
from typer.testing import CliRunner

from edge_runner.catalog import (
    cache,
    ensure,
    entries,
    find,
    overridden,
    resolve_model,
    state,
    verify,
)
from edge_runner.catalog.registry import shipped, user_catalogs
from edge_runner.cli.models import app
from edge_runner.errors import ConfigError, DownloadError

Write = Callable[[str], Path]

SMOLLM = "smollm2-135m-instruct-q4_1"
MODEL = """
models:
  {name}:
    role: generator
    license: MIT
    files: [{{name: tiny.gguf{pin}}}]
    sources: [{{kind: path, path: {path}}}]
"""


def entry(name: str = "mine", path: Path | str = "tiny.gguf", pinned: bytes | None = None) -> str:
    pin = ""
    if pinned is not None:
        pin = f", bytes: {len(pinned)}, sha256: {hashlib.sha256(pinned).hexdigest()}"
    return MODEL.format(name=name, path=path, pin=pin)


def test_no_catalog_of_the_user_is_no_error(home: Path) -> None:
    [path] = user_catalogs()
    assert path.is_relative_to(home)
    assert (path.name, path.parent.name) == ("catalog.yaml", "edge-runner")
    assert entries("models") == shipped("models")
    assert all(one.origin is None for one in entries("data"))


def test_entries_are_added_behind_the_shipped(home: Path) -> None:
    [path] = user_catalogs()
    path.parent.mkdir(parents=True)
    path.write_text(entry())
    assert entries("models")[:-1] == shipped("models")
    assert find("models", "mine").origin == path
    assert overridden(find("models", "mine")) is None
    path.unlink()
    assert entries("models") == shipped("models")


def test_a_changed_catalog_is_read_again(own_catalog: Write) -> None:
    own_catalog(entry("first"))
    assert find("models", "first")
    own_catalog(entry("second-one"))
    assert [one.name for one in entries("models") if one.origin] == ["second-one"]


def test_an_override_stands_in_the_place_of_the_shipped_entry(own_catalog: Write) -> None:
    origin = own_catalog(entry(SMOLLM, pinned=b"other"))
    names = [one.name for one in entries("models")]
    assert names == [one.name for one in shipped("models")]
    own = find("models", SMOLLM)
    hidden = overridden(own)
    assert own.origin == origin
    assert hidden is not None
    assert hidden.official is False
    assert own.pins != hidden.pins
    assert cache.entry_folder(own) != cache.entry_folder(hidden)


def test_an_override_with_the_same_files_shares_their_place(own_catalog: Write) -> None:
    [spec] = find("models", SMOLLM).files
    own_catalog(
        f"models:\n  {SMOLLM}:\n    role: generator\n    license: MIT\n    files:\n"
        f"      - {{name: {spec.name}, bytes: {spec.bytes}, sha256: {spec.sha256}}}\n"
        "    sources: [{kind: url, url: 'http://127.0.0.1:9/{file}'}]\n"
    )
    own = find("models", SMOLLM)
    hidden = overridden(own)
    assert hidden is not None
    assert cache.entry_path(own) == cache.entry_path(hidden)


def test_the_first_of_several_catalogs_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text(entry("both", "first.gguf"))
    second.write_text(entry("both", "second.gguf") + entry("other").replace("\nmodels:\n", ""))
    monkeypatch.setenv("EDGE_RUNNER_CATALOG", f"{first}{os.pathsep}{second}")
    assert find("models", "both").origin == first
    assert find("models", "other").origin == second


def test_a_catalog_that_is_named_must_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGE_RUNNER_CATALOG", str(tmp_path / "none.yaml"))
    with pytest.raises(ConfigError, match=r"EDGE_RUNNER_CATALOG: .*none\.yaml does not exist"):
        entries("models")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (entry().replace("role: generator", "rolle: generator"), r"models\.mine\.role: Field req"),
        (entry().replace("license: MIT", "license: 3"), r"models\.mine\.license: .*string"),
        (
            entry().replace("kind: path, path:", "kind: url, url:"),
            r"models\.mine.*sources.*pattern",
        ),
        (
            entry().replace("kind: path, path: ", "kind: url, url: http://x/"),
            r"models\.mine: tiny\.gguf: bytes and sha256 are required",
        ),
        (
            entry().replace("kind: path, path:", "kind: package, package: json, path:"),
            r"models\.mine\.sources\.0\.kind: 'package' is for",
        ),
        (entry() + "    origin: /etc\n", r"models\.mine\.origin: unknown key"),
        (entry() + "    role: reranker\n", r"line 8: key 'role' is given twice"),
        ("models: {mine: [}", r"line 1: not valid YAML"),
        ("modells: {}", r"has other keys than models and data"),
    ],
)
def test_a_wrong_catalog_is_one_line_and_hides_nothing(
    own_catalog: Write, text: str, says: str
) -> None:
    path = own_catalog(text)
    with pytest.raises(ConfigError, match=says) as caught:
        entries("models")
    assert caught.value.exit_code == 2
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match=says):
        find("models", SMOLLM)


def test_paths_start_at_the_catalog_and_need_no_hash(
    own_catalog: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    catalog = own_catalog(entry(path="'models/{file}'"))
    model = catalog.parent / "models" / "tiny.gguf"
    assert state(find("models", "mine")) == "absent"
    model.parent.mkdir()
    write_gguf(model)
    monkeypatch.chdir(tmp_path)
    assert state(find("models", "mine")) == "not pinned"
    ref = resolve_model("mine", role="generator", offline=True)
    assert ref.path == model
    assert ref.sha256 == hashlib.sha256(model.read_bytes()).hexdigest()
    assert ref.source is not None
    assert ref.source.endswith("(the user's own catalog entry)")
    assert list(verify(find("models", "mine"))) == [("tiny.gguf", "")]


def test_a_folder_with_braces_in_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "{0}"
    folder.mkdir()
    write_gguf(folder / "tiny.gguf")
    (folder / "own.yaml").write_text(entry(path="'{file}'"))
    monkeypatch.setenv("EDGE_RUNNER_CATALOG", str(folder / "own.yaml"))
    assert resolve_model("mine").path == folder / "tiny.gguf"


def test_a_pinned_path_is_held_to_its_hash(own_catalog: Write) -> None:
    catalog = own_catalog("")
    model = write_gguf(catalog.parent / "tiny.gguf")
    own_catalog(entry(pinned=model.read_bytes()))
    assert state(find("models", "mine")) == "unchecked"
    assert ensure(find("models", "mine")).path == model
    assert state(find("models", "mine")) == "local"
    model.write_bytes(b"GGUF other")
    with pytest.raises(DownloadError, match=r"wrong SHA-256.*correct the entry in .*catalog\.yaml"):
        ensure(find("models", "mine"))
    [(_, problem)] = verify(find("models", "mine"))
    assert "wrong SHA-256" in problem


def test_own_entries_are_marked_and_their_file_is_named(own_catalog: Write) -> None:
    origin = own_catalog(entry(SMOLLM, pinned=b"other") + entry().replace("\nmodels:\n", ""))
    listed = CliRunner().invoke(app, ["list"])
    lines = {line.split()[0]: line for line in listed.stdout.splitlines()}
    assert lines[SMOLLM].endswith("absent      override")
    assert lines["mine"].endswith("absent      own")
    assert lines["bge-small-en-v1.5-int8"].endswith("absent")
    assert max(map(len, lines.values())) <= 80
    assert str(origin) in listed.stderr
    shown = CliRunner().invoke(app, ["show", SMOLLM]).stdout
    assert str(origin) in shown
    assert "the shipped entry, with other files" in shown
    own = json.loads(CliRunner().invoke(app, ["show", "mine", "--json"]).stdout)
    assert own["catalog"] == str(origin)
    assert own["overrides"] is None
    assert "not pinned" in own["files"][0]
