"""Broken native libraries, made of small modules that stand in front of the installed ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge_runner.doctor import engines
from edge_runner.doctor.check import Check
from edge_runner.doctor.machine import Machine

pytest.importorskip("llama_cpp")
pytest.importorskip("mlperf_loadgen")

CPUINFO = {"proc/cpuinfo": "processor : 0\nflags : avx avx2 fma f16c avx512f\n"}

FAKE_LLAMA = """
import ctypes
llama_log_callback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
llama_log_set = lambda callback, data: None
llama_backend_init = lambda: None
llama_supports_gpu_offload = lambda: {offload}
llama_print_system_info = lambda: {info!r}
"""


@pytest.fixture
def modules(tmp_path: Path, machine: Any) -> Callable[..., Machine]:
    """A machine whose Python finds these files first; `tree` as in `machine`."""

    def make(sources: dict[str, str], tree: dict[str, str] | None = None) -> Machine:
        folder = tmp_path / "modules"
        for name, source in sources.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source, encoding="utf-8")
        return machine(tree, environ={**os.environ, "PYTHONPATH": str(folder)})

    return make


def llama_cpp(native: str, package: str = "") -> dict[str, str]:
    return {"llama_cpp/__init__.py": package, "llama_cpp/llama_cpp.py": native}


def the(checks: Any, what: str, lines: Any) -> Check:
    found: Check = lines(checks)[what]
    return found


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise OSError('libcuda.so.1: cannot open\\n shared object file')", "libcuda.so.1"),
        ("raise ImportError('undefined symbol: ggml_x')", "undefined symbol: ggml_x"),
        ("raise ValueError('odd [bold]state')", "ValueError: odd [bold]state"),
        ("import os; os.abort()", "crashed (SIGABRT)"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "crashed (SIGILL)"),
        ("import os; os._exit(0)", "ended the process"),
        ("import sys; sys.exit(9)", "exit code 9"),
        ("x = 1", "has no attribute"),
    ],
)
def test_a_broken_library_is_a_problem_with_its_cause(
    modules: Any, lines: Any, source: str, said: str
) -> None:
    machine = modules(llama_cpp(source))
    check = the(engines.llama_cpp(machine), "llama.cpp", lines)
    assert (check.state, check.exit_code) == ("problem", 3)
    assert said in check.value
    assert "\n" not in check.value
    assert "--force-reinstall" in check.advice


def test_a_library_that_hangs_is_ended(
    modules: Any, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "LIMIT_S", 0.5)
    machine = modules({"mlperf_loadgen.py": "import threading; threading.Event().wait()"})
    check = the(engines.loadgen(machine), "LoadGen", lines)
    assert (check.state, check.exit_code) == ("problem", 3)
    assert "did not load within 0.5 s" in check.value


def fake_llama(*, offload: bool = False, info: bytes = b"CPU : AVX = 1 | AVX2 = 1 | ") -> str:
    return FAKE_LLAMA.format(offload=offload, info=info)


def test_what_a_library_prints_is_kept_out_of_the_answer(modules: Any, lines: Any) -> None:
    noise = "import os\nos.write(1, b'ggml: found 0 devices\\n{}')\n"
    machine = modules(llama_cpp(fake_llama(), noise))
    assert the(engines.llama_cpp(machine), "llama.cpp", lines).state == "ok"


def test_the_build_is_held_against_the_cpu(modules: Any, lines: Any) -> None:
    for features, state, said in [
        (b"AVX = 1 | AVX2 = 1 | FMA = 1 | F16C = 1 | AVX512 = 1", "ok", "AVX512"),
        (b"AVX = 1 | AVX2 = 1 | FMA = 1 | F16C = 1", "note", "does not use AVX512"),
        (b"AVX = 1 | AVX512 = 1 | AMX_INT8 = 1", "problem", "AMX_INT8, which this CPU lacks"),
    ]:
        llama = fake_llama(info=b"CPU : " + features)
        machine = modules(llama_cpp(llama), CPUINFO)
        check = the(engines.llama_cpp(machine), "build", lines)
        assert check.state == state
        assert said in check.value


def test_a_gpu_build_without_a_gpu_says_so(modules: Any, lines: Any) -> None:
    info = b"CUDA : ARCHS = 890 | CPU : AVX = 1 | "
    llama = fake_llama(offload=True, info=info)
    machine = modules(llama_cpp(llama))
    found = lines(engines.llama_cpp(machine))
    assert found["llama.cpp"].value == "loads; built for CUDA, CPU"
    assert found["offload"].state == "note"
    assert "no device was found" in found["offload"].value


def test_the_installed_libraries_load(lines: Any) -> None:
    machine = Machine()
    found = lines([*engines.llama_cpp(machine), *engines.loadgen(machine)])
    assert found["llama.cpp"].state == found["LoadGen"].state == "ok"
    assert "CPU" in found["llama.cpp"].value


def test_loadgen_with_its_place_taken_at_start_up(modules: Any, lines: Any) -> None:
    machine = modules({"sitecustomize.py": "import mlcommons_loadgen"})
    check = the(engines.loadgen(machine), "LoadGen", lines)
    assert check.state == "problem"
    assert "took the place of mlperf_loadgen" in check.value


def test_another_module_of_loadgens_name(modules: Any, lines: Any) -> None:
    machine = modules({"mlperf_loadgen.py": "TestSettings = 1"})
    check = the(engines.loadgen(machine), "LoadGen", lines)
    assert check.state == "problem"
    assert "lacks StartTestWithLogSettings, ConstructSUT, ConstructQSL" in check.value


def test_nothing_is_said_twice_of_a_missing_package(
    machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines.packages, "unmet_requirements", lambda extra: [f"{extra} missing"])
    assert not list(engines.llama_cpp(machine()))
    assert not list(engines.loadgen(machine()))
