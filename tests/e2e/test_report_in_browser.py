"""The report opens from a file in a real browser: no network, no console message, figures drawn."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support import edge_runner

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
# What the browser itself asks for at every start, whatever page it shows.
ITS_OWN = (".google.com", ".googleapis.com", ".gstatic.com")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--enable-logging=stderr", "--v=0", "--virtual-time-budget=10000",
)  # fmt: skip

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH (package chromium)")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    script = "device.script=[{decode_tps: 2000, prefill_tps: 50000}, {turn: 4, fail: empty}]"
    sets = ("--set", "device.kind=scripted", "--set", script)
    done = edge_runner("run", "agentic-quickstart", *sets, "--out", "out", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "out"


def browse(page: Path, profile: Path, width: int, *more: str) -> subprocess.CompletedProcess[str]:
    assert CHROMIUM is not None
    return subprocess.run(
        [
            CHROMIUM, *FLAGS, f"--user-data-dir={profile}", f"--window-size={width},1200",
            f"--log-net-log={profile / 'net.json'}", *more, page.resolve().as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("width", [390, 1440])
def test_it_opens_offline_without_a_message(run: Path, tmp_path: Path, width: int) -> None:
    done = browse(run / "report.html", tmp_path, width, "--dump-dom")
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    # Plotly drew: its surfaces are in the page that the browser ended with.
    assert done.stdout.count("main-svg") >= 5
    median = json.loads((run / "summary.json").read_bytes())["latency_ns"]["median"]
    assert 'data-of="/latency_ns/median"' in done.stdout
    assert f'value="{median}"' in done.stdout


def test_it_asks_the_network_for_nothing(run: Path, tmp_path: Path) -> None:
    browse(run / "report.html", tmp_path, 1440, "--dump-dom")
    log = (tmp_path / "net.json").read_text(encoding="utf-8", errors="replace")
    asked = {part.split('"')[0] for part in log.split('"url":"')[1:]}
    hosts = {urlsplit(url).hostname or "" for url in asked if url.startswith("http")}
    assert {host for host in hosts if not f".{host}".endswith(ITS_OWN)} == set()
