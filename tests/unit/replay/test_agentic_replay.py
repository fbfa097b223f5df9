"""The workload adapter: its section, what it loads, what a run stands against."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from edge_runner.adapters import GenerationSection, load_workload
from edge_runner.assets import DataRef, ModelRef
from edge_runner.errors import ConfigError, DataError, EngineUnresponsiveError
from edge_runner.workloads.agentic_replay import ReplaySection, adapter

Write = Callable[[str | bytes], Path]
GENERATION = GenerationSection()
REFERENCE_MODEL = ModelRef("Qwen3.6-27B-Q4_K_M.gguf", Path("Qwen3.6-27B-Q4_K_M.gguf"), "0" * 64)


@pytest.fixture
def data(rows: Callable[..., Any], write: Write) -> DataRef:
    path = write(rows("a").text() + rows("b").text() + rows("c").text())
    return DataRef("mine", path, hashlib.sha256(path.read_bytes()).hexdigest())


def test_it_registers_under_its_kind() -> None:
    assert load_workload("agentic-replay") is adapter


def test_importing_it_imports_no_runtime() -> None:
    code = (
        "import sys, edge_runner.workloads.agentic_replay;"
        "heavy = {'llama_cpp', 'mlperf_loadgen', 'numpy', 'scipy', 'minijinja', 'httpx', 'rich'};"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_all_of_it_by_default_in_data_order(data: DataRef) -> None:
    source = adapter.load(ReplaySection(data=str(data.path)), GENERATION, data)
    assert [(plan.id, plan.turns) for plan in source.plans] == [("a", 3), ("b", 3), ("c", 3)]
    assert (source.data_name, source.data_sha256) == ("mine", data.sha256)


def test_limits_keep_the_first_sessions_and_turns(data: DataRef) -> None:
    section = ReplaySection(data=str(data.path), sessions=2, max_turns=2)
    source = adapter.load(section, GENERATION, data)
    assert [(plan.id, plan.turns) for plan in source.plans] == [("a", 2), ("b", 2)]
    more = ReplaySection(data=str(data.path), max_turns=99)
    assert [plan.turns for plan in adapter.load(more, GENERATION, data).plans] == [3, 3, 3]


def test_more_sessions_than_there_are_is_an_error_that_says_how_many(data: DataRef) -> None:
    section = ReplaySection(data=str(data.path), sessions=4)
    with pytest.raises(ConfigError, match=r"workload\.sessions: 4 .* only 3"):
        adapter.load(section, GENERATION, data)


def test_recorded_length_needs_a_recorded_reply_to_every_turn_it_keeps(
    rows: Callable[..., Any], write: Write
) -> None:
    cut = rows()
    cut.pop()
    path = write(cut.text())
    recorded = GenerationSection(output_length="recorded")
    ref = DataRef("cut", path, "")
    with pytest.raises(DataError, match="no recorded reply to its client turn 3"):
        adapter.load(ReplaySection(data=str(path)), recorded, ref)
    adapter.load(ReplaySection(data=str(path), max_turns=2), recorded, ref)


@pytest.mark.parametrize(
    "values",
    [
        {"sessions": 0},
        {"sessions": True},
        {"sessions": "2"},
        {"max_turns": -1},
        {"max_turns": 1.5},
        {"tool_delay": "wait"},
        {"turn_timeout_s": 0},
        {"turn_timeout_s": float("inf")},
        {"turn_timeout_s": "600"},
        {"streams": 2},
    ],
)
def test_wrong_values_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ReplaySection(**values)


def test_sessions_replay_and_are_scored(data: DataRef, fake: Any, made: Any) -> None:
    section = ReplaySection(data=str(data.path), tool_delay="honour", turn_timeout_s=5)
    source = adapter.load(section, GENERATION, data)
    recorded = source._conversations["b"].turns[0].recorded
    assert recorded is not None
    generator = fake(lambda sequence, request: made("", recorded.tool_calls))
    session = source.open("b", generator)
    assert session.advance().scores == {"command_iou": 1.0}
    assert session.next_delay_ns == 250_000_000
    session.advance()
    assert session.advance().scores == {"command_iou": None}
    assert session.done
    again = source.open("b", generator)
    again.advance()
    assert len(generator.sequences) == 2
    assert generator.sequences[1].requests[0].messages == (
        generator.sequences[0].requests[0].messages
    )


def test_a_lost_engine_is_lost_for_all_sessions_but_not_for_another_engine(
    data: DataRef, fake: Any
) -> None:
    def lost(sequence: Any, request: Any) -> Any:
        raise EngineUnresponsiveError("gone")

    source = adapter.load(ReplaySection(data=str(data.path)), GENERATION, data)
    generator = fake(lost)
    assert source.open("a", generator).advance().status == "failed"
    with pytest.raises(EngineUnresponsiveError):
        source.open("b", generator).advance()
    assert source.open("b", fake()).advance().status == "completed"


def test_warm_up_uses_a_sequence_of_its_own_and_closes_it(data: DataRef, fake: Any) -> None:
    generator = fake()
    source = adapter.load(ReplaySection(data=str(data.path)), GENERATION, data)
    source.warm_up(generator)
    (sequence,) = generator.sequences
    assert sequence.closed
    (request,) = sequence.requests
    assert (request.max_tokens, request.output_length) == (16, "recorded")
    assert 600 < sum(len(message.content) for message in request.messages) < 1200
    assert source.open("a", generator).advance().status == "completed"


def test_a_failing_warm_up_still_closes_its_sequence(data: DataRef, fake: Any) -> None:
    def broken(sequence: Any, request: Any) -> Any:
        raise ValueError("no")

    generator = fake(broken)
    source = adapter.load(ReplaySection(data=str(data.path)), GENERATION, data)
    with pytest.raises(ValueError, match="no"):
        source.warm_up(generator)
    assert generator.sequences[0].closed


def test_the_reference_configuration_has_no_deviation(official: Path) -> None:
    sha256 = hashlib.sha256(official.read_bytes()).hexdigest()
    standing = adapter.standing(
        ReplaySection(), GENERATION, DataRef("any-name", official, sha256), REFERENCE_MODEL
    )
    assert standing["reference"] == "MLPerf Inference v6.1 Edge Agentic"
    assert standing["deviations"] == []


def test_every_difference_from_the_reference_is_named(data: DataRef) -> None:
    standing = adapter.standing(
        ReplaySection(
            data=str(data.path), sessions=1, max_turns=2, tool_delay="honour", turn_timeout_s=60
        ),
        GenerationSection(max_tokens=64, temperature=0.7, seed=1, output_length="recorded"),
        data,
        ModelRef("small.gguf", Path("small.gguf"), "0" * 64),
    )
    text = "\n".join(standing["deviations"])
    assert len(standing["deviations"]) == 10
    for part in (
        "model is small.gguf",
        "generation.max_tokens is 64, the reference has 1024",
        "generation.temperature is 0.7, the reference has 0.0",
        "generation.seed is 1, the reference has 42",
        "generation.output_length is recorded, the reference has natural",
        "workload.tool_delay is honour, the reference has skip",
        "workload.turn_timeout_s is 60",
        "data is mine, not the official replay set",
        "first 1 sessions",
        "first 2 turns",
    ):
        assert part in text
