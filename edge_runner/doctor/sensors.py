"""What a run can record of the machine's state. What cannot be read is unavailable, never 0."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from edge_runner.doctor.check import Check, note, ok, unavailable
from edge_runner.doctor.machine import Machine, Numbers, read

CPUS = "sys/devices/system/cpu"
HOT_MILLIDEGREES = 90_000

_VIRTUAL = "usual in virtual machines; results will lack it"
_RAPL = (
    "only root may read it since CVE-2020-8694; until the next start: sudo chmod a+r "
    "/sys/class/powercap/*/energy_uj (a side channel: on your own machine only)"
)


@dataclass(frozen=True, slots=True)
class Battery:
    """`percent`: charge, None if not told. `discharging`: running on it now."""

    percent: int | None
    discharging: bool
    power_readable: bool


def frequency(machine: Machine) -> Iterator[Check]:
    now = machine.numbers(f"{CPUS}/cpu[0-9]*/cpufreq/scaling_cur_freq", "cpufreq")
    if now.by_path:
        mhz = [khz / 1000 for khz in now.by_path.values()]
        yield ok("frequency", f"{min(mhz):.0f} to {max(mhz):.0f} MHz now")
    else:
        # Under a hypervisor this is what the guest was told once, so it is no measurement.
        told = re.search(r"^cpu MHz\s*: ([\d.]+)", machine.read("proc/cpuinfo") or "", re.MULTILINE)
        nominal = f"; nominal {float(told[1]):.0f} MHz" if told else ""
        yield unavailable("frequency", f"{now.why}{nominal}", _VIRTUAL)
    paths = machine.find(f"{CPUS}/cpu[0-9]*/cpufreq/scaling_governor")
    governors = sorted({text for path in paths if (text := read(path))})
    if not governors:
        yield unavailable("governor", machine.absent("cpufreq"), _VIRTUAL)
    elif governors == ["performance"]:
        yield ok("governor", "performance")
    else:
        yield note(
            "governor",
            ", ".join(governors),
            "clocks follow the load, so short turns look slower; to measure: sudo cpupower "
            "frequency-set -g performance",
        )


def heat(machine: Machine) -> Iterator[Check]:
    zones = machine.numbers("sys/class/thermal/thermal_zone*/temp", "thermal zone")
    chips = machine.numbers("sys/class/hwmon/hwmon*/temp*_input", "sensor chip")
    # Disconnected sensors read as 0 or far below.
    readings = [value for each in (zones, chips) for value in each.by_path.values() if value > 0]
    if not readings:
        yield unavailable("temperature", _why(zones, chips), _VIRTUAL)
    elif max(readings) >= HOT_MILLIDEGREES:
        advice = "let it cool down, and see that air can flow: it will throttle"
        yield note("temperature", f"{max(readings) / 1000:.0f} C at the hottest", advice)
    else:
        yield ok("temperature", f"{max(readings) / 1000:.0f} C at the hottest")
    counts = machine.numbers(f"{CPUS}/cpu[0-9]*/thermal_throttle/*_throttle_count", "counter")
    if not counts.by_path:
        yield unavailable("throttling", counts.why, f"only Intel CPUs count it; {_VIRTUAL}")
    elif total := sum(counts.by_path.values()):
        advice = "if it rises during a run, cool the machine or lower its power limit"
        yield note("throttling", f"{total} events since the machine started", advice)
    else:
        yield ok("throttling", "no event since the machine started")


def energy(machine: Machine) -> Iterator[Check]:
    counters = machine.numbers("sys/class/powercap/*-rapl:[0-9]*/energy_uj", "RAPL counter")
    if counters.by_path:
        names = (read(path.parent / "name") or path.parent.name for path in counters.by_path)
        yield ok("RAPL", f"readable: {', '.join(dict.fromkeys(names))}")
    else:
        denied = "denied" in counters.why or "not permitted" in counters.why
        yield unavailable("RAPL", counters.why, _RAPL if denied else _VIRTUAL)
    battery = read_battery(machine)
    if battery is None:
        advice = "nothing to do, unless this device runs on one; joules then come from RAPL only"
        yield unavailable("battery", "none seen", advice)
    elif battery.power_readable:
        yield ok("battery", "its discharge can be read")
    else:
        advice = "energy cannot be taken from it; see RAPL"
        yield unavailable("battery", "there, but it does not tell its power", advice)


def read_battery(machine: Machine) -> Battery | None:
    """The system's first battery; None when there is none, or on systems that do not tell."""
    for path in machine.find("sys/class/power_supply/*/type"):
        supply = path.parent
        # `scope: Device` is the battery of a mouse or a pen.
        if read(path) != "Battery" or read(supply / "scope") == "Device":
            continue
        percent = read(supply / "capacity") or ""
        return Battery(
            int(percent) if percent.isdigit() else None,
            read(supply / "status") == "Discharging",
            any(read(supply / name) is not None for name in ("power_now", "current_now")),
        )
    return None if machine.system == "Linux" else _psutil_battery()


def _psutil_battery() -> Battery | None:
    import psutil

    found = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    if found is None:
        return None
    return Battery(round(found.percent), not found.power_plugged, power_readable=False)


def _why(*numbers: Numbers) -> str:
    """The most telling reason: a file that cannot be read before one that is not there."""
    reasons = [each.why for each in numbers if each.why]
    telling = [why for why in reasons if not why.startswith("no ")]
    return (telling or reasons or ["its sensors show nothing above 0 C"])[0]
