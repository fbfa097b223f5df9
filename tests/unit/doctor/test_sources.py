from __future__ import annotations

import sys
from typing import Any

import pytest

from edge_runner.catalog import hub as catalog_hub
from edge_runner.doctor import bounded, sources


def test_a_hub_that_answers_and_one_that_does_not(
    machine: Any, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_hub, "probe", lambda _: "")
    assert lines(sources.hub(machine()))["hub"].state == "ok"
    monkeypatch.setattr(catalog_hub, "probe", lambda _: "cannot connect: no route")
    check = lines(sources.hub(machine()))["hub"]
    assert check.state == "note"
    assert "cannot connect: no route" in check.value


def test_a_hub_is_not_asked_offline(
    machine: Any, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(catalog_hub, "probe", lambda endpoint: asked.append(endpoint) or "")
    check = lines(sources.hub(machine(environ={"EDGE_RUNNER_OFFLINE": "1"})))["hub"]
    assert check.state == "note"
    assert not asked


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let `pip config list` print this."""

    def say(stdout: str, code: int | None = 0, stderr: str = "") -> None:
        ended = bounded.Ended(code, stdout, stderr)
        monkeypatch.setattr(sources.bounded, "run", lambda *_: ended)

    return say


def test_pip_as_it_comes(machine: Any, lines: Any, pip: Any) -> None:
    pip("")
    check = lines(sources.index(machine()))["package index"]
    assert check.value == "pip looks at its default index (not tried)"


def test_passwords_in_addresses_are_not_shown(machine: Any, lines: Any, pip: Any) -> None:
    pip(
        "global.index-url='https://me:secret@mirror.example:8443/simple?token=secret'\n"
        "global.extra-index-url='\\nhttps://other.example/simple\\nfile:///srv/wheels'\n"
        ":env:.find-links='/srv/wheels'\n"
        "install.find-links='/not/for/downloads'\n"
        "a line that is none\n"
    )
    value = lines(sources.index(machine()))["package index"].value
    assert "https://mirror.example:8443, https://other.example, a local folder" in value
    assert "secret" not in value


def test_pip_without_an_index(machine: Any, lines: Any, pip: Any) -> None:
    pip("global.no-index='true'\n")
    assert lines(sources.index(machine()))["package index"].state == "note"
    pip("global.no-index='true'\nglobal.find-links='/srv/wheels'\n")
    value = lines(sources.index(machine()))["package index"].value
    assert value == "pip looks at a local folder (not tried)"


def test_pip_that_is_not_there(machine: Any, lines: Any, pip: Any) -> None:
    pip("", 1, "/usr/bin/python: No module named pip\n")
    check = lines(sources.index(machine()))["package index"]
    assert check.state == "note"
    assert "No module named pip" in check.value


def test_proxies(machine: Any, lines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"https": "http://me:secret@proxy.example:3128/", "no": "localhost"}
    monkeypatch.setattr(sources.urllib.request, "getproxies", lambda: found)
    assert lines(sources.proxies(machine()))["proxies"].value == "https: http://proxy.example:3128"
    monkeypatch.setattr(sources.urllib.request, "getproxies", dict)
    assert lines(sources.proxies(machine()))["proxies"].value == "none"


def test_a_command_and_its_children_are_ended_in_time() -> None:
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    code = (
        f"print('started', flush=True); {child.replace('input()', 'import time; time.sleep(99)')}"
    )
    ended = bounded.run([sys.executable, "-c", code], limit_s=1)
    assert ended.code is None
    assert ended.cause == "no answer in time"


def test_output_is_cut_to_its_end() -> None:
    code = "print('x' * 1_000_000 + 'end', end='')"
    ended = bounded.run([sys.executable, "-c", code], limit_s=30)
    assert len(ended.stdout) == bounded.OUTPUT_BYTES
    assert ended.stdout.endswith("xend")
