"""The tables agree with the `gguf` package, as far as it goes."""

from __future__ import annotations

import pytest

from edge_runner.catalog import ggml

gguf = pytest.importorskip("gguf")


def test_every_architecture_of_the_package_is_known() -> None:
    assert set(gguf.MODEL_ARCH_NAMES.values()) <= ggml.ARCHITECTURES


def test_tensor_types_have_the_sizes_of_the_package() -> None:
    # Q8_1 is an intermediate type that no file stores; the package has it wrong by a field.
    for kind, (elements, size) in gguf.GGML_QUANT_SIZES.items():
        if kind.name != "Q8_1":
            assert ggml.TENSOR_TYPES[int(kind)] == (kind.name, elements, size)


def test_file_types_have_the_names_of_the_package() -> None:
    for kind in gguf.LlamaFileType:
        if kind.name != "GUESSED":
            name = kind.name.removeprefix("MOSTLY_").removeprefix("ALL_")
            assert ggml.FILE_TYPES[int(kind)] == name


def test_models_that_are_no_generators_are_architectures() -> None:
    assert ggml.NOT_GENERATORS < ggml.ARCHITECTURES
    assert "qwen2" not in ggml.NOT_GENERATORS


def test_the_runtime_is_compared_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for version, newer in (("0.3.36", False), ("0.3.9", False), ("0.3.100", True), ("1.0", True)):
        monkeypatch.setattr(ggml, "runtime_version", lambda version=version: version)
        assert ggml.runtime_is_newer() is newer
