"""What cannot be read is unavailable and says why; it is never 0."""

from __future__ import annotations

from typing import Any

import pytest

from edge_runner.doctor import sensors

CPU0 = "sys/devices/system/cpu/cpu0"
CPU1 = "sys/devices/system/cpu/cpu1"
RAPL = "sys/class/powercap/intel-rapl:0"
BAT0 = "sys/class/power_supply/BAT0"


def all_sensors(machine: Any, lines: Any, tree: dict[str, object], **more: Any) -> Any:
    made = machine(tree, **more)
    return lines([*sensors.frequency(made), *sensors.heat(made), *sensors.energy(made)])


def test_a_machine_with_everything(machine: Any, lines: Any) -> None:
    found = all_sensors(
        machine,
        lines,
        {
            f"{CPU0}/cpufreq/scaling_cur_freq": "800000\n",
            f"{CPU1}/cpufreq/scaling_cur_freq": "3100000\n",
            f"{CPU0}/cpufreq/scaling_governor": "performance\n",
            f"{CPU0}/thermal_throttle/core_throttle_count": "0\n",
            "sys/class/thermal/thermal_zone0/temp": "45000",
            "sys/class/hwmon/hwmon0/temp1_input": "61000",
            f"{RAPL}/energy_uj": "123456",
            f"{RAPL}/name": "package-0",
            f"{BAT0}/type": "Battery",
            f"{BAT0}/power_now": "9000000",
        },
    )
    assert {check.state for check in found.values()} == {"ok"}
    assert found["frequency"].value == "800 to 3100 MHz now"
    assert found["temperature"].value == "61 C at the hottest"
    assert found["RAPL"].value == "readable: package-0"


@pytest.mark.parametrize("system", ["Linux", "Darwin"])
def test_a_machine_with_nothing(machine: Any, lines: Any, system: str) -> None:
    made = machine({}, system=system)
    found = lines([*sensors.frequency(made), *sensors.heat(made), *sensors.energy(made)])
    found.pop("battery")  # asked of psutil elsewhere than on Linux
    assert {check.state for check in found.values()} == {"unavailable"}
    said = "in sysfs" if system == "Linux" else "not read on Darwin"
    assert all(said in check.value for check in found.values())


def test_a_virtual_machine_tells_a_nominal_frequency_only(machine: Any, lines: Any) -> None:
    made = machine({"proc/cpuinfo": "processor : 0\ncpu MHz\t\t: 2445.430\n"})
    check = lines(sensors.frequency(made))["frequency"]
    assert (check.state, check.value) == ("unavailable", "no cpufreq in sysfs; nominal 2445 MHz")


def test_rapl_that_only_root_reads(machine: Any, lines: Any, forbid: Any) -> None:
    made = machine({f"{RAPL}/energy_uj": "1"})
    forbid("energy_uj")
    check = lines(sensors.energy(made))["RAPL"]
    assert (check.state, check.value) == ("unavailable", "permission denied")
    assert "sudo chmod a+r" in check.advice


def test_sensors_that_hold_nonsense(machine: Any, lines: Any) -> None:
    tree = {
        "sys/class/thermal/thermal_zone0/temp": "",
        "sys/class/hwmon/hwmon0/temp1_input": "N/A",
        f"{CPU0}/cpufreq/scaling_cur_freq": "<unknown>",
        f"{CPU0}/thermal_throttle/core_throttle_count": "many",
    }
    found = all_sensors(machine, lines, tree)
    assert found["temperature"].value == "temp holds no number"
    assert found["frequency"].value == "scaling_cur_freq holds no number"
    assert found["throttling"].state == "unavailable"


def test_a_sensor_that_is_not_connected_is_no_temperature(machine: Any, lines: Any) -> None:
    tree = {"sys/class/thermal/thermal_zone0/temp": "0", "sys/class/hwmon/hwmon0/temp1_input": "-1"}
    check = lines(sensors.heat(machine(tree)))["temperature"]
    assert check.state == "unavailable"
    assert "nothing above 0 C" in check.value


def test_one_readable_sensor_among_broken_ones(machine: Any, lines: Any) -> None:
    tree = {
        "sys/class/thermal/thermal_zone0/temp": "broken",
        "sys/class/thermal/thermal_zone1/temp": "50000",
    }
    assert lines(sensors.heat(machine(tree)))["temperature"].value == "50 C at the hottest"


def test_heat_throttling_and_a_saving_governor_are_notes(machine: Any, lines: Any) -> None:
    found = all_sensors(
        machine,
        lines,
        {
            "sys/class/thermal/thermal_zone0/temp": "97000",
            f"{CPU0}/thermal_throttle/core_throttle_count": "7",
            f"{CPU1}/thermal_throttle/package_throttle_count": "5",
            f"{CPU0}/cpufreq/scaling_governor": "powersave",
            f"{CPU1}/cpufreq/scaling_governor": "schedutil",
        },
    )
    assert found["temperature"].state == found["throttling"].state == "note"
    assert found["throttling"].value.startswith("12 events")
    assert (found["governor"].state, found["governor"].value) == ("note", "powersave, schedutil")


def test_batteries(machine: Any, lines: Any) -> None:
    mouse = {
        "sys/class/power_supply/AC/type": "Mains",
        "sys/class/power_supply/hid/type": "Battery",
        "sys/class/power_supply/hid/scope": "Device",
    }
    assert sensors.read_battery(machine(mouse)) is None
    silent = machine({f"{BAT0}/type": "Battery", f"{BAT0}/capacity": "80"})
    assert sensors.read_battery(silent) == sensors.Battery(80, False, False)
    check = lines(sensors.energy(silent))["battery"]
    assert (check.state, check.value) == ("unavailable", "there, but it does not tell its power")
