from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from edge_runner.cli.runs import app
from edge_runner.errors import UsageError
from edge_runner.results.run_folder import RunFolder
from edge_runner.results.schema import RunRecord
from edge_runner.results.summary import summarize, write_summary
from edge_runner.sessions import TurnOutcome

MakeOutcome = Callable[..., TurnOutcome]
MakeRun = Callable[..., tuple[RunFolder, RunRecord]]

runner = CliRunner()


def output_of(*args: str) -> str:
    result = runner.invoke(app, args, catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_list_and_show(make_run: MakeRun, make_outcome: MakeOutcome) -> None:
    folder, run = make_run([make_outcome(turn=1), make_outcome(turn=2)])
    write_summary(folder, summarize(folder, run))
    runs = str(folder.path.parent)
    assert folder.path.name in output_of("list", "--runs-dir", runs)
    for name in ("latest", folder.path.name, str(folder.path)):
        assert "2 of 2 completed" in output_of("show", name, "--runs-dir", runs)
    shown = output_of("show", "latest", "--runs-dir", runs, "--turns", "1")
    assert "and 1 more" in shown


def test_json_is_the_files_bytes(make_run: MakeRun, make_outcome: MakeOutcome) -> None:
    folder, run = make_run([make_outcome()])
    write_summary(folder, summarize(folder, run))
    result = runner.invoke(app, ["show", str(folder.path), "--json"])
    assert result.stdout_bytes == folder.summary.read_bytes()


def test_a_killed_run_is_shown_and_left_as_it_is(
    make_run: MakeRun, make_outcome: MakeOutcome
) -> None:
    folder, _ = make_run([make_outcome()], status="running", expected_turns=5)
    assert "4 not issued" in output_of("show", str(folder.path))
    document = json.loads(output_of("show", str(folder.path), "--json"))
    assert document["turns"]["completed"] == 1
    assert not folder.summary.exists()


def test_a_damaged_run_is_listed(make_run: MakeRun) -> None:
    folder, _ = make_run([])
    folder.record_file.write_text("{")
    shown = output_of("list", "--runs-dir", str(folder.path.parent))
    assert folder.path.name in shown
    assert "damaged" in shown


def test_nothing_to_list_is_said_on_stderr(make_run: MakeRun) -> None:
    result = runner.invoke(app, ["list", "--runs-dir", "no-such-folder"])
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no run in no-such-folder" in result.stderr


def test_an_unknown_run_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="nowhere: not a run"):
        runner.invoke(app, ["show", "nowhere"], catch_exceptions=False)
