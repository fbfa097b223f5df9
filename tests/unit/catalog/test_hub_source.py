"""The hub source: the real huggingface_hub against a hub of our own, and against silent ones."""

from __future__ import annotations

import hashlib
import json
import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from edge_runner.catalog import hub
from edge_runner.catalog.entry import Entry

CONTENT = random.Random(2).randbytes(1 << 20)
REVISION = "a" * 40
SOURCE = {"kind": "hub", "repo": "owner/model", "revision": REVISION}

ENSURE = """
import json, sys
from edge_runner.catalog import ensure
from edge_runner.catalog.entry import Entry
from edge_runner.errors import EdgeRunnerError

lines = []
try:
    located = ensure(Entry.model_validate_json(sys.argv[1]), report=lines.append)
    print(json.dumps({"path": str(located.path), "source": located.source, "lines": lines}))
except EdgeRunnerError as error:
    print(json.dumps({"error": str(error), "lines": lines}))
"""


class Hub(BaseHTTPRequestHandler):
    """As much of a hub as a download needs: one file in one repository."""

    asked: list[str]

    def do_HEAD(self) -> None:
        self.asked.append(self.path)
        self._answer(body=False)

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        if self.path == f"/owner/model/resolve/{REVISION}/model.gguf":
            self.send_response(200)
            self.send_header("ETag", f'"{hashlib.sha256(CONTENT).hexdigest()}"')
            self.send_header("X-Repo-Commit", REVISION)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            if body:
                self.wfile.write(CONTENT)
        else:
            self.send_response(404)
            self.send_header("X-Error-Code", "EntryNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    Hub.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def ensure_elsewhere(entry: Entry, **environment: str) -> dict[str, Any]:
    """`ensure` in a process of its own: the library reads its environment when imported."""
    done = subprocess.run(
        [sys.executable, "-c", ENSURE, entry.model_dump_json()],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_file_comes_from_the_hub(make_entry: Any, endpoint: str) -> None:
    entry = make_entry({"model.gguf": CONTENT}, [SOURCE])
    answer = ensure_elsewhere(entry, HF_ENDPOINT=endpoint)
    assert answer["source"] == "hub owner/model"
    assert Path(answer["path"]).read_bytes() == CONTENT
    assert any("from hub owner/model" in line for line in answer["lines"])


def test_a_file_the_hub_lacks(make_entry: Any, endpoint: str) -> None:
    entry = make_entry({"other.gguf": CONTENT}, [SOURCE])
    answer = ensure_elsewhere(entry, HF_ENDPOINT=endpoint)
    assert "hub owner/model: " in answer["error"]
    assert "404" in answer["error"]


def test_the_hubs_own_cache_is_used_offline(make_entry: Any, endpoint: str, tmp_path: Path) -> None:
    snapshot = tmp_path / "hf" / "hub" / "models--owner--model" / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (snapshot / "model.gguf").write_bytes(CONTENT)
    entry = make_entry({"model.gguf": CONTENT}, [SOURCE])
    answer = ensure_elsewhere(entry, EDGE_RUNNER_OFFLINE="1", HF_ENDPOINT=endpoint)
    assert Path(answer["path"]).read_bytes() == CONTENT
    assert Hub.asked == []


def test_the_librarys_offline_mode_is_honoured(make_entry: Any, endpoint: str) -> None:
    entry = make_entry({"model.gguf": CONTENT}, [SOURCE])
    answer = ensure_elsewhere(entry, HF_HUB_OFFLINE="1", HF_ENDPOINT=endpoint)
    assert "hub owner/model: offline" in answer["error"]
    assert Hub.asked == []


def test_a_silent_hub_is_asked_once_and_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "PROBE_TIMEOUT_S", 0.2)
    hub.probe.cache_clear()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(0)
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        answers = {hub.probe(endpoint) for _ in range(3)}
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert len(answers) == 1
    assert answers < {"no answer within 0 s", "stopped answering"}


def test_a_dead_hub_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    hub.probe.cache_clear()
    assert "cannot connect" in hub.probe("http://127.0.0.1:9")
    assert hub.probe("not a url")


def test_a_hub_that_answers_is_reachable(endpoint: str) -> None:
    assert hub.probe(endpoint) == ""
