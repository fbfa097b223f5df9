"""The report's page: its numbers are the summary's, and foreign text is only ever text."""

from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from edge_runner.results.report import write_report
from edge_runner.results.run_folder import RunFolder
from edge_runner.results.summary import summarize, write_summary

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028&\"'[red]"


class Page(HTMLParser):
    """Collects what the tests ask about: tags, attributes, embedded JSON."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.numbers: list[tuple[str, str]] = []
        self.urls: list[str] = []
        self.handlers: list[str] = []
        self.json: dict[str, Any] = {}
        self._open: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        if "data-of" in given:
            self.numbers.append((given["data-of"], given["value"]))
        self.urls += [given[name] for name in ("src", "href") if name in given]
        self.handlers += [name for name in given if name.startswith("on")]
        self._open = given.get("id") if given.get("type") == "application/json" else None

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self.json[self._open] = json.loads(data)

    def handle_endtag(self, tag: str) -> None:
        self._open = None


@pytest.fixture
def page(make_run: Callable[..., Any]) -> Callable[..., tuple[Page, Any, str]]:
    def make(outcomes: Any, **record: Any) -> tuple[Page, Any, str]:
        folder, run = make_run(outcomes, **record)
        summary = summarize(folder, run)
        write_summary(folder, summary)
        text = write_report(folder, summary).read_text(encoding="utf-8")
        return Page(text), json.loads(folder.summary.read_bytes()), text

    return make


def test_every_number_is_the_summary_s(
    page: Callable[..., Any], make_outcome: Callable[..., Any]
) -> None:
    shown, summary, _ = page([make_outcome(f"s{at % 6}", at // 6 + 1) for at in range(72)])
    assert len(shown.numbers) > 40
    for pointer, value in shown.numbers:
        expected = summary
        for part in pointer.strip("/").split("/"):
            expected = expected[part]
        assert json.loads(value) == pytest.approx(expected), pointer


def test_it_loads_nothing_and_runs_no_foreign_text(
    page: Callable[..., Any], make_outcome: Callable[..., Any]
) -> None:
    outcomes = [
        make_outcome(HOSTILE, 1),
        make_outcome(HOSTILE, 2, status="failed", error=HOSTILE),
    ]
    shown, _, text = page(outcomes, name=HOSTILE, failure=HOSTILE, expected_turns=3)
    scripts = shown.tags.count("script")
    plain, _, _ = page([make_outcome("a", 1), make_outcome("a", 2, status="failed", error="e")])
    assert scripts == plain.tags.count("script")
    assert "img" not in shown.tags
    assert shown.handlers == []
    assert all(url.startswith("#") for url in shown.urls)
    assert "default-src &#x27;none&#x27;" in text


@pytest.mark.parametrize(
    ("outcomes", "record", "said"),
    [
        ([], {"status": "failed", "failure": "the engine exploded"}, "the engine exploded"),
        ([], {"status": "aborted", "expected_turns": 5}, "not issued"),
        ([{"status": "failed", "error": "boom"}], {}, "boom"),
        ([{"status": "aborted"}], {"status": "aborted"}, "aborted"),
        ([{"status": "empty"}], {}, "empty"),
    ],
)
def test_a_run_that_went_wrong_says_so_before_any_number(
    page: Callable[..., Any],
    make_outcome: Callable[..., Any],
    outcomes: list[dict[str, Any]],
    record: dict[str, Any],
    said: str,
) -> None:
    _, _, text = page([make_outcome(**changes) for changes in outcomes], **record)
    assert "not verified by MLCommons Association" in text
    body = text[text.index("<main") :]
    assert said in body[: body.index('id="headline"')]


def test_a_run_without_events_still_has_a_page(make_run: Callable[..., Any]) -> None:
    folder, run = make_run([])
    folder.events.unlink()
    assert write_report(folder, summarize(folder, run)).exists()


def test_a_large_run_is_bounded(page: Callable[..., Any], make_outcome: Callable[..., Any]) -> None:
    outcomes = [make_outcome(f"s{at // 50}", at % 50 + 1) for at in range(12_000)]
    _, summary, text = page(outcomes)
    assert summary["per_turn_file"] == "turns.jsonl"
    assert "12,000" in text
    half = page(outcomes[:6000])[2]
    assert len(text) - len(half) < 500_000


def test_a_large_run_of_short_sessions_is_bounded(
    page: Callable[..., Any], make_outcome: Callable[..., Any]
) -> None:
    texts = [
        page([make_outcome(f"s{at}", 1) for at in range(count)])[2] for count in (6000, 12_000)
    ]
    assert len(texts[1]) - len(texts[0]) < 500_000


def test_a_damaged_record_is_an_error_of_ours(make_run: Callable[..., Any]) -> None:
    folder, run = make_run([])
    summary = summarize(folder, run)
    folder.record_file.write_bytes(msgspec.json.encode({"format": 99}))
    from edge_runner.errors import DataError

    with pytest.raises(DataError):
        write_report(RunFolder(folder.path), summary)
