"""The machine and software a run was measured on.

Nothing that names a person or a place: no host name, no user name, no paths. A probe that finds
nothing leaves None; none of them raises.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

PACKAGES = (
    "edge-runner",
    "llama-cpp-python",
    "mlcommons-loadgen",
    "minijinja",
    "msgspec",
    "numpy",
    "pydantic",
    "scipy",
)

T = TypeVar("T")

_CPUFREQ = Path("/sys/devices/system/cpu")
_CGROUP = Path("/sys/fs/cgroup")


def capture() -> dict[str, Any]:
    """The environment now, JSON-able. Memory in bytes, frequency in MHz; `load_average` over 1, 5
    and 15 minutes; `cpu.quota` in cores, None without a limit."""
    return {
        "captured": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "os": _os(),
        "cpu": _cpu(),
        "memory": _memory(),
        "load_average": _load_average(),
        "container": _container(),
        "python": {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
        },
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _os() -> dict[str, str | None]:
    name: str | None = None
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        if platform.system() == "Darwin":
            name = f"macOS {platform.mac_ver()[0]}"
    return {
        "system": platform.system() or None,
        "name": name,
        "kernel": platform.release() or None,
        "machine": platform.machine() or None,
    }


def _cpu() -> dict[str, Any]:
    import psutil

    frequency = _safely(psutil.cpu_freq)
    return {
        "model": _cpu_model(),
        "physical_cores": psutil.cpu_count(logical=False),
        "logical_cores": psutil.cpu_count(logical=True),
        "usable_cores": _affinity(),
        "quota": _cgroup_quota(),
        "governor": _read(_CPUFREQ / "cpu0/cpufreq/scaling_governor"),
        "current_mhz": round(frequency.current) if frequency else None,
        "max_mhz": (round(frequency.max) or None) if frequency else None,
    }


def _cpu_model() -> str | None:
    for line in (_read(Path("/proc/cpuinfo")) or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "Hardware"):
            return value.strip()
    return platform.processor() or None


def _affinity() -> int | None:
    """How many logical cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _cgroup_quota() -> float | None:
    """Cores' worth of CPU time the control group allows (version 2, then version 1)."""
    fields = (_read(_CGROUP / "cpu.max") or "").split()
    if not fields:
        quota = _read(_CGROUP / "cpu/cpu.cfs_quota_us")
        period = _read(_CGROUP / "cpu/cpu.cfs_period_us")
        fields = [quota, period] if quota and period else []
    try:
        quota_us, period_us = (int(field) for field in fields)
    except ValueError:
        return None
    return round(quota_us / period_us, 2) if quota_us > 0 and period_us > 0 else None


def _memory() -> dict[str, int | None]:
    import psutil

    memory = _safely(psutil.virtual_memory)
    limit = _read(_CGROUP / "memory.max") or ""
    return {
        "total": memory.total if memory else None,
        "available": memory.available if memory else None,
        "limit": int(limit) if limit.isdigit() else None,
    }


def _load_average() -> list[float] | None:
    average = _safely(os.getloadavg) if hasattr(os, "getloadavg") else None
    return [round(load, 2) for load in average] if average else None


def _container() -> bool:
    """A hint only: container engines leave a file, or name themselves in the environment."""
    marks = (Path("/.dockerenv"), Path("/run/.containerenv"))
    return any(mark.exists() for mark in marks) or "container" in os.environ


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def _safely(probe: Callable[[], T]) -> T | None:
    """psutil has no reading of some kinds on some machines, and says so in many ways."""
    try:
        return probe()
    except (OSError, RuntimeError, NotImplementedError, AttributeError, ValueError):
        return None
