"""How many threads a CPU engine should use: what this process may use, not what the host has.

In containers the host's core count is wrong: the scheduler's affinity mask and the cgroup's CPU
quota decide, and more threads than either allows take turns waiting for each other.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True)
class ThreadBudget:
    """`threads` is the least of: CPUs in the `affinity` mask, the cgroup `quota` in CPUs (rounded
    down, at least 1; None: no quota), and `physical` cores among those CPUs (None: unknown), since
    two threads on one core share its arithmetic units. `reason` says which one it was."""

    threads: int
    affinity: int
    quota: float | None
    physical: int | None
    reason: str


def thread_budget(root: Path = Path("/"), affinity: AbstractSet[int] | None = None) -> ThreadBudget:
    """The budget of this process. `root` is where /proc and /sys are found, `affinity` the CPUs to
    assume instead of asking the scheduler."""
    cpus = _affinity() if affinity is None else affinity
    quota = cgroup_quota(root)
    physical = _physical_cores(root, cpus)
    limits = [(len(cpus), f"CPUs in the affinity mask: {len(cpus)}")]
    if quota is not None:
        limits.append((max(1, math.floor(quota)), f"cgroup quota: {quota:.2f} CPUs"))
    if physical is not None:
        limits.append((physical, f"physical cores: {physical}"))
    threads, reason = min(limits, key=lambda limit: limit[0])
    return ThreadBudget(threads, len(cpus), quota, physical, reason)


def cgroup_quota(root: Path = Path("/")) -> float | None:
    """The tightest CPU quota of this process' cgroup and its ancestors, in CPUs (cgroup v2
    `cpu.max`, v1 `cpu.cfs_quota_us`); None where none is set."""
    return min(
        (quota for folder, v2 in _cgroups(root) if (quota := _quota(folder, v2)) is not None),
        default=None,
    )


def _affinity() -> AbstractSet[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    process = psutil.Process()
    if hasattr(process, "cpu_affinity"):  # Windows
        return set(process.cpu_affinity() or ())
    return set(range(os.cpu_count() or 1))


def _physical_cores(root: Path, cpus: AbstractSet[int]) -> int | None:
    """Distinct cores behind `cpus`; where the kernel does not tell, all of the machine's."""
    topology = root / "sys/devices/system/cpu"
    cores = {_read(topology / f"cpu{cpu}/topology/thread_siblings_list") for cpu in cpus}
    if cores and None not in cores:
        return len(cores)
    return psutil.cpu_count(logical=False)


def _cgroups(root: Path) -> Iterator[tuple[Path, bool]]:
    """Every folder of this process' CPU cgroups, innermost first, and whether it is version 2."""
    paths = {}
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            paths["cgroup2"] = path
        elif "cpu" in controllers.split(","):
            paths["cgroup"] = path
    for line in (_read(root / "proc/self/mountinfo") or "").splitlines():
        mount, _, kind = line.partition(" - ")
        filesystem, _, options = kind.split(" ", 2)
        if filesystem not in paths:
            continue
        if filesystem == "cgroup" and "cpu" not in options.split(","):
            continue
        mount_root, mount_point = (_unescape(field) for field in mount.split(" ")[3:5])
        top = root / mount_point.lstrip("/")
        # In a container the path may name groups outside of what is mounted: then use the mount.
        path, inside = paths[filesystem], mount_root.rstrip("/")
        below = path[len(inside) :] if f"{path}/".startswith(f"{inside}/") else ""
        folder = top / below.strip("/")
        if ".." in folder.parts or not folder.is_dir():
            folder = top
        while True:
            yield folder, filesystem == "cgroup2"
            if folder == top:
                break
            folder = folder.parent


def _quota(folder: Path, v2: bool) -> float | None:
    if v2:
        quota, _, period = (_read(folder / "cpu.max") or "").partition(" ")
    else:
        quota = _read(folder / "cpu.cfs_quota_us") or ""
        period = _read(folder / "cpu.cfs_period_us") or ""
    try:
        microseconds, of = int(quota), int(period)
    except ValueError:  # "max", or no such file
        return None
    return microseconds / of if microseconds > 0 and of > 0 else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _unescape(field: str) -> str:
    """mountinfo writes blanks and backslashes as octal escapes."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), field)
