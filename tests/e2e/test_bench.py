"""`edge-runner bench agentic`, as typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import edge_runner

SCRIPTED = ("--model", "none.gguf", "--set", "device.kind=scripted")


def test_it_calibrates_sizes_and_runs(tmp_path: Path) -> None:
    done = edge_runner("bench", "agentic", *SCRIPTED, "--json", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["turns"]["completed"] == summary["turns"]["expected"] > 20
    assert "sized to generation.max_tokens=256" in done.stderr


def test_a_slow_engine_gets_less_work(tmp_path: Path) -> None:
    slow = ("--set", "device.script=[{prefill_tps: 2000, decode_tps: 400}]", "--minutes", "0.5")
    done = edge_runner("bench", "agentic", *SCRIPTED, *slow, "--json", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["duration_ns"] < 30e9
    assert "sized to generation.max_tokens=256" not in done.stderr


def test_the_size_is_of_the_data_that_is_run(tmp_path: Path, write_replay: Any) -> None:
    data = write_replay({f"s{at}": 40 for at in range(40)})
    slow = ("--set", "device.script=[{prefill_tps: 2000, decode_tps: 400}]", "--minutes", "0.5")
    more = (*slow, "--set", f"workload.data={data}")
    done = edge_runner("bench", "agentic", *SCRIPTED, *more, "--json", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["duration_ns"] < 30e9


def test_preset_mlperf_is_not_for_a_bench(tmp_path: Path) -> None:
    more = ("--set", "scenario.preset=mlperf")
    done = edge_runner("bench", "agentic", *SCRIPTED, *more, cwd=tmp_path)
    assert done.returncode == 2
    assert "edge-runner run" in done.stderr


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    done = edge_runner("bench", "agentic", "--model", "absent.gguf", cwd=tmp_path)
    assert done.returncode == 4
    assert "absent.gguf" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.model
def test_smollm2_says_what_its_context_and_missing_tool_template_mean(tmp_path: Path) -> None:
    more = ("--minutes", "2", "--set", "workload.sessions=1")
    model = ("--model", "smollm2-135m-instruct-q4_1")
    done = edge_runner("bench", "agentic", *model, *more, "--json", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    said = "\n".join(summary["warnings"])
    assert "8,192 tokens" in said
    assert "shows it no tools" in said
    assert summary["duration_ns"] < 120e9
