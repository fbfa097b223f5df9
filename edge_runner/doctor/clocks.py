"""Clocks: how dear a reading is, and whether the wall clock, which LoadGen uses, may step."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Iterator

from edge_runner.doctor.check import Check, note, ok, unavailable
from edge_runner.doctor.machine import Machine

CHEAP = frozenset(
    {"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "riscv_clocksource"}
)
"""Sources that user space reads without a system call; others cost a microsecond or more."""

TIMEX_BYTES = 512
"""More than `struct timex` takes anywhere; its first field, `modes`, is 0: change nothing."""
TIME_ERROR = 5
"""What adjtimex(2) returns while the clock is not synchronized."""


def clocks(machine: Machine) -> Iterator[Check]:
    yield _source(machine)
    yield _steps(machine)


def _source(machine: Machine) -> Check:
    source = machine.read("sys/devices/system/clocksource/clocksource0/current_clocksource")
    if source is None:
        why = machine.absent("clock source")
        return unavailable("clock source", why, "nothing to do: only a slow one would matter")
    if source in CHEAP:
        return ok("clock source", source)
    return note(
        "clock source",
        f"{source}: every reading is a slow system call",
        "the kernel distrusts the CPU's counter; see `dmesg | grep -i clocksource`",
    )


def _steps(machine: Machine) -> Check:
    what, state = "wall clock", _kernel_clock_state() if machine.system == "Linux" else None
    if state is None:
        advice = "keep time synchronization on; runs compare both clocks and flag a step"
        return unavailable(what, "whether it is synchronized is not told", advice)
    if state == TIME_ERROR:
        return note(
            what,
            "not synchronized by NTP: it may step",
            "LoadGen times with it: timedatectl set-ntp true, well before a run; runs compare it "
            "with the monotonic clock and flag a step",
        )
    return ok(what, "synchronized: corrections are gradual")


def _kernel_clock_state() -> int | None:
    """What adjtimex(2) returns, None where it is not allowed or not there."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "adjtimex"):
        return None
    state = libc.adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))
    return int(state) if state >= 0 else None
