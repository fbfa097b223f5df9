"""The url source against a real HTTP server on this machine."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from edge_runner.catalog import cache, ensure, locate
from edge_runner.catalog.entry import Entry
from edge_runner.errors import DownloadError

CONTENT = random.Random(1).randbytes(3 << 20)


@dataclass
class Site:
    """What the server serves and how it misbehaves; `ranges` records what was asked for."""

    url: str = ""
    content: bytes = CONTENT
    status: int = 200
    honours_ranges: bool = True
    wrong_range: bool = False
    cut_after: list[int] = field(default_factory=list)
    ranges: list[str | None] = field(default_factory=list)


@pytest.fixture
def site() -> Iterator[Site]:
    state = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            state.ranges.append(asked)
            if state.status != 200:
                self.send_error(state.status)
                return
            start = 0
            if asked and state.honours_ranges:
                start = int(asked.removeprefix("bytes=").rstrip("-"))
            body = state.content[start:]
            if start or state.wrong_range:
                self.send_response(206)
                shift = 1 if state.wrong_range else 0
                last = len(state.content) - 1
                self.send_header("Content-Range", f"bytes {start + shift}-{last}/{last + 1}")
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if state.cut_after:
                body = body[: state.cut_after.pop(0)]
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}/{{file}}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def entry(make_entry: Any, site: Site) -> Entry:
    made: Entry = make_entry({"data.jsonl": CONTENT}, [{"kind": "url", "url": site.url}])
    return made


def leave_behind(entry: Entry, content: bytes) -> None:
    folder = cache.partial_folder(entry)
    folder.mkdir(parents=True)
    (folder / "data.jsonl").write_bytes(content)


def failure(entry: Entry) -> str:
    with pytest.raises(DownloadError) as caught:
        ensure(entry)
    assert locate(entry) is None
    return str(caught.value)


def test_a_file_is_fetched_with_progress(entry: Entry, site: Site) -> None:
    shown: list[int] = []
    located = ensure(entry, on_progress=lambda done, _total, _label: shown.append(done))
    assert located.path.read_bytes() == CONTENT
    assert site.ranges == [None]
    assert shown == sorted(shown)
    assert shown[-1] == len(CONTENT)


def test_the_second_use_asks_nobody(entry: Entry, site: Site) -> None:
    ensure(entry)
    ensure(entry)
    assert len(site.ranges) == 1


def test_a_short_body_is_continued(entry: Entry, site: Site) -> None:
    site.cut_after = [1_000_000, 500_000]
    assert ensure(entry).path.read_bytes() == CONTENT
    assert site.ranges == [None, "bytes=1000000-", "bytes=1500000-"]


def test_a_server_that_never_finishes(entry: Entry, site: Site) -> None:
    site.cut_after = [1000] * 50
    text = failure(entry)
    assert "url 127.0.0.1:" in text
    assert len(site.ranges) == 4
    site.cut_after = []
    assert ensure(entry).path.read_bytes() == CONTENT
    assert site.ranges[4] == "bytes=4000-"


def test_an_interrupted_fetch_continues(entry: Entry, site: Site) -> None:
    leave_behind(entry, CONTENT[:777])
    assert ensure(entry).path.read_bytes() == CONTENT
    assert site.ranges == ["bytes=777-"]


def test_a_whole_file_left_behind_needs_no_request(entry: Entry, site: Site) -> None:
    leave_behind(entry, CONTENT + b"tail")
    assert ensure(entry).path.read_bytes() == CONTENT
    assert site.ranges == []


def test_a_server_without_ranges_starts_over(entry: Entry, site: Site) -> None:
    site.honours_ranges = False
    leave_behind(entry, CONTENT[:777])
    assert ensure(entry).path.read_bytes() == CONTENT


def test_another_range_than_asked_is_refused(entry: Entry, site: Site) -> None:
    site.wrong_range = True
    leave_behind(entry, CONTENT[:777])
    assert "another range" in failure(entry)


def test_wrong_bytes_left_behind_are_replaced(entry: Entry, site: Site) -> None:
    leave_behind(entry, b"x" * 777)
    lines: list[str] = []
    assert ensure(entry, report=lines.append).path.read_bytes() == CONTENT
    assert site.ranges == ["bytes=777-", None]
    assert any("starting over" in line for line in lines)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (bytes(len(CONTENT)), "wrong SHA-256"),
        (CONTENT + b"more", "sends more than"),
        (CONTENT[:-1], "ended after"),
        (b"", "ended after 0"),
    ],
)
def test_wrong_contents(entry: Entry, site: Site, content: bytes, says: str) -> None:
    site.content = content
    assert says in failure(entry)


def test_http_errors_and_dead_servers(entry: Entry, site: Site, make_entry: Any) -> None:
    site.status = 404
    assert "HTTP 404" in failure(entry)
    dead = make_entry({"x": b"x"}, [{"kind": "url", "url": "http://127.0.0.1:9/x"}])
    assert "url 127.0.0.1:9: cannot connect" in failure(dead)
