"""What this process may take: files, processes, memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from edge_runner.catalog.partial import format_bytes
from edge_runner.doctor.caches import quickstart_model
from edge_runner.doctor.check import Check, note, ok, unavailable
from edge_runner.doctor.hardware import MEMORY_PER_MODEL, read_memory
from edge_runner.doctor.machine import Machine, read

OPEN_FILES = 1024
PROCESSES = 256
SWAPPED_SHARE = 0.05


def process(_machine: Machine) -> Iterator[Check]:
    """Soft limits, as `ulimit` shows them."""
    try:
        import resource
    except ImportError:
        yield unavailable("process limits", "this system has none", "nothing to do")
        return
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield _at_least("open files", files, OPEN_FILES, "n")
    yield _at_least("processes", resource.getrlimit(resource.RLIMIT_NPROC)[0], PROCESSES, "u")
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    yield ok("locked memory", "unlimited" if _unlimited(locked) else format_bytes(locked))
    space = resource.getrlimit(resource.RLIMIT_AS)[0]
    need_bytes = MEMORY_PER_MODEL * quickstart_model().bytes
    if _unlimited(space):
        yield ok("address space", "unlimited")
    elif space < need_bytes:
        advice = f"the quickstart wants about {format_bytes(need_bytes)}: ulimit -v unlimited"
        yield note("address space", format_bytes(space), advice)
    else:
        yield ok("address space", format_bytes(space))


def memory(machine: Machine) -> Iterator[Check]:
    """The container's limit, and swap."""
    limit = cgroup_memory_limit(machine)
    found = read_memory(machine)
    need_bytes = MEMORY_PER_MODEL * quickstart_model().bytes
    if limit is None or limit >= found.total:
        yield ok("memory limit", "none by cgroup")
    elif limit < need_bytes:
        yield note(
            "memory limit",
            f"{format_bytes(limit)} by cgroup",
            f"the quickstart wants about {format_bytes(need_bytes)}, and a process above the "
            "limit is killed: give the container more (docker run --memory)",
        )
    else:
        yield ok("memory limit", f"{format_bytes(limit)} by cgroup")
    used = found.swap_total - found.swap_free
    value = f"{format_bytes(used)} used of {format_bytes(found.swap_total)}"
    if used > SWAPPED_SHARE * found.total:
        advice = "memory was short: close other programs, or weights may be swapped out in a run"
        yield note("swap", value, advice)
    else:
        yield ok("swap", value if found.swap_total else "none")


def cgroup_memory_limit(machine: Machine) -> int | None:
    """The tightest memory limit of this process' cgroup and its ancestors (v2 `memory.max`, v1
    `memory.limit_in_bytes`), in bytes; None where there is none."""
    limits = []
    for line in (machine.read("proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            top, name = machine.root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            top, name = machine.root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        limits += [int(text) for folder in _upwards(top, path) if (text := _number(folder / name))]
    return min(limits, default=None)


def _upwards(top: Path, path: str) -> Iterator[Path]:
    """From the group to the top. In a container the path may lie outside of what is mounted; the
    mount itself is then the group."""
    parts = [part for part in path.split("/") if part and part != ".."]
    for length in range(len(parts), -1, -1):
        yield top.joinpath(*parts[:length])


def _number(path: Path) -> str | None:
    text = read(path) or ""
    return text if text.isdigit() else None


def _unlimited(value: int) -> bool:
    import resource

    return value in (resource.RLIM_INFINITY, -1)


def _at_least(what: str, value: int, least: int, flag: str) -> Check:
    if _unlimited(value):
        return ok(what, "unlimited")
    if value < least:
        return note(what, str(value), f"ulimit -{flag} {least}")
    return ok(what, str(value))
