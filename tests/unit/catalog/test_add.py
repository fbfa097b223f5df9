"""`models add`: what it checks, what it pins, what it leaves alone."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from gguf_files import METADATA, gguf_bytes, write_gguf, write_split

from edge_runner.catalog import cache, find, overridden, resolve_model, state
from edge_runner.catalog.add import Wanted, add_model
from edge_runner.catalog.entry import HubSource
from edge_runner.catalog.registry import user_catalogs
from edge_runner.errors import (
    AssetError,
    ConfigError,
    DownloadError,
    ModelFileError,
    UsageError,
)

Write = Callable[[str], Path]
SMOLLM = "smollm2-135m-instruct-q4_1"
GOOD = gguf_bytes(METADATA | {"general.license": "apache-2.0"})
COMMIT = "c" * 40


@pytest.fixture
def catalog(home: Path) -> Path:
    return user_catalogs()[0]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_file_is_pinned_where_it_lies(tmp_path: Path, catalog: Path) -> None:
    path = tmp_path / "My Model {1}.gguf"
    path.write_bytes(GOOD)
    entry = add_model(Wanted("mine", tool_format="hermes"), str(path))
    assert find("models", "mine") == entry
    assert entry.origin == catalog
    assert (entry.license, entry.context, entry.tool_format) == ("apache-2.0", 128, "hermes")
    [spec] = entry.files
    assert (spec.bytes, spec.sha256) == (len(GOOD), sha256(GOOD))
    assert state(entry) == "local"
    assert resolve_model("mine", role="generator", offline=True).path == path
    assert catalog.read_text().startswith("# Models and data sets of your own")
    path.write_bytes(GOOD + b"more")
    with pytest.raises(DownloadError, match="wrong SHA-256"):
        resolve_model("mine")


def test_a_relative_file_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_gguf(tmp_path / "own.gguf")
    monkeypatch.chdir(tmp_path)
    add_model(Wanted("mine"), "own.gguf")
    monkeypatch.chdir("/")
    assert resolve_model("mine").path == tmp_path / "own.gguf"


def test_a_split_model_is_pinned_whole(tmp_path: Path) -> None:
    shards = write_split(tmp_path, 3)
    entry = add_model(Wanted("mine"), str(shards[0]))
    assert len(entry.files) == 3
    ref = resolve_model("mine", role="generator")
    assert ref.path == shards[0]
    shards[2].unlink()
    with pytest.raises(DownloadError, match=r"tiny-00003-of-00003\.gguf is not there"):
        resolve_model("mine")


def test_the_users_text_stays(own_catalog: Write, tmp_path: Path) -> None:
    text = "# mine\nmodels: # good ones\n\ndata: {}  # none\n"
    path = own_catalog(text)
    path.chmod(0o600)
    add_model(Wanted("mine"), str(write_gguf(tmp_path / "own.gguf")))
    assert [line for line in text.splitlines() if line not in path.read_text()] == []
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(one.name for one in path.parent.iterdir()) == ["catalog.yaml"]


def test_a_linked_catalog_stays_a_link(own_catalog: Write, tmp_path: Path) -> None:
    path = own_catalog("")
    real = path.rename(tmp_path / "dotfiles.yaml")
    path.symlink_to(real)
    add_model(Wanted("mine"), str(write_gguf(tmp_path / "own.gguf")))
    assert path.is_symlink()
    assert "mine" in yaml.safe_load(real.read_text())["models"]


def test_the_first_named_catalog_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "new" / "a.yaml", tmp_path / "b.yaml"
    second.write_text("data: {}\n")
    monkeypatch.setenv("EDGE_RUNNER_CATALOG", f"{first}{os.pathsep}{second}")
    add_model(Wanted("mine"), str(write_gguf(tmp_path / "own.gguf")))
    assert find("models", "mine").origin == first
    assert second.read_text() == "data: {}\n"


@pytest.mark.parametrize("name", ["mine", SMOLLM])
def test_a_taken_name_is_replaced_only_when_told(tmp_path: Path, name: str, catalog: Path) -> None:
    path = write_gguf(tmp_path / "own.gguf")
    if name == "mine":
        add_model(Wanted(name), str(path))
    before = catalog.read_text() if catalog.exists() else None
    path.write_bytes(GOOD)
    with pytest.raises(UsageError, match=rf"{name} is already in .*--replace"):
        add_model(Wanted(name), str(path))
    assert (catalog.read_text() if catalog.exists() else None) == before
    entry = add_model(Wanted(name), str(path), replace=True)
    assert find("models", name).files[0].sha256 == sha256(GOOD)
    assert (overridden(entry) is None) == (name == "mine")


@pytest.mark.parametrize(
    ("content", "wanted", "error", "says"),
    [
        (b"<html>", {}, ModelFileError, "web page"),
        (GOOD[:-1], {}, ModelFileError, "truncated"),
        (gguf_bytes(METADATA | {"general.architecture": "bert"}), {}, ModelFileError, "cannot gen"),
        (GOOD, {"sha256": "0" * 64}, ModelFileError, f"has SHA-256 {sha256(GOOD)}, not 0000"),
        (GOOD, {"sha256": "abc"}, UsageError, "--sha256: 'abc'"),
        (GOOD, {"name": "My Model"}, UsageError, "'My Model' is no name"),
        (None, {}, AssetError, "does not exist"),
    ],
)
def test_what_is_refused_writes_nothing(
    tmp_path: Path,
    catalog: Path,
    content: bytes | None,
    wanted: dict[str, Any],
    error: type[Exception],
    says: str,
) -> None:
    path = tmp_path / "own.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error, match=says):
        add_model(Wanted(**{"name": "mine", **wanted}), str(path))
    assert not catalog.exists()


def test_another_role_needs_no_gguf(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08\x07")
    entry = add_model(Wanted("mine", role="embedder"), str(path))
    assert (entry.role, entry.license, entry.context) == ("embedder", "unknown", None)


def test_a_wrong_catalog_is_not_written_to(own_catalog: Write, tmp_path: Path) -> None:
    path = own_catalog("models: {mine: 3}\n")
    with pytest.raises(ConfigError, match=r"models\.mine: give the entry's fields"):
        add_model(Wanted("other"), str(write_gguf(tmp_path / "own.gguf")))
    assert path.read_text() == "models: {mine: 3}\n"


def test_a_catalog_that_cannot_be_extended_says_what_to_add(
    own_catalog: Write, tmp_path: Path
) -> None:
    model = write_gguf(tmp_path / "own.gguf")
    source = f"{{kind: path, path: {model}}}"
    inner = f"{{role: generator, license: MIT, files: [{{name: a}}], sources: [{source}]}}"
    path = own_catalog(f"models: {{one: {inner}}}\n")
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"under `models:` add `mine: \{") as caught:
        add_model(Wanted("mine"), str(model))
    assert path.read_bytes() == before
    assert caught.value.exit_code == 2


@pytest.fixture
def site() -> Iterator[str]:
    """Serves files as a site and as a hub does, by name."""
    files = {"good.gguf": GOOD, "page.gguf": b"<html>" * 99}

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            content = files.get(self.path.partition("?")[0].rpartition("/")[2])
            self.send_response(200 if content else 404)
            self.send_header("Content-Length", str(len(content or b"")))
            if content and "/resolve/" in self.path:
                self.send_header("ETag", f'"{sha256(content)}"')
                self.send_header("X-Repo-Commit", COMMIT)
            if content is None:
                self.send_header("X-Error-Code", "EntryNotFound")
            self.end_headers()

        def do_GET(self) -> None:
            self.do_HEAD()
            self.wfile.write(files.get(self.path.partition("?")[0].rpartition("/")[2], b""))

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("known", [True, False])
def test_a_url_is_fetched_and_pinned(site: str, known: bool) -> None:
    wanted = Wanted("mine", sha256=sha256(GOOD) if known else None)
    entry = add_model(wanted, f"{site}/a%20b/good.gguf?x={{1}}")
    assert find("models", "mine") == entry
    assert entry.context == 128
    assert state(entry) == "cached"
    ref = resolve_model("mine", offline=True)
    assert (ref.path.name, ref.sha256) == ("good.gguf", sha256(GOOD))
    assert sorted(path.name for path in (cache.root() / "models").iterdir() if path.is_dir()) == [
        *([".origins", ".partial"] if known else [".partial"]),
        entry.cached_as,
    ]
    cache.entry_path(entry).unlink()
    assert resolve_model("mine").path == ref.path


def test_replacing_a_fetched_model_drops_it_from_the_cache(site: str, tmp_path: Path) -> None:
    old = add_model(Wanted("mine"), f"{site}/good.gguf")
    assert cache.entry_path(old).is_file()
    add_model(Wanted("mine"), str(write_gguf(tmp_path / "own.gguf")), replace=True)
    assert not cache.entry_folder(old).exists()


@pytest.mark.parametrize("known", [True, False])
def test_a_url_of_something_else_leaves_nothing(site: str, catalog: Path, known: bool) -> None:
    wanted = Wanted("mine", sha256=sha256(b"<html>" * 99) if known else None)
    with pytest.raises(ModelFileError, match="web page"):
        add_model(wanted, f"{site}/page.gguf")
    assert not catalog.exists()
    assert list((cache.root() / "models").glob("mine*")) == []


def test_a_url_that_is_not_there(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DownloadError, match=r"none\.gguf: HTTP 404"):
        add_model(Wanted("mine"), f"{site}/none.gguf")
    with pytest.raises(DownloadError, match="SHA-256"):
        add_model(Wanted("mine", sha256="0" * 64), f"{site}/good.gguf")
    monkeypatch.setenv("EDGE_RUNNER_OFFLINE", "1")
    with pytest.raises(DownloadError, match="offline"):
        add_model(Wanted("mine"), f"{site}/good.gguf")


ADD = """
import sys
from edge_runner.catalog.add import Wanted, add_model
from edge_runner.errors import EdgeRunnerError

