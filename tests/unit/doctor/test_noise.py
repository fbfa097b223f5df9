from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import psutil
import pytest

from edge_runner.doctor import noise

BAT0 = "sys/class/power_supply/BAT0"
PROFILE = "sys/firmware/acpi/platform_profile"
QUIET = {"proc/loadavg": "0.01 0.02 0.03 1/99 1234"}


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "busy_processes", lambda _: [])


@pytest.mark.usefixtures("alone")
def test_a_quiet_machine(machine: Any, lines: Any) -> None:
    made = machine({**QUIET, PROFILE: "performance"})
    found = lines([*noise.load(made), *noise.power(made)])
    assert {check.state for check in found.values()} == {"ok"}
    assert "stolen time" not in found


@pytest.mark.usefixtures("alone")
def test_load_and_time_stolen_by_the_host(
    machine: Any, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = machine({"proc/loadavg": "99.5 9 9", "proc/stat": "cpu 100 0 100 800 0 0 0 0 0 0\n"})

    def sample(_: float) -> list[tuple[str, float]]:
        machine({"proc/stat": "cpu 130 0 130 930 0 0 0 10 0 0\n"})
        return []

    monkeypatch.setattr(noise, "busy_processes", sample)
    found = lines(noise.load(made))
    assert found["load"].state == "note"
    assert (found["stolen time"].state, found["stolen time"].value[:3]) == ("note", "5% ")


def test_busy_processes_are_named(
    machine: Any, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = [("ffmpeg", 1.9), ("[bold]make", 0.8), ("c", 0.5), ("d", 0.4)]
    monkeypatch.setattr(noise, "busy_processes", lambda _: busy)
    check = lines(noise.load(machine(QUIET)))["processes"]
    assert check.state == "note"
    assert check.value == "4 using a CPU (ffmpeg 190%, [bold]make 80%, c 50%)"


def test_what_uses_a_cpu_is_found_but_not_ourselves(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter(
        [
            {1: ("idle", 5.0), 2: ("busy", 5.0), os.getpid(): ("me", 1.0), 3: ("old", 1.0)},
            {1: ("idle", 5.0), 2: ("busy", 5.1), os.getpid(): ("me", 9.0), 3: ("reused", 9.0)},
        ]
    )
    monkeypatch.setattr(noise, "_cpu_seconds", lambda: next(readings))
    ((name, share),) = noise.busy_processes(0.1)
    assert name == "busy"
    assert share == pytest.approx(1.0)


def test_our_own_children_are_not_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    readings = iter(
        [
            {child.pid: ("python", 0.0), 1: ("other", 0.0)},
            {child.pid: ("python", 9.0), 1: ("other", 9.0)},
        ]
    )
    monkeypatch.setattr(noise, "_cpu_seconds", lambda: next(readings))
    try:
        assert [name for name, _ in noise.busy_processes(0.1)] == ["other"]
    finally:
        child.communicate(b"\n")


def test_processes_are_read_from_the_system() -> None:
    name, seconds = noise._cpu_seconds()[os.getpid()]
    assert name == psutil.Process().name()
    assert 0 < seconds < 3600


@pytest.mark.parametrize(
    ("tree", "what", "state"),
    [
        ({}, "power", "ok"),
        ({}, "power profile", "unavailable"),
        ({PROFILE: "balanced"}, "power profile", "ok"),
        ({PROFILE: "low-power"}, "power profile", "note"),
        (
            {"sys/devices/system/cpu/cpu0/cpufreq/energy_performance_preference": "power"},
            "power profile",
            "note",
        ),
        ({f"{BAT0}/status": "Discharging", f"{BAT0}/capacity": "90"}, "power", "note"),
        ({f"{BAT0}/status": "Charging", f"{BAT0}/capacity": "11"}, "power", "note"),
        ({f"{BAT0}/status": "Full", f"{BAT0}/capacity": "100"}, "power", "ok"),
        ({f"{BAT0}/status": "Full"}, "power", "ok"),
    ],
)
def test_power(machine: Any, lines: Any, tree: dict[str, str], what: str, state: str) -> None:
    if any(name.startswith(BAT0) for name in tree):
        tree = {**tree, f"{BAT0}/type": "Battery"}
    assert lines(noise.power(machine(tree)))[what].state == state
