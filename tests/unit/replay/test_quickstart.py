"""The quickstart set that comes with the package, and the recorder that made it."""

from __future__ import annotations

import json
import os
import shutil
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from edge_runner.errors import DataError
from edge_runner.workloads.commands import command_iou
from edge_runner.workloads.recorder import (
    SessionScript,
    Step,
    record_folder,
    record_session,
    record_set,
    run_command,
    save,
)
from edge_runner.workloads.replay_data import (
    AssistantRow,
    ToolRow,
    read_replay,
    read_rows,
    write_session,
)

CHARACTERS_PER_TOKEN = 3.6
DATA = Path(__file__).parents[3] / "workloads/data"
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


def test_it_is_small_enough_for_a_small_machine() -> None:
    with as_file(files("edge_runner.workloads.data") / "quickstart.jsonl") as path:
        conversations = read_replay(path).conversations
    assert len(conversations) == 3
    total = 0.0
    for one in conversations:
        assert 8 <= len(one.turns) <= 12
        text = [one.system, *(message.content for turn in one.turns for message in turn.messages)]
        for turn in one.turns[:-1]:
            assert turn.recorded is not None
            text += [call.arguments for call in turn.recorded.tool_calls]
        total += sum(map(len, text)) / CHARACTERS_PER_TOKEN
    assert 5_000 < total < 12_000


def test_its_recorded_calls_score_1() -> None:
    conversations = read_replay(DATA / "quickstart.jsonl").conversations
    replies = [turn.recorded for one in conversations for turn in one.turns]
    scores = [command_iou(reply.tool_calls, reply.tool_calls) for reply in replies if reply]
    assert len(scores) == len(replies) == 32
    assert [score for score in scores if score is not None] == [1.0] * 29


def test_it_is_what_its_script_says() -> None:
    """Thoughts and commands of the script are in the set, in order: nobody edited one alone."""
    text = (DATA / "quickstart-script.yaml").read_text(encoding="utf-8")
    for _, row in read_rows(DATA / "quickstart.jsonl"):
        if isinstance(row, AssistantRow) and row.tool_calls:
            command = json.loads(row.tool_calls[0].function.arguments)["command"]
            assert command.splitlines()[0] in text


def test_it_names_no_machine() -> None:
    text = (DATA / "quickstart.jsonl").read_text(encoding="utf-8")
    for private in ("/tmp", "/home", "/root", "/Users", "/usr/l", "site-packages"):
        assert private not in text


@needs_bash
def test_a_recorded_session_reads_back(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    script = SessionScript(
        id="demo",
        task="Say hello.",
        steps=[
            Step("First.", "echo hello > greeting; cat greeting"),
            Step("Then.", "printf wrong >&2; exit 3"),
        ],
        answer="Done.",
    )
    out = tmp_path / "out.jsonl"
    rows = record_session(script, "Be brief.", project)
    write_session(out, rows)
    (conversation,) = read_replay(out).conversations
    assert len(conversation.turns) == 3
    first, second = (row for row in rows if isinstance(row, ToolRow))
    assert first.tool_results[0].content == (
        "<returncode>0</returncode>\n<output>\nhello\n</output>"
    )
    assert second.tool_results[0].content == (
        "<returncode>3</returncode>\n<output>\nwrong\n</output>"
    )
    assert first.delay_seconds > 0
    assert conversation.turns[2].recorded is not None
    assert conversation.turns[2].recorded.text == "Done."


@needs_bash
def test_an_output_that_names_the_machine_is_refused(tmp_path: Path) -> None:
    script = SessionScript("leak", "Where?", [Step("Look.", "pwd -P")], "There.")
    with pytest.raises(DataError, match="session 'leak', step 1"):
        record_session(script, "", tmp_path)


@needs_bash
def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "alive")
    reader = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    try:
        result = run_command("sleep 3600 > alive & sleep 3600", tmp_path, timeout_s=2)
        assert result.returncode == 124
        os.set_blocking(reader, True)
        assert os.read(reader, 1) == b""  # blocks for as long as the child lives
    finally:
        os.close(reader)


@needs_bash
def test_output_is_bounded_and_decoded_whatever_it_is(tmp_path: Path) -> None:
    result = run_command("head -c 200000 /dev/zero | tr '\\0' x", tmp_path)
    assert result.output.startswith("xxx")
    assert result.output.endswith("[134464 more bytes]\n")
    assert run_command("printf '\\377'", tmp_path).output == "\ufffd"


@needs_bash
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_quickstart_can_be_recorded_again(tmp_path: Path) -> None:
    """Same turns, same commands, same return codes; times and durations may differ."""
    out = tmp_path / "again.jsonl"
    save(out, record_set(DATA / "quickstart-script.yaml"))
    recorded, again = (
        [
            (turn.recorded, [message.content.splitlines()[0] for message in turn.messages])
            for one in read_replay(path).conversations
            for turn in one.turns
        ]
        for path in (DATA / "quickstart.jsonl", out)
    )
    assert recorded == again


def test_a_bad_script_is_one_line(tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text("system: x\nfiles: {}\nsessions: 3\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        record_set(script)
    assert "\n" not in str(caught.value)
    assert str(script) in str(caught.value)


@needs_bash
def test_a_folder_is_recorded_in_a_copy(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\n")
    (project / "link").symlink_to("a.txt")
    os.mkfifo(project / "pipe")
    script = SessionScript(
        "copy", "Change it.", [Step("", "echo two >> link; cat a.txt; ls")], "Ok."
    )
    steps: list[str] = []
    rows = record_folder(project, script, "", on_step=steps.append)
    assert (project / "a.txt").read_text() == "one\n"
    assert "one\ntwo\na.txt\nlink\n" in rows[2].tool_results[0].content  # type: ignore[union-attr]
    assert isinstance(rows[1], AssistantRow)
    assert rows[1].reasoning_content is None
    assert [step.split(":")[0] for step in steps] == ["copy 1/1"]


@needs_bash
@pytest.mark.parametrize("where", ["task", "command", "output", "answer"])
def test_the_recorded_folder_is_named_nowhere(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text(f"here: {tmp_path}/x\n")
    texts = {"task": "Go.", "command": "true", "output": "true", "answer": "Gone."}
    texts[where] = f"ls {tmp_path}"
    command = "cat file" if where == "output" else texts["command"]
    script = SessionScript("leak", texts["task"], [Step("", command)], texts["answer"])
    with pytest.raises(DataError, match=rf"leak.*{where}.*names"):
        record_folder(tmp_path, script, "")


@needs_bash
def test_only_a_whole_word_names_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "test")
    record_session(SessionScript("s", "x", [Step("", "echo tests my-test")], "y"), "", tmp_path)
    with pytest.raises(DataError, match="names 'test'"):
        record_session(SessionScript("s", "x", [Step("", "echo user@test")], "y"), "", tmp_path)


@needs_bash
def test_saving_adds_or_leaves_everything_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "set.jsonl"
    rows = record_session(SessionScript("one", "x", [], "y"), "", tmp_path)
    save(out, rows)
    out.write_bytes(out.read_bytes().rstrip(b"\n"))
    more = record_session(SessionScript("two", "x", [], "y"), "", tmp_path)
    assert [one.id for one in save(out, more, append=True).conversations] == ["one", "two"]
    before = out.read_bytes()
    with pytest.raises(DataError, match=rf"{out}:5: conversation 'one': starts a second time"):
        save(out, rows, append=True)
    assert out.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["set.jsonl"]
