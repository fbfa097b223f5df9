"""The native libraries a run loads: do they load here, and what were they built for?"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from edge_runner.devices import inventory
from edge_runner.doctor import bounded, packages
from edge_runner.doctor.check import Check, note, ok, problem
from edge_runner.doctor.machine import Machine
from edge_runner.doctor.native import LIMIT_S

__all__ = ["LIMIT_S", "llama_cpp", "loadgen"]

# llama.cpp's name of a feature -> the kernel's flag, for those that decide speed or a crash.
FEATURES = {
    "AVX": "avx",
    "AVX2": "avx2",
    "FMA": "fma",
    "F16C": "f16c",
    "AVX_VNNI": "avx_vnni",
    "AVX512": "avx512f",
    "AVX512_VNNI": "avx512_vnni",
    "AVX512_BF16": "avx512_bf16",
    "AMX_INT8": "amx_int8",
    "NEON": "asimd",
    "DOTPROD": "asimddp",
    "MATMUL_INT8": "i8mm",
    "SVE": "sve",
}
REBUILD = (
    "rebuild it on this machine: pip install --force-reinstall --no-cache-dir "
    "--no-binary llama-cpp-python llama-cpp-python"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a library said of itself, or why it could not."""

    facts: dict[str, Any]
    failure: str


def llama_cpp(machine: Machine) -> Iterator[Check]:
    """Nothing when the package is missing or too old: the line of its extra says so."""
    if packages.unmet_requirements("llama-cpp"):
        return
    answer = _ask("llama-cpp", machine)
    if answer.failure:
        yield problem("llama.cpp", answer.failure, REBUILD)
        return
    facts = answer.facts
    yield ok("llama.cpp", f"loads; built for {', '.join(facts['backends']) or 'CPU'}")
    offload = [device for device in facts["devices"] if not device.startswith("CPU ")]
    if facts["gpu_offload"] and offload:
        yield ok("offload", f"to {', '.join(offload)}, with device.device=gpu")
    elif facts["gpu_offload"]:
        yield note(
            "offload",
            "built for it, but no device was found",
            "check the GPU's driver, and that this container may use it; the CPU is used otherwise",
        )
    else:
        yield ok("offload", "none: this build runs on the CPU only")
    if machine.system == "Linux":  # others do not tell all of the CPU's flags
        yield from _features(set(facts["features"]), inventory.cpu(machine.root).flags)


def loadgen(machine: Machine) -> Iterator[Check]:
    if packages.unmet_requirements("loadgen"):
        return
    answer = _ask("loadgen", machine)
    if answer.failure:
        yield problem(
            "LoadGen",
            answer.failure,
            "pip install --force-reinstall 'edge-runner[loadgen]'; without a wheel for this "
            "platform it is compiled, which needs a C++ compiler",
        )
    elif answer.facts["shadowed"]:
        yield problem(
            "LoadGen",
            "mlcommons_loadgen was imported at start-up and took the place of mlperf_loadgen",
            "remove that import (sitecustomize, a .pth file, PYTHONPATH); import mlperf_loadgen",
        )
    elif answer.facts["missing"]:
        yield problem(
            "LoadGen",
            f"the module mlperf_loadgen lacks {', '.join(answer.facts['missing'])}",
            "uninstall other packages with that module: pip uninstall mlperf-loadgen; then "
            "pip install --force-reinstall mlcommons-loadgen",
        )
    else:
        yield ok("LoadGen", "loads (as mlperf_loadgen)")


def _features(built: set[str], flags: frozenset[str]) -> Iterator[Check]:
    """The build against this CPU, where both are known."""
    used = [name for name in FEATURES if name in built]
    if not used or not flags:
        return
    lacking = [name for name in used if FEATURES[name] not in flags]
    unused = [name for name in FEATURES if name not in built and FEATURES[name] in flags]
    if lacking:
        yield problem("build", f"uses {', '.join(lacking)}, which this CPU lacks", REBUILD)
    elif unused:
        yield note("build", f"does not use {', '.join(unused)} of this CPU: slower", REBUILD)
    else:
        yield ok("build", f"uses this CPU's {', '.join(used)}")


def _ask(library: str, machine: Machine) -> Answer:
    command = [sys.executable, "-P", "-m", "edge_runner.doctor.native", library]
    ended = bounded.run(command, LIMIT_S, machine.environ)
    if ended.code is None:
        return Answer({}, f"did not load within {LIMIT_S:g} s")
    if ended.code:
        return Answer({}, f"cannot be loaded: {ended.cause}")
    try:
        facts = json.loads(ended.stdout)
    except ValueError:
        return Answer({}, "ended the process while it was loaded")
    return Answer(facts, facts.get("error", ""))
