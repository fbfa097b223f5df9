from __future__ import annotations

from email.message import Message
from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest

from edge_runner.doctor import packages

REQUIRES = [
    "httpx>=0.28",
    'colorama>=1; sys_platform == "no-such-system"',
    'llama-cpp-python<0.4,>=0.3.36; extra == "llama-cpp"',
    'minijinja>=3.1; extra == "llama-cpp"',
    'mlcommons-loadgen>=6; extra == "loadgen"',
    'onnxruntime>=1.20; extra == "onnx"',
    'tokenizers>=0.20; extra == "onnx"',
    'edge-runner[llama-cpp,loadgen]; extra == "all"',
]
GOOD = {
    "edge-runner": "1.0", "httpx": "0.28", "llama-cpp-python": "0.3.40", "minijinja": "3.1",
    "mlcommons-loadgen": "6.0.17", "onnxruntime": "1.21", "tokenizers": "0.21",
}  # fmt: skip


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Declare these versions as what is installed, beside a made-up edge-runner."""

    def declare(*without: str, python: str = ">=3.11", **other: str) -> None:
        versions = {**GOOD, **{name.replace("_", "-"): value for name, value in other.items()}}
        for name in without:
            del versions[name]

        def version(name: str) -> str:
            if name not in versions:
                raise PackageNotFoundError(name)
            return versions[name]

        message = Message()
        message["Requires-Python"] = python
        for extra in ("llama-cpp", "loadgen", "onnx", "all"):
            message["Provides-Extra"] = extra
        monkeypatch.setattr(packages, "version", version)
        monkeypatch.setattr(packages, "requires", lambda _: REQUIRES)
        monkeypatch.setattr(packages, "metadata", lambda _: message)

    return declare


def test_all_is_there(installed: Any, machine: Any, lines: Any) -> None:
    installed()
    base, extras = lines(packages.base(machine())), lines(packages.extras(machine()))
    assert {check.state for check in [*base.values(), *extras.values()]} == {"ok"}
    assert list(extras) == ["extra llama-cpp", "extra loadgen", "extra onnx"]
    assert extras["extra llama-cpp"].value == "llama-cpp-python 0.3.40, minijinja 3.1"


def test_an_extra_of_the_quickstart_is_a_problem(installed: Any, machine: Any, lines: Any) -> None:
    installed("minijinja", "mlcommons-loadgen", llama_cpp_python="0.3.2")
    extras = lines(packages.extras(machine()))
    llama = extras["extra llama-cpp"]
    assert (llama.state, llama.exit_code) == ("problem", 3)
    assert "llama-cpp-python is 0.3.2, wanted <0.4,>=0.3.36" in llama.value
    assert "minijinja is not installed" in llama.value
    assert "'edge-runner[llama-cpp]'" in llama.advice
    assert extras["extra loadgen"].exit_code == 3


def test_other_extras_are_only_unavailable(installed: Any, machine: Any, lines: Any) -> None:
    installed("onnxruntime", "tokenizers")
    onnx = lines(packages.extras(machine()))["extra onnx"]
    assert (onnx.state, onnx.value) == ("unavailable", "not installed")
    installed("tokenizers")
    onnx = lines(packages.extras(machine()))["extra onnx"]
    assert (onnx.state, onnx.value) == ("note", "tokenizers is not installed")


def test_what_is_always_needed(installed: Any, machine: Any, lines: Any) -> None:
    installed(httpx="0.20", python=">=3.99")
    base = lines(packages.base(machine()))
    assert base["edge-runner"].exit_code == base["Python"].exit_code == 3
    assert "httpx is 0.20" in base["edge-runner"].value
    assert "supported: >=3.99" in base["Python"].value


def test_a_python_without_wheels_is_told_of_compiling(
    installed: Any, machine: Any, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed("mlcommons-loadgen")
    monkeypatch.setattr(packages.platform, "python_version_tuple", lambda: ("3", "15", "0"))
    assert "Python 3.13" in lines(packages.extras(machine()))["extra loadgen"].advice


def test_the_real_metadata_is_understood() -> None:
    names = {requirement.name for requirement in packages.requirements("llama-cpp")}
    assert names == {"llama-cpp-python", "minijinja"}
    assert "pydantic" in {requirement.name for requirement in packages.requirements(None)}
    assert set(packages.QUICKSTART_EXTRAS) <= {"llama-cpp", "loadgen"}
