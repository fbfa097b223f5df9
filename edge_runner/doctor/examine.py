"""Every check, side by side, each bounded in time: one that hangs or fails costs its own line."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any

from edge_runner.doctor import (
    caches,
    clocks,
    database,
    engines,
    hardware,
    limits,
    noise,
    packages,
    sandbox,
    sensors,
    sources,
)
from edge_runner.doctor.check import Check, unavailable
from edge_runner.doctor.machine import Machine

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Probe:
    """`run` yields the lines of one subject; after `limit_s` the line `what` says it is missing."""

    area: str
    what: str
    run: Callable[[Machine], Iterable[Check]]
    limit_s: float = 2.5


PROBES = (
    Probe("installed", "edge-runner", packages.base),
    Probe("installed", "extras", packages.extras),
    Probe("installed", "llama.cpp", engines.llama_cpp, engines.LIMIT_S + 1),
    Probe("installed", "LoadGen", engines.loadgen, engines.LIMIT_S + 1),
    Probe("installed", "SQLite", database.sqlite),
    Probe("devices", "CPU", hardware.cpu),
    Probe("devices", "memory", hardware.memory),
    Probe("devices", "accelerators", hardware.accelerators),
    Probe("caches", "folder", caches.folder),
    Probe("caches", "model", caches.model),
    Probe("sources", "hub", sources.hub),
    Probe("sources", "package index", sources.index, sources.PIP_LIMIT_S + 1),
    Probe("sources", "proxies", sources.proxies),
    Probe("sensors", "frequency", sensors.frequency),
    Probe("sensors", "temperature", sensors.heat),
    Probe("sensors", "energy", sensors.energy),
    Probe("limits", "process", limits.process),
    Probe("limits", "memory", limits.memory),
    Probe("limits", "clocks", clocks.clocks),
    Probe("sandbox", "level", sandbox.level, sandbox.LIMIT_S + 1),
    Probe("noise", "load", noise.load),
    Probe("noise", "power", noise.power),
)


@dataclass(frozen=True, slots=True)
class Examination:
    """The lines of every area, in the order of PROBES."""

    areas: dict[str, list[Check]]

    def count(self, state: str) -> int:
        return sum(check.state == state for checks in self.areas.values() for check in checks)

    @property
    def exit_code(self) -> int:
        """A missing runtime (3) before a missing model (4): it has to be mended first."""
        codes = [check.exit_code for checks in self.areas.values() for check in checks]
        return min(filter(None, codes), default=0)

    @property
    def verdict(self) -> str:
        found = self.count("problem")
        verdict = _counted(found, "problem") if found else "ready"
        return f"{verdict}, {_counted(self.count('note'), 'note')}"

    def as_json(self) -> dict[str, Any]:
        checks = [
            {"area": area, **asdict(check)}
            for area, checks in self.areas.items()
            for check in checks
        ]
        return {
            "format": FORMAT,
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "checks": checks,
        }


def examine(machine: Machine | None = None, probes: Sequence[Probe] = PROBES) -> Examination:
    """Ask all probes at once and wait for each no longer than it may take."""
    machine = machine or Machine()
    started = monotonic()
    answers = [_ask(probe, machine) for probe in probes]
    areas: dict[str, list[Check]] = {}
    for probe, answer in zip(probes, answers, strict=True):
        left_s = max(0.0, started + probe.limit_s - monotonic())
        try:
            checks = answer.get(timeout=left_s)
        except queue.Empty:
            checks = [_silent(probe)]
        areas.setdefault(probe.area, []).extend(checks)
    return Examination(areas)


def _ask(probe: Probe, machine: Machine) -> queue.Queue[list[Check]]:
    """On a daemon thread: one that never comes back must not keep the command from ending."""
    answer: queue.Queue[list[Check]] = queue.Queue()

    def run() -> None:
        try:
            answer.put(list(probe.run(machine)))
        except Exception as error:  # noqa: BLE001 - other lines must not be lost with this one
            answer.put([_failed(probe, error)])

    threading.Thread(target=run, name=f"doctor-{probe.what}", daemon=True).start()
    return answer


def _silent(probe: Probe) -> Check:
    return unavailable(
        probe.what,
        f"no answer within {probe.limit_s:g} s",
        "run the command again when the machine is less busy",
    )


def _failed(probe: Probe, error: Exception) -> Check:
    text = " ".join(str(error).split())
    return unavailable(
        probe.what,
        f"the check failed: {type(error).__name__}: {text}"[:300],
        "report this line as a defect of edge-runner",
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
