"""What hardware this machine has, as far as the operating system tells without any runtime.

Reading a few files: no driver library is loaded and no device is woken.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

INSTRUCTION_SETS = {
    "avx2": "avx2",
    "fma": "fma",
    "f16c": "f16c",
    "avx_vnni": "avx_vnni",
    "avx512f": "avx512",
    "avx512_vnni": "avx512_vnni",
    "avx512_bf16": "avx512_bf16",
    "amx_int8": "amx_int8",
    "amx_bf16": "amx_bf16",
    "asimd": "neon",
    "neon": "neon",
    "asimddp": "dotprod",
    "i8mm": "i8mm",
    "sve": "sve",
    "sve2": "sve2",
    "sme": "sme",
}
"""The kernel's flag -> its common name, for those that matrix kernels use."""

GPU_VENDORS = {"0x10de": "NVIDIA", "0x8086": "Intel", "0x1002": "AMD"}
NPU_VENDORS = {"0x8086": "Intel", "0x1022": "AMD"}


@dataclass(frozen=True, slots=True)
class Cpu:
    """`physical` cores and `logical` CPUs of the whole machine. `flags`: the kernel's names of its
    features, empty where they are not told."""

    model: str | None
    physical: int | None
    logical: int | None
    flags: frozenset[str]

    @property
    def instruction_sets(self) -> list[str]:
        names = (name for flag, name in INSTRUCTION_SETS.items() if flag in self.flags)
        return list(dict.fromkeys(names))


@dataclass(frozen=True, slots=True)
class Accelerator:
    kind: Literal["GPU", "NPU"]
    vendor: str
    name: str


def cpu(root: Path = Path("/")) -> Cpu:
    """The CPU by /proc/cpuinfo and sysfs; by what Python knows where there are none."""
    fields: dict[str, str] = {}
    logical = 0
    for line in (_read(root / "proc/cpuinfo") or "").splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        logical += key == "processor"
        fields.setdefault(key, value)
    flags = frozenset((fields.get("flags") or fields.get("Features") or "").split())
    if not flags and platform.machine().lower() in {"arm64", "aarch64"}:
        flags = frozenset({"asimd"})  # part of every 64-bit Arm
    # Boards name themselves in the device tree, their cores often not at all.
    board = (_read(root / "proc/device-tree/model") or "").rstrip("\0")
    model = fields.get("model name") or fields.get("Model") or board or platform.processor()
    return Cpu(model or None, _physical(root), logical or os.cpu_count(), flags)


def accelerators(root: Path = Path("/")) -> list[Accelerator]:
    """GPUs and NPUs whose drivers show them, whether or not an engine can use them."""
    nvidia = list(_nvidia(root))
    rest = [each for each in _pci_gpus(root) if not (nvidia and each.vendor == "NVIDIA")]
    if platform.system() == "Darwin" and platform.machine() == "arm64":
        rest.append(Accelerator("GPU", "Apple", "Apple GPU (Metal)"))
    return [*nvidia, *rest, *_npus(root)]


def _nvidia(root: Path) -> Iterator[Accelerator]:
    named = False
    for path in sorted(root.glob("proc/driver/nvidia/gpus/*/information")):
        for line in (_read(path) or "").splitlines():
            key, _, value = line.partition(":")
            if key == "Model":
                named = True
                yield Accelerator("GPU", "NVIDIA", value.strip())
    # A container may hide that folder, and Windows has none: there only its presence is known.
    if not named and (any(root.glob("dev/nvidia[0-9]*")) or _has_tool_only(root)):
        yield Accelerator("GPU", "NVIDIA", "NVIDIA GPU")


def _has_tool_only(root: Path) -> bool:
    if (root / "usr/lib/wsl/lib/nvidia-smi").exists():
        return True
    return platform.system() == "Windows" and shutil.which("nvidia-smi") is not None


def _pci_gpus(root: Path) -> Iterator[Accelerator]:
    for path in sorted(root.glob("sys/class/drm/card*/device")):
        if not path.parent.name.removeprefix("card").isdigit():
            continue  # a connector of a card
        vendor = GPU_VENDORS.get(_read(path / "vendor") or "")
        if vendor is not None:
            name = f"{vendor} GPU {_read(path / 'device') or ''}".rstrip()
            yield Accelerator("GPU", vendor, name)


def _npus(root: Path) -> Iterator[Accelerator]:
    for path in sorted(root.glob("sys/class/accel/accel*/device")):
        vendor = NPU_VENDORS.get(_read(path / "vendor") or "")
        if vendor is not None:
            yield Accelerator(
                "NPU", vendor, f"{vendor} NPU {_read(path / 'device') or ''}".rstrip()
            )


def _physical(root: Path) -> int | None:
    paths = root.glob("sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list")
    cores = {siblings for path in paths if (siblings := _read(path))}
    return len(cores) or psutil.cpu_count(logical=False)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
