"""`edge-runner models` and `edge-runner data` as typed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from gguf_files import write_gguf
from typer.testing import CliRunner, Result

from edge_runner.cli.data import app as data_app
from edge_runner.cli.models import app as models_app
from edge_runner.errors import AssetError, DownloadError, ModelFileError

RUNNER = CliRunner()


def models(*arguments: str) -> Result:
    return RUNNER.invoke(models_app, list(arguments))


def test_list_fits_eighty_columns_and_names_every_model() -> None:
    result = models("list")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert len(lines) == 10
    assert max(map(len, lines)) <= 80
    assert re.search(
        r"^qwen2\.5-coder-0\.5b\S+ +generator +491 MB +absent$", result.stdout, re.MULTILINE
    )


def test_lists_as_json() -> None:
    listed = json.loads(models("list", "--json").stdout)
    assert listed[0]["name"] == "smollm2-135m-instruct-q4_1"
    assert listed[0]["bytes"] == 98362432
    data = json.loads(RUNNER.invoke(data_app, ["list", "--json"]).stdout)
    assert [entry["state"] for entry in data] == ["shipped", "absent", "absent"]


def test_show_an_entry() -> None:
    result = models("show", "qwen2.5-coder-0.5b-instruct-q4_k_m")
    assert "Apache-2.0" in result.stdout
    assert "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32" in result.stdout
    assert "architecture" not in result.stdout
    shown = json.loads(models("show", "bge-small-en-v1.5-int8", "--json").stdout)
    assert shown["role"] == "embedder"
    assert shown["path"] is None


def test_show_a_file(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "own.gguf")
    shown = json.loads(models("show", str(path), "--json").stdout)
    assert (shown["architecture"], shown["parameters"]) == ("llama", 48)
    assert "F32" in models("show", str(path)).stdout


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["show", "nope"], AssetError),
        (["show", "nope.gguf"], ModelFileError),
        (["path", "smollm2-135m-instruct-q4_1"], AssetError),
        (["pull", "--offline", "smollm2-135m-instruct-q4_1"], DownloadError),
        (["pull", "smollm2-135m-instruct-q4_1", "nope"], AssetError),
        (["verify", "smollm2-135m-instruct-q4_1"], ModelFileError),
    ],
)
def test_failures_are_errors_of_exit_code_four(arguments: list[str], error: type) -> None:
    result = models(*arguments)
    assert isinstance(result.exception, error)
    assert isinstance(result.exception, AssetError)
    assert result.exception.exit_code == 4


def test_verify_lists_what_is_wrong() -> None:
    result = models("verify", "bge-small-en-v1.5-int8")
    assert result.stdout.splitlines() == [
        "bge-small-en-v1.5-int8  model.onnx  No such file or directory",
        "bge-small-en-v1.5-int8  tokenizer.json  No such file or directory",
    ]
    assert "`edge-runner models pull bge-small-en-v1.5-int8`" in str(result.exception)


def test_shipped_data_is_pulled_by_doing_nothing() -> None:
    pulled = RUNNER.invoke(data_app, ["pull", "quickstart"])
    located = RUNNER.invoke(data_app, ["path", "quickstart"])
    assert pulled.stdout == located.stdout
    assert Path(located.stdout.strip()).is_file()