try:
    print(add_model(Wanted("mine", sha256=sys.argv[2] or None), sys.argv[1]).model_dump_json())
except EdgeRunnerError as error:
    print(error)
"""


def add_from_hub(site: str, source: str, sha256: str = "") -> str:
    """In a process of its own: the library reads its environment when imported."""
    done = subprocess.run(
        [sys.executable, "-c", ADD, source, sha256],
        env=os.environ | {"HF_ENDPOINT": site},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_a_file_of_the_hub_is_pinned_to_its_commit(site: str) -> None:
    added = json.loads(add_from_hub(site, "hub:owner/model@main/sub/good.gguf"))
    assert added["files"][0]["sha256"] == sha256(GOOD)
    [source] = find("models", "mine").sources
    assert source == HubSource(
        kind="hub", repo="owner/model", revision=COMMIT, file="sub/good.gguf"
    )
    assert resolve_model("mine", role="generator", offline=True).sha256 == sha256(GOOD)


@pytest.mark.parametrize(
    ("source", "pin", "says"),
    [
        ("hub:owner/model", "", "must be hub:OWNER/REPO"),
        ("hub:owner/model/none.gguf", "", "404"),
        ("hub:owner/model/good.gguf", "0" * 64, f"has SHA-256 {sha256(GOOD)}, not 0000"),
        ("hub:owner/model/page.gguf", "", "web page"),
    ],
)
def test_what_the_hub_has_not(site: str, catalog: Path, source: str, pin: str, says: str) -> None:
    assert says in add_from_hub(site, source, pin)
    assert not catalog.exists()
