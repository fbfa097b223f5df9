from __future__ import annotations

from typing import Any

import pytest

from edge_runner.doctor import clocks, database, limits

resource = pytest.importorskip("resource")
GIB = 1 << 30
MEMINFO = "MemTotal: 16000000 kB\nMemAvailable: 8000000 kB\nSwapTotal: {} kB\nSwapFree: {} kB\n"


def test_generous_and_tight_process_limits(
    machine: Any, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    infinity = resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda _: (infinity, infinity))
    found = lines(limits.process(machine()))
    assert {check.value for check in found.values()} == {"unlimited"}
    tight = {
        resource.RLIMIT_NOFILE: 256, resource.RLIMIT_NPROC: 32, resource.RLIMIT_MEMLOCK: 65536,
        resource.RLIMIT_AS: GIB,
    }  # fmt: skip
    monkeypatch.setattr(resource, "getrlimit", lambda which: (tight[which], infinity))
    found = lines(limits.process(machine()))
    assert found["open files"].advice == "ulimit -n 1024"
    assert found["processes"].advice == "ulimit -u 256"
    assert found["locked memory"].state == "ok"
    assert (found["address space"].state, found["address space"].value) == ("note", "1.1 GB")


@pytest.mark.parametrize(
    ("tree", "limit"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/b/memory.max": "max"}, None),
        (
            {
                "proc/self/cgroup": "0::/a/b",
                "sys/fs/cgroup/a/b/memory.max": "max",
                "sys/fs/cgroup/a/memory.max": GIB,
            },
            GIB,
        ),
        ({"proc/self/cgroup": "0::/not/mounted/here", "sys/fs/cgroup/memory.max": GIB}, GIB),
        (
            {
                "proc/self/cgroup": "5:cpu:/x\n4:memory:/box\n0::/",
                "sys/fs/cgroup/memory/box/memory.limit_in_bytes": 2 * GIB,
                "sys/fs/cgroup/memory/memory.limit_in_bytes": 9223372036854771712,
            },
            2 * GIB,
        ),
    ],
)
def test_the_tightest_memory_limit(machine: Any, tree: dict[str, object], limit: int) -> None:
    assert limits.cgroup_memory_limit(machine(tree)) == limit


def test_memory_limit_and_swap(machine: Any, lines: Any) -> None:
    made = machine(
        {
            "proc/meminfo": MEMINFO.format(4_000_000, 1_000_000),
            "proc/self/cgroup": "0::/",
            "sys/fs/cgroup/memory.max": GIB,
        }
    )
    found = lines(limits.memory(made))
    assert (found["memory limit"].state, found["swap"].state) == ("note", "note")
    made = machine(
        {
            "proc/meminfo": MEMINFO.format(0, 0),
            "sys/fs/cgroup/memory.max": 9223372036854771712,
        }
    )
    found = lines(limits.memory(made))
    assert (found["memory limit"].value, found["swap"].value) == ("none by cgroup", "none")


def test_clock_sources(machine: Any, lines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    where = "sys/devices/system/clocksource/clocksource0/current_clocksource"
    monkeypatch.setattr(clocks, "_kernel_clock_state", lambda: 0)
    assert lines(clocks.clocks(machine({where: "tsc\n"})))["clock source"].state == "ok"
    assert lines(clocks.clocks(machine({where: "hpet\n"})))["clock source"].state == "note"


@pytest.mark.parametrize(
    ("state", "expected"), [(0, "ok"), (1, "ok"), (5, "note"), (None, "unavailable")]
)
def test_whether_the_wall_clock_may_step(
    machine: Any, lines: Any, monkeypatch: pytest.MonkeyPatch, state: int | None, expected: str
) -> None:
    monkeypatch.setattr(clocks, "_kernel_clock_state", lambda: state)
    assert lines(clocks.clocks(machine()))["wall clock"].state == expected


def test_sqlite(machine: Any, lines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlite3

    monkeypatch.setattr(database, "_has_fts5", lambda: False)
    check = lines(database.sqlite(machine()))["SQLite"]
    assert (check.state, "without FTS5" in check.value) == ("note", True)
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    assert "needs 3.35" in lines(database.sqlite(machine()))["SQLite"].value
    monkeypatch.setitem(__import__("sys").modules, "sqlite3", None)
    assert lines(database.sqlite(machine()))["SQLite"].state == "unavailable"
