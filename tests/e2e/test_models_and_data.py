"""One's own model and one's own sessions, from the command as typed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from gguf_files import METADATA, write_gguf
from support import edge_runner

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


@needs_bash
def test_sessions_are_recorded_checked_and_replayed(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "greet.py").write_text('print("hello")\n')
    record = ("data", "record", "--in", "project", "--task", "What does it print?")
    commands = ("--", "ls", "python greet.py; touch made", "false")
    done = edge_runner(*record, "--session", "one", "set.jsonl", *commands, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "set.jsonl\n"
    assert "one 3/3: exit 1 after" in done.stderr
    assert [path.name for path in project.iterdir()] == ["greet.py"]

    taken = edge_runner(*record, "--session", "two", "set.jsonl", *commands, cwd=tmp_path)
    assert taken.returncode == 2
    assert "set.jsonl exists: --append adds to it" in taken.stderr
    done = edge_runner(
        *record, "--session", "two", "--append", "set.jsonl", *commands, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr

    checked = edge_runner("data", "check", "set.jsonl", "--json", cwd=tmp_path)
    facts = json.loads(checked.stdout)
    assert (facts["sessions"], facts["turns"], facts["scorable"]) == (2, 8, 6)
    assert facts["delay_ns"] > 0

    run = edge_runner(
        "run", "agentic-quickstart", "--set", "workload.data=set.jsonl", "--set",
        "device={kind: scripted}", "--set", "generator=null", "--json", cwd=tmp_path,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["turns"]["completed"] == 8


@needs_bash
@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["out.jsonl"], 2, "give SCRIPT.yaml OUT.jsonl"),
        (["--in", ".", "out.jsonl", "--", "true"], 2, "--task: say what"),
        (["--in", ".", "--task", "x", "out.jsonl"], 2, "no command to record"),
        (["--in", ".", "--task", "x", "no/out.jsonl", "--", "true"], 2, "no does not exist"),
        (["--in", ".", "--task", "x", "out.jsonl", "--", "pwd"], 4, "step 1: the output names"),
        (["--in", "none", "--task", "x", "out.jsonl", "--", "ls"], 2, "none"),
        (["none.yaml", "out.jsonl"], 4, "none.yaml: cannot be read"),
    ],
)
def test_what_cannot_be_recorded(
    tmp_path: Path, arguments: list[str], code: int, says: str
) -> None:
    done = edge_runner("data", "record", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out.jsonl").exists()


def test_the_first_wrong_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    row = {"conversation_id": "a", "turn": 1, "role": "user", "content": "x", "system": ""}
    rows = [{**row, "tools": []}, {**row, "turn": 3, "role": "assistant"}]
    path.write_text("".join(json.dumps(each) + "\n\n" for each in rows))
    done = edge_runner("data", "check", str(path), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert f"{path}:3: conversation 'a': turn 3 is out of order" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_model_of_ones_own_gets_a_name(tmp_path: Path) -> None:
    env = {
        "EDGE_RUNNER_CATALOG": str(tmp_path / "own.yaml"),
        "EDGE_RUNNER_CACHE": str(tmp_path / "cache"),
    }
    write_gguf(tmp_path / "tiny.gguf")

    def models(*arguments: str) -> tuple[int, str, str]:
        done = edge_runner("models", *arguments, cwd=tmp_path, env=env)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    assert models("list")[0] == 2  # the catalog that is named is not there yet
    code, out, err = models("add", "tiny", "tiny.gguf", "--tool-format", "hermes")
    assert code == 0, err
    assert "own.yaml" in err
    assert models("path", "tiny")[1] == f"{tmp_path / 'tiny.gguf'}\n"
    assert "tiny  tiny.gguf  ok" in models("verify", "tiny")[1]
    assert json.loads(models("show", "tiny", "--json")[1])["tool_format"] == "hermes"
    assert models("add", "tiny", "tiny.gguf")[0] == 2

    write_gguf(tmp_path / "tiny.gguf", metadata=METADATA | {"general.name": "Other"})
    code, out, err = models("verify", "tiny")
    assert code == 4
    assert "wrong SHA-256" in out
    (tmp_path / "own.yaml").write_text("models: {tiny: {role: x}}")
    code, out, err = models("list")
    assert (code, out) == (2, "")
    assert f"{tmp_path / 'own.yaml'}: models.tiny.role" in err
