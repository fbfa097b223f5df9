"""What would disturb a measurement right now: other work, a busy host, a power saver."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from threading import Event

from edge_runner.devices.cpu import thread_budget
from edge_runner.doctor.check import Check, note, ok, unavailable
from edge_runner.doctor.machine import Machine
from edge_runner.doctor.sensors import CPUS, read_battery

BUSY_LOAD = 0.2
"""Load average per usable CPU above which others clearly take part."""
BUSY_PROCESS = 0.3
"""Share of one CPU."""
STOLEN_SHARE = 0.02
LOW_BATTERY_PERCENT = 30
SAMPLE_S = 0.4
SHOWN = 3


def load(machine: Machine) -> Iterator[Check]:
    usable = thread_budget(machine.root).affinity
    average = _load_average(machine)
    if average is None:
        yield unavailable("load", "this system does not tell", "see what else is running")
    else:
        value = f"{average:.2f} over the last minute, on {usable} CPUs"
        if average > BUSY_LOAD * usable:
            yield note("load", value, "wait until the machine is quiet before you measure")
        else:
            yield ok("load", value)
    before = _stolen(machine)
    busy = busy_processes(SAMPLE_S)
    if busy:
        most = ", ".join(f"{name} {share:.0%}" for name, share in busy[:SHOWN])
        value = f"{len(busy)} using a CPU ({most})"
        yield note("processes", value, "end or pause them before you measure")
    else:
        yield ok("processes", "no other one keeps a CPU busy")
    if before is None or (after := _stolen(machine)) is None or after[1] <= before[1]:
        return
    share = (after[0] - before[0]) / (after[1] - before[1])
    if share > STOLEN_SHARE:
        advice = "this virtual machine shares its CPUs with others: results will vary; repeat runs"
        yield note("stolen time", f"{share:.0%} went to other guests of the host", advice)


def power(machine: Machine) -> Iterator[Check]:
    profile = machine.read("sys/firmware/acpi/platform_profile")
    preference = machine.read(f"{CPUS}/cpu0/cpufreq/energy_performance_preference")
    saving = [text for text in (profile, preference) if text in {"low-power", "quiet", "power"}]
    if saving:
        advice = "to measure: powerprofilesctl set performance"
        yield note("power profile", saving[0], advice)
    elif profile or preference:
        yield ok("power profile", str(profile or preference))
    else:
        advice = "nothing to do; on a laptop, choose the performance profile to measure"
        yield unavailable("power profile", machine.absent("platform profile"), advice)
    battery = read_battery(machine)
    if battery is None:
        yield ok("power", "no battery: mains")
        return
    charge = "charge unknown" if battery.percent is None else f"{battery.percent} % charged"
    low = battery.percent is not None and battery.percent < LOW_BATTERY_PERCENT
    if battery.discharging:
        yield note("power", f"on battery, {charge}", "plug it in: clocks drop on battery")
    elif low:
        yield note("power", f"on mains, {charge}", "charging takes power and makes heat: wait")
    else:
        yield ok("power", f"on mains, {charge}")


def busy_processes(sample_s: float) -> list[tuple[str, float]]:
    """Names of other processes and the share of one CPU each used in the sample, busiest first;
    neither this one nor what it started is counted."""
    import psutil

    before = _cpu_seconds()
    Event().wait(sample_s)
    after = _cpu_seconds()
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process().children(recursive=True):
            after.pop(child.pid, None)
    after.pop(os.getpid(), None)
    used = [
        (name, (seconds - before[pid][1]) / sample_s)
        for pid, (name, seconds) in after.items()
        if pid in before and before[pid][0] == name
    ]
    return sorted((each for each in used if each[1] >= BUSY_PROCESS), key=lambda each: -each[1])


def _cpu_seconds() -> dict[int, tuple[str, float]]:
    import psutil

    seconds = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            times = process.cpu_times()
            seconds[process.pid] = (process.name(), times.user + times.system)
    return seconds


def _load_average(machine: Machine) -> float | None:
    text = machine.read("proc/loadavg")
    if text:
        return float(text.split()[0])
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def _stolen(machine: Machine) -> tuple[int, int] | None:
    """Ticks the hypervisor gave to others, and all ticks, since the machine started. The fields of
    /proc/stat: user nice system idle iowait irq softirq steal; guest time is in user's."""
    first = (machine.read("proc/stat") or "").partition("\n")[0].split()
    if len(first) < 9 or first[0] != "cpu":
        return None
    ticks = [int(field) for field in first[1:9]]
    return ticks[7], sum(ticks)
