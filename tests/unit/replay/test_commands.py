"""The executables' multiset IoU."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runner.messages import ToolCall
from edge_runner.workloads.commands import (
    _without_quoted,
    command_iou,
    executables,
    executables_of,
    run_score,
)
from edge_runner.workloads.replay_data import read_replay


def bash(command: str) -> ToolCall:
    return ToolCall("c", "bash", json.dumps({"command": command}))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat a | head -5", ["cat", "head"]),
        ("cd /x && python -m pytest; ls || true", ["python", "ls", "true"]),
        ("grep 'a | wc' f", ["grep"]),
        ('grep "a; wc" f && `date` ls', ["grep", "ls"]),
        ("A=1 B='x y' sudo env PATH=/bin time rg foo", ["grep"]),
        ("/usr/bin/Python3.11 -V\npython3.11.4 x\nPIP3 list", ["python", "python", "pip"]),
        (". ./env.sh; source x", ["source", "source"]),
        ("sphinx-build . out; sphinx x", ["sphinx"]),
        ("echo hi; pwd; cd; ./run.sh", []),
        ("less a; more b; gawk x; locate y; wget z", ["cat", "cat", "awk", "find", "curl"]),
        ("apt-get install x & yum y", ["apt"]),
        ("echo it's; ls", ["ls"]),
        ('echo "a \\" ; wc" | sort', ["sort"]),
        ("FOO=1", []),
        ("sudo", []),
        ("ls/", []),
        ("", []),
        ("find . -exec grep x {} \\;", ["find"]),
    ],
)
def test_executables(command: str, expected: list[str]) -> None:
    assert sorted(executables(command).elements()) == sorted(expected)


def test_only_bash_calls_with_an_object_of_text_count() -> None:
    calls = [
        ToolCall("1", "python", '{"command": "ls"}'),
        ToolCall("2", "bash", '{"command": "ls"'),
        ToolCall("3", "bash", "[1]"),
        ToolCall("4", "bash", '{"command": 3}'),
        ToolCall("5", "bash", "[" * 100_000),
        ToolCall("6", "bash", '{"cmd": "wc"}'),
        ToolCall("7", "bash", '{"command": "", "cmd": "sed"}'),
    ]
    assert executables_of(calls) == {"wc": 1, "sed": 1}


def test_iou_is_over_multisets_of_all_calls_of_the_turn() -> None:
    recorded = (bash("cat a; cat b"), bash("ls"))
    assert command_iou(recorded, recorded) == 1.0
    assert command_iou(recorded, (bash("cat a | wc"),)) == pytest.approx(1 / 4)
    assert command_iou(recorded, ()) == 0.0
    assert command_iou((bash("echo"),), recorded) is None


def test_run_score_is_the_rounded_mean_over_scorable_turns() -> None:
    assert run_score([1.0, None, 0.0, 0.0]) == 0.3333
    assert run_score([None]) is None


def test_known_values_on_the_official_set(official: Path) -> None:
    always = (bash("python"),)
    same: list[float | None] = []
    previous: list[float | None] = []
    python: list[float | None] = []
    for conversation in read_replay(official).conversations:
        before: tuple[ToolCall, ...] = ()
        for turn in conversation.turns:
            assert turn.recorded is not None
            calls = turn.recorded.tool_calls
            same.append(command_iou(calls, calls))
            previous.append(command_iou(calls, before))
            python.append(command_iou(calls, always))
            before = calls
    assert len(same) == 1007
    assert sum(score is not None for score in same) == 1006
    assert (run_score(same), run_score(previous), run_score(python)) == (1.0, 0.3235, 0.2625)


SHELL_TEXT = st.text(alphabet="'\"`\\ ab|;&\n=./", max_size=60)


@given(SHELL_TEXT)
def test_one_pass_removes_what_the_plain_pattern_removes(command: str) -> None:
    plain = re.sub(r"""'[^']*'|"(?:[^"\\]|\\.)*"|`[^`]*`""", " ", command, flags=re.DOTALL)
    assert _without_quoted(command) == plain


@given(st.text() | SHELL_TEXT)
def test_any_command_is_parsed(command: str) -> None:
    assert executables(command).total() <= len(command)


JSON_TEXT = st.recursive(
    st.none() | st.booleans() | st.integers() | SHELL_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["command", "cmd"]), inner),
).map(json.dumps)


@given(st.text() | JSON_TEXT)
def test_any_arguments_are_scored(arguments: str) -> None:
    score = command_iou((bash("ls"),), (ToolCall("c", "bash", arguments),))
    assert score is not None
    assert 0 <= score <= 1
