from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from edge_runner.config import load_config, shipped
from edge_runner.errors import ConfigError

MINIMAL = {
    "name": "x",
    "kind": "agentic-replay",
    "workload": {"data": "quickstart"},
    "device": {"kind": "scripted"},
}


def test_every_shipped_configuration_loads() -> None:
    assert {"agentic-quickstart", "agentic-mlperf-edge"} <= shipped().keys()
    for name in shipped():
        config = load_config(name)
        assert config.name == name
        # Hours of work must be asked for by name.
        assert (config.scenario.preset == "mlperf") == name.endswith("-valid")


def test_paths_in_a_file_start_at_the_file_and_in_sets_at_the_working_directory(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "configs"
    folder.mkdir()
    path = folder / "a.yaml"
    path.write_text(yaml.safe_dump(MINIMAL | {"workload": {"data": "data/a.jsonl"}}))
    assert load_config(path).workload.data == str(folder / "data/a.jsonl")
    changed = load_config(path, ["workload.data=data/b.jsonl"], cwd=tmp_path)
    assert changed.workload.data == str(tmp_path / "data/b.jsonl")


def test_a_name_is_not_a_path() -> None:
    assert load_config(MINIMAL).workload.data == "quickstart"


def test_sets_reach_any_depth_and_are_typed_as_yaml() -> None:
    config = load_config(
        MINIMAL, ["generation.max_tokens=7", "scenario.preset=mlperf", "workload.sessions=null"]
    )
    assert config.generation.max_tokens == 7
    assert config.scenario.preset == "mlperf"


def test_on_is_a_word_and_true_is_a_boolean() -> None:
    sets = ["device.kind=llama-cpp", "device.flash_attention=on", "device.use_mmap=false"]
    device = load_config(MINIMAL | {"generator": {"model": "m"}}, sets).device.model_dump()
    assert (device["flash_attention"], device["use_mmap"]) == ("on", False)


def test_a_resolved_configuration_loads_to_the_same() -> None:
    config = load_config(MINIMAL, ["device.script=[{turn: 2, text: hello}]"])
    again = load_config(config.model_dump(mode="json"))
    assert again == config
    assert again.fingerprint() == config.fingerprint()


def test_the_fingerprint_is_of_the_work_not_of_its_name(tmp_path: Path) -> None:
    config = load_config(MINIMAL)
    assert load_config(MINIMAL | {"name": "y"}).fingerprint() == config.fingerprint()
    assert load_config(MINIMAL, ["generation.seed=1"]).fingerprint() != config.fingerprint()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: [", "line 1: not valid YAML"),
        ("- a", "must be a mapping"),
        ("name: x\nname: y", "line 2: key 'name' is given twice"),
        ("1: x", "line 1: key 1 must be text"),
        ("a: &x [*x]", "line 1: aliases"),
        ("a: &x [1]\nb: *x", "line 2: aliases"),
        ("!!map foo", "line 1: not valid YAML"),
        ("a: \0b", "not valid YAML: unacceptable character"),
        (f"a: {'[' * 3000}", "not valid YAML"),
        (f"a: {'9' * 5000}", "not valid YAML"),
        ("name: x", "kind: is missing"),
        ("name: ../../x\nkind: agentic-replay\nworkload: {}\ndevice: {kind: scripted}", "name"),
        ("name: x\nkind: agentic-replay\nworkload: {}\ndevice: 3", "device: needs a `kind`"),
        ("name: x\nkind: agentic-replay\nworkload: 3\ndevice: {kind: scripted}", "workload"),
        (
            "name: x\nkind: agentic-replay\nworkload: {}\ndevice: {kind: llama-cpp}",
            "needs a model",
        ),
    ],
)
def test_mistakes_are_one_line_naming_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    message = str(caught.value)
    assert said in message
    assert "bad.yaml" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"scenario": {"presett": "quick"}}, "scenario.presett: unknown key; did you mean"),
        ({"generation": {"temprature": 1}}, "generation.temprature: unknown key; did you mean"),
        ({"devices": {}}, "devices: unknown key; did you mean 'device'"),
        ({"workload": {"data": "quickstart", "max_turns": 0}}, "workload.max_turns"),
        ({"generator": {"model": 5}}, "generator.model"),
    ],
)
def test_unknown_keys_say_what_was_meant(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace(".", r"\.").replace("?", r"\?")):
        load_config(MINIMAL | changes)


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("device.script=[{session: a, foo: 1}]", r"device\.script\.entries\.0\.foo: unknown key"),
        ("device.script={a: 1}", r"device\.script"),
        ("device.script=[{decode_tps: .nan}]", "finite number"),
        ("device.script=[{decode_tps: -1}]", "greater than 0"),
        ("device.context_tokens=-5", "greater than or equal to 1"),
        ("slo.ttft_ms=.inf", "finite number"),
        ("generator={model: x, device: abc}", r"generator\.device: must be a mapping"),
        (f"name={'[' * 3000}", "not valid YAML"),
    ],
)
def test_nasty_values_are_one_line(item: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        load_config(MINIMAL, [item])
    assert "\n" not in str(caught.value)


def test_a_date_is_text() -> None:
    assert load_config(MINIMAL, ["name=2020-13-45"]).name == "2020-13-45"


def test_an_engine_s_own_device_keys_start_at_the_file_and_are_in_force(tmp_path: Path) -> None:
    folder = tmp_path / "sub"
    folder.mkdir()
    (folder / "s.yaml").write_text("- {text: hello}")
    path = folder / "a.yaml"
    own = {"model": "x", "device": {"script": "./s.yaml"}}
    path.write_text(yaml.safe_dump(MINIMAL | {"generator": own}))
    config = load_config(path)
    assert config.device.model_dump()["script"] == str(folder / "s.yaml")
    assert load_config(config.model_dump(mode="json")).device == config.device


def test_the_fingerprint_takes_no_notice_of_where_files_lie(tmp_path: Path) -> None:
    marks = set()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        sets = [
            f"device.script={tmp_path}/{name}/s.yaml",
            f"workload.data={tmp_path}/{name}/d.jsonl",
        ]
        marks.add(load_config(MINIMAL, sets).fingerprint())
    assert len(marks) == 1


def test_a_missing_file_names_the_shipped_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'agentic-quickstart'"):
        load_config("agentic-quikstart")
    with pytest.raises(ConfigError, match="folder"):
        load_config(tmp_path)
