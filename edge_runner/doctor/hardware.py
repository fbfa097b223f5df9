"""What there is to compute with: CPU, memory, accelerators."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from edge_runner.catalog.partial import format_bytes
from edge_runner.devices import inventory
from edge_runner.devices.cpu import thread_budget
from edge_runner.doctor.caches import quickstart_model
from edge_runner.doctor.check import Check, note, ok, unavailable
from edge_runner.doctor.machine import Machine

MEMORY_PER_MODEL = 3
"""Weights, KV cache and working buffers against the weights alone, for a small model at a long
context (Qwen2.5-Coder-0.5B at 32k tokens: 0.5 GB of weights, 0.4 GB of KV cache at f16)."""

_SLOW_CPU = "expect a several times slower prefill; a smaller model is easier to bear"


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes, as the kernel counts them for the whole machine."""

    total: int
    available: int
    swap_total: int
    swap_free: int


def cpu(machine: Machine) -> Iterator[Check]:
    found = inventory.cpu(machine.root)
    yield ok(
        "CPU",
        f"{found.model or 'model unknown'}; cores: {found.physical or 'unknown'} physical, "
        f"{found.logical or 'unknown'} logical",
    )
    budget = thread_budget(machine.root)
    threads = f"{budget.threads} by {budget.reason}"
    if budget.quota is not None and budget.quota < budget.affinity:
        yield note(
            "threads",
            threads,
            "a quota stops all threads at once when it is used up, which shows as jitter: give "
            "the container whole CPUs (--cpuset-cpus) to measure",
        )
    else:
        yield ok("threads", threads)
    yield from _instruction_sets(found)


def memory(machine: Machine) -> Iterator[Check]:
    found = read_memory(machine)
    value = f"{format_bytes(found.available)} available of {format_bytes(found.total)}"
    need_bytes = MEMORY_PER_MODEL * quickstart_model().bytes
    if found.available < need_bytes:
        yield note(
            "memory",
            value,
            f"the quickstart wants about {format_bytes(need_bytes)}: close other programs, or "
            "lower device.context_tokens",
        )
    else:
        yield ok("memory", value)


def accelerators(machine: Machine) -> Iterator[Check]:
    found = inventory.accelerators(machine.root)
    if not found:
        yield ok("accelerators", "none seen; models run on the CPU")
    for each in found:
        advice = f"no engine for {each.vendor} {each.kind}s in this version; the CPU is used"
        if each.kind == "GPU":
            advice = (
                "used by llama.cpp only, with device.device=gpu and a llama-cpp-python built for "
                "it; see `offload`"
            )
        yield note(each.kind, f"{each.name} seen", advice)


def read_memory(machine: Machine) -> Memory:
    text = machine.read("proc/meminfo")
    if text is None:
        import psutil

        memory, swap = psutil.virtual_memory(), psutil.swap_memory()
        return Memory(memory.total, memory.available, swap.total, swap.free)
    kib = {key: int(value) for key, value in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
    return Memory(
        *(kib[key] * 1024 for key in ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree"))
    )


def _instruction_sets(found: inventory.Cpu) -> Iterator[Check]:
    what, names = "instructions", found.instruction_sets
    if not found.flags:
        yield unavailable(what, "this system does not tell", "see the CPU's data sheet")
    elif names and {"avx2", "neon"} & set(names):
        yield ok(what, " ".join(names))
    else:
        yield note(what, f"{' '.join(names) or 'none'} (no AVX2)", _SLOW_CPU)
