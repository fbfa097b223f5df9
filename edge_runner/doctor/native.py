"""`python -m edge_runner.doctor.native NAME`: load a native library, print what it says of itself.

A broken library may end its process, hang or write where it likes; so it is loaded in a process of
its own. One line of JSON goes to stdout: facts, or {"error": text}. Whatever the library prints
goes to stderr. No model is loaded.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import re
import sys
from collections.abc import Callable
from typing import Any

from edge_runner.errors import UnavailableError

LIMIT_S = 10.0
"""A cold disk and a small board take seconds to load a library; after this, something is wrong."""

_LOADGEN_NEEDS = ("StartTestWithLogSettings", "TestSettings", "ConstructSUT", "ConstructQSL")


def llama_cpp() -> dict[str, Any]:
    """`backends`: names as compiled in. `devices`: what they found, by name and description.
    `gpu_offload`: whether layers can be offloaded. `features`: instruction sets the build uses."""
    from edge_runner.devices.llama_cpp.library import load_library

    native = load_library()
    info = native.llama_print_system_info().decode("utf-8", "replace")
    backends, devices = _backends()
    return {
        "backends": backends or re.findall(r"(\w+) : ", info),
        "devices": devices,
        "gpu_offload": bool(native.llama_supports_gpu_offload()),
        "features": re.findall(r"(\w+) = 1\b", info.rpartition("CPU : ")[2]),
    }


def loadgen() -> dict[str, Any]:
    """`missing`: functions we need and it lacks. `shadowed`: it is really mlcommons_loadgen, which
    puts itself in its place when it is imported first."""
    import mlperf_loadgen

    return {
        "missing": [name for name in _LOADGEN_NEEDS if not hasattr(mlperf_loadgen, name)],
        "shadowed": "mlcommons_loadgen" in sys.modules,
    }


PROBES: dict[str, Callable[[], dict[str, Any]]] = {"llama-cpp": llama_cpp, "loadgen": loadgen}


def main() -> int:
    # The parent may be gone before us. This watchdog needs no interpreter: it ends a hung library.
    faulthandler.dump_traceback_later(LIMIT_S + 1, exit=True)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answer:
        os.dup2(2, 1)
        try:
            facts = PROBES[sys.argv[1]]()
        except (UnavailableError, ImportError, OSError) as error:
            facts = {"error": " ".join(str(error).split())}
        answer.write(json.dumps(facts))
    return 0


def _backends() -> tuple[list[str], list[str]]:
    """ggml's own registry; empty where the binding does not expose it."""
    try:
        from llama_cpp._ggml import libggml as ggml

        ggml.ggml_backend_reg_get.restype = ctypes.c_void_p
        ggml.ggml_backend_dev_get.restype = ctypes.c_void_p
        for name in ("reg_count", "dev_count"):
            getattr(ggml, f"ggml_backend_{name}").restype = ctypes.c_size_t
        for name in ("reg_name", "dev_name", "dev_description"):
            function = getattr(ggml, f"ggml_backend_{name}")
            function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_char_p
    except (ImportError, AttributeError):
        return [], []
    registered = [
        ggml.ggml_backend_reg_name(ggml.ggml_backend_reg_get(ctypes.c_size_t(index)))
        for index in range(ggml.ggml_backend_reg_count())
    ]
    found = [
        (ggml.ggml_backend_dev_name(device), ggml.ggml_backend_dev_description(device))
        for device in (
            ggml.ggml_backend_dev_get(ctypes.c_size_t(index))
            for index in range(ggml.ggml_backend_dev_count())
        )
    ]
    return (
        [name.decode("utf-8", "replace") for name in registered],
        [f"{name.decode()} ({text.decode('utf-8', 'replace')})" for name, text in found],
    )


if __name__ == "__main__":
    sys.exit(main())
