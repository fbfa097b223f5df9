"""The contract is importable without any runtime, and the command answers at once."""

from __future__ import annotations

import subprocess
import sys

RUNTIMES = {
    "chromadb", "huggingface_hub", "llama_cpp", "minijinja", "mlperf_loadgen", "numpy",
    "onnxruntime", "openvino", "scipy", "textual", "torch",
}  # fmt: skip


def modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*(name.split('.')[0] for name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_the_package_and_the_contract_load_no_runtime() -> None:
    loaded = modules_after(
        "import edge_runner, edge_runner.engines, edge_runner.sessions, edge_runner.config"
    )
    assert not loaded & RUNTIMES


def test_importing_the_package_loads_next_to_nothing() -> None:
    assert not modules_after("import edge_runner") & {*RUNTIMES, "pydantic", "typer", "rich"}


def test_adapters_load_no_runtime_before_they_are_opened() -> None:
    loaded = modules_after(
        "from edge_runner.adapters import *\n"
        "from edge_runner import adapters\n"
        "for kind in adapters.names(adapters.DEVICES): adapters.load_device(kind)\n"
        "for kind in adapters.names(adapters.WORKLOADS): adapters.load_workload(kind)"
    )
    assert not loaded & RUNTIMES


def test_help_loads_only_what_it_shows() -> None:
    loaded = modules_after("import edge_runner.cli.main")
    assert not loaded & {*RUNTIMES, "pydantic", "rich", "msgspec", "httpx", "yaml"}


def test_the_public_names_are_these() -> None:
    import edge_runner

    assert edge_runner.__all__ == sorted(edge_runner.__all__)
    for name in edge_runner.__all__:
        assert getattr(edge_runner, name).__name__ == name
