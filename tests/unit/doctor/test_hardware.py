from __future__ import annotations

from typing import Any

import pytest

from edge_runner.devices import inventory
from edge_runner.devices.inventory import Accelerator
from edge_runner.doctor import hardware

X86 = """processor\t: 0
model name\t: Some [red]CPU
flags\t\t: fpu avx avx2 fma avx512f amx_int8
processor\t: 1
model name\t: Some [red]CPU
flags\t\t: fpu avx avx2 fma avx512f amx_int8
"""
ARM = "processor\t: 0\nFeatures\t: fp asimd asimddp sve\n"
MEMINFO = "MemTotal: {} kB\nMemAvailable: {} kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"
TOPOLOGY = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def test_two_threads_of_one_core(machine: Any, lines: Any) -> None:
    tree = {"proc/cpuinfo": X86, TOPOLOGY.format(0): "0-1", TOPOLOGY.format(1): "0-1"}
    found = lines(hardware.cpu(machine(tree)))
    assert found["CPU"].value == "Some [red]CPU; cores: 1 physical, 2 logical"
    assert found["instructions"].value == "avx2 fma avx512 amx_int8"


def test_an_arm_board_is_named_by_its_device_tree(machine: Any, lines: Any) -> None:
    tree = {"proc/cpuinfo": ARM, "proc/device-tree/model": "Some Board 5\0"}
    found = lines(hardware.cpu(machine(tree)))
    assert found["CPU"].value.startswith("Some Board 5;")
    assert found["instructions"].value == "neon dotprod sve"


def test_an_old_cpu_and_an_unknown_one(
    machine: Any, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inventory.platform, "machine", lambda: "x86_64")
    assert lines(hardware.cpu(machine()))["instructions"].state == "unavailable"
    old = {"proc/cpuinfo": "processor : 0\nflags : fpu sse2\n"}
    check = lines(hardware.cpu(machine(old)))["instructions"]
    assert (check.state, check.value) == ("note", "none (no AVX2)")


def test_a_quota_is_a_note(machine: Any, lines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = {
        "proc/self/cgroup": "0::/",
        "proc/self/mountinfo": "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup rw",
        "sys/fs/cgroup/cpu.max": "50000 100000",
    }
    check = lines(hardware.cpu(machine(tree)))["threads"]
    assert check.state == "note"
    assert "cgroup quota: 0.50 CPUs" in check.value


def test_memory(machine: Any, lines: Any) -> None:
    plenty = machine({"proc/meminfo": MEMINFO.format(16_000_000, 8_000_000)})
    check = lines(hardware.memory(plenty))["memory"]
    assert (check.state, check.value) == ("ok", "8.2 GB available of 16.4 GB")
    little = machine({"proc/meminfo": MEMINFO.format(16_000_000, 500_000)})
    check = lines(hardware.memory(little))["memory"]
    assert check.state == "note"
    assert "1.5 GB" in check.advice


def test_accelerators_seen_by_their_drivers(machine: Any, lines: Any) -> None:
    found = machine(
        {
            "proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t NVIDIA T4\nIRQ: 1\n",
            "dev/nvidia0": "",
            "sys/class/drm/card0/device/vendor": "0x10de",
            "sys/class/drm/card1/device/vendor": "0x8086",
            "sys/class/drm/card1/device/device": "0x7d55",
            "sys/class/drm/card1-HDMI-A-1/device/vendor": "0x8086",
            "sys/class/drm/card2/device/vendor": "0x1234",
            "sys/class/accel/accel0/device/vendor": "0x8086",
            "sys/class/accel/accel1/device/vendor": "0x1022",
        }
    )
    assert inventory.accelerators(found.root) == [
        Accelerator("GPU", "NVIDIA", "NVIDIA T4"),
        Accelerator("GPU", "Intel", "Intel GPU 0x7d55"),
        Accelerator("NPU", "Intel", "Intel NPU"),
        Accelerator("NPU", "AMD", "AMD NPU"),
    ]
    checks = list(hardware.accelerators(found))
    assert [check.state for check in checks] == ["note"] * 4
    assert "device.device=gpu" in checks[0].advice
    assert "no engine for Intel NPUs" in checks[2].advice


def test_a_gpu_of_which_only_the_device_node_is_seen(machine: Any) -> None:
    found = machine({"dev/nvidia0": "", "dev/nvidiactl": ""})
    assert inventory.accelerators(found.root) == [Accelerator("GPU", "NVIDIA", "NVIDIA GPU")]


@pytest.mark.parametrize("name", ["dev/nvidiactl", "proc/cpuinfo"])
def test_no_accelerator_is_fine(machine: Any, lines: Any, name: str) -> None:
    check = lines(hardware.accelerators(machine({name: ""})))["accelerators"]
    assert check.value.startswith("none seen")
