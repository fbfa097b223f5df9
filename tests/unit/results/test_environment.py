from __future__ import annotations

import getpass
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from edge_runner.results import environment


def test_it_says_what_the_numbers_depend_on() -> None:
    captured = environment.capture()
    assert captured["os"]["system"] == platform.system()
    assert captured["cpu"]["logical_cores"] >= captured["cpu"]["usable_cores"] >= 1
    assert captured["memory"]["total"] > captured["memory"]["available"] > 0
    assert captured["packages"]["msgspec"]
    assert captured["python"]["version"] == platform.python_version()
    json.dumps(captured)


def test_it_names_no_person_and_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps(environment.capture())
    for secret in (platform.node(), str(Path.home()), str(Path.cwd()), sys.prefix):
        assert secret not in text
    if len(user := getpass.getuser()) > 3:
        assert user not in text.replace(platform.version(), "")


def test_it_imports_none_of_the_packages_it_reports() -> None:
    code = (
        "import sys; from edge_runner.results import environment; environment.capture();"
        "print(*{'numpy', 'scipy', 'llama_cpp', 'mlperf_loadgen', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.strip() == ""


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"cpu.max": "150000 100000"}, 1.5),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"}, 2.0),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu.max": "garbage"}, None),
        ({"cpu.max": "1 0"}, None),
        ({}, None),
    ],
)
def test_the_control_groups_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], quota: float | None
) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n")
    monkeypatch.setattr(environment, "_CGROUP", tmp_path)
    assert environment.capture()["cpu"]["quota"] == quota


def test_probes_that_fail_leave_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no")

    monkeypatch.setattr("psutil.cpu_freq", fail)
    monkeypatch.setattr("psutil.virtual_memory", fail)
    monkeypatch.setattr("os.getloadavg", fail)
    monkeypatch.setattr("platform.freedesktop_os_release", fail)
    captured = environment.capture()
    assert captured["cpu"]["current_mhz"] is None
    assert captured["memory"]["total"] is None
    assert captured["load_average"] is None
