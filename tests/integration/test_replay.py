"""The project's main job on a real model: replay through LoadGen with prefix reuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import ROOT

import edge_runner
from edge_runner.adapters import load_device, load_workload
from edge_runner.assets import DataRef
from edge_runner.catalog import resolve_data, resolve_model
from edge_runner.config import load_config

pytestmark = pytest.mark.model

OFFICIAL = ROOT.parent / "shared/data/agentic/mlperf-edge-agentic.jsonl"
SMALL = "smollm2-135m-instruct-q4_1"
CODER = "qwen2.5-coder-0.5b-instruct-q4_k_m"

Config = dict[str, Any]


@pytest.fixture
def config() -> Callable[..., Config]:
    def make(model: str = SMALL, **workload: Any) -> Config:
        return {
            "name": "replay",
            "kind": "agentic-replay",
            "workload": {"data": "quickstart", "sessions": 1, "max_turns": 4} | workload,
            "device": {"kind": "llama-cpp"},
            "generator": {"model": model},
            "generation": {"max_tokens": 24},
        }

    return make


def outputs(folder: Path) -> list[str]:
    return (folder / "outputs.jsonl").read_text(encoding="utf-8").splitlines()


def test_twice_in_one_process_is_the_same(config: Callable[..., Config], tmp_path: Path) -> None:
    first = edge_runner.run(config(), out=tmp_path / "first")
    second = edge_runner.run(config(), out=tmp_path / "second")
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert outputs(tmp_path / "first") == outputs(tmp_path / "second")
    records = [result.folder.read() for result in (first, second)]
    assert records[0].settings == records[1].settings
    assert records[0].fingerprint == records[1].fingerprint
    assert records[0].engine["details"] == records[1].engine["details"]


def test_a_measured_run_is_what_the_design_says(
    config: Callable[..., Config], tmp_path: Path
) -> None:
    result = edge_runner.run(config(sessions=2), out=tmp_path / "run")
    summary = result.summary
    assert (summary.turns.issued, summary.turns.failed) == (8, 0)
    for row in summary.per_turn:
        assert sum(row.ledger_ns.values()) == row.latency_ns
        assert min(row.ledger_ns.values()) >= 0
    assert summary.rates.evaluated_per_new is not None
    assert summary.rates.evaluated_per_new <= 1.02
    assert [row.tokens.cached for row in summary.per_turn if row.turn == 1] == [0, 0]
    assert summary.cross_check is not None
    assert not summary.cross_check.clock_mismatch
    assert summary.precision.weights
    assert summary.precision.kv == "f16"
    assert result.report.stat().st_size > 100_000


@pytest.mark.skipif(not OFFICIAL.exists(), reason="the official set is not beside this checkout")
def test_the_official_set_reuses_all_but_the_new_tokens(
    config: Callable[..., Config], tmp_path: Path
) -> None:
    result = edge_runner.run(config(CODER, data=str(OFFICIAL), max_turns=4), out=tmp_path / "run")
    summary = result.summary
    assert (summary.turns.issued, summary.turns.failed) == (4, 0)
    assert summary.rates.evaluated_per_new is not None
    assert summary.rates.evaluated_per_new <= 1.02
    assert summary.divergences.turns == 0


def test_outputs_with_reuse_equal_those_of_a_fresh_context(config: Callable[..., Config]) -> None:
    loaded = load_config(config(max_turns=6))
    data: DataRef = resolve_data(loaded.workload.data)
    source = load_workload(loaded.kind).load(loaded.workload, loaded.generation, data)
    model = resolve_model(SMALL, role="generator")
    with load_device("llama-cpp").open_generator(loaded.device, model) as engine:
        asked: list[Any] = []

        class Recorder:
            """The engine, writing down what each turn asked for."""

            info, capabilities = engine.info, engine.capabilities

            def open_sequence(self) -> Any:
                sequence = engine.open_sequence()
                generate = sequence.generate

                def note(request: Any, on_token: Any = None) -> Any:
                    asked.append(request)
                    return generate(request, on_token)

                sequence.generate = note  # type: ignore[method-assign]
                return sequence

        session = source.open(source.plans[0].id, Recorder())  # type: ignore[arg-type]
        reused = [session.advance() for _ in range(6)]
        session.close()
        assert reused[-1].usage.cached > reused[-1].usage.evaluated

        for turn, request in zip(reused, asked, strict=True):
            with_fresh = engine.open_sequence()
            fresh = with_fresh.generate(request)
            with_fresh.close()
            assert fresh.usage.cached == 0
            assert fresh.text == turn.text
            assert fresh.usage.output == turn.usage.output


def test_the_command_as_typed(tmp_path: Path) -> None:
    from support import edge_runner as command

    done = command(
        "run", "agentic-quickstart", "--json", "--out", "out",
        "--set", f"generator.model={SMALL}", "--set", "workload.sessions=1",
        "--set", "workload.max_turns=2", "--set", "generation.max_tokens=8",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["turns"]["completed"] + summary["turns"]["empty"] == 2
