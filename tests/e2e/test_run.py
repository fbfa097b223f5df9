"""`edge-runner run` as typed: real LoadGen, real processes, the scripted engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from support import command, edge_runner


@pytest.fixture
def config_file(tmp_path: Path, scripted_config: Any) -> Any:
    def write(*args: Any, **changes: Any) -> Path:
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump(scripted_config(*args, **changes)), encoding="utf-8")
        return path

    return write


def run(config: Path, *more: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    out = config.parent / "out"
    done = edge_runner("run", str(config), "--out", str(out), "--json", *more, cwd=config.parent)
    summary = json.loads(done.stdout) if done.stdout else {}
    return done, summary


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
    return [event for line in lines if (event := json.loads(line))["type"] == kind]


def test_a_run_measures_every_turn_once(config_file: Any) -> None:
    done, summary = run(config_file({"one": 3, "two": 4}))
    assert done.returncode == 0, done.stderr
    assert summary["status"] == "completed"
    assert summary["turns"] == summary["turns"] | {
        "expected": 7, "issued": 7, "completed": 7, "empty": 0, "failed": 0, "repeated": 0,
    }  # fmt: skip
    order = [(row["session"], row["turn"]) for row in summary["per_turn"]]
    assert order == [("one", 1), ("one", 2), ("one", 3)] + [("two", at) for at in (1, 2, 3, 4)]
    for row in summary["per_turn"]:
        assert sum(row["ledger_ns"].values()) == row["latency_ns"]
        assert row["tokens"]["cached"] + row["tokens"]["evaluated"] == row["tokens"]["prompt"]
    assert summary["scores"]["command_iou"] == 1.0
    assert not summary["standing"]["verified"]


def test_loadgen_and_we_agree_on_the_latency(config_file: Any) -> None:
    _, summary = run(config_file({"one": 5}, [{"decode_tps": 400}]))
    assert summary["verdict"]["loadgen"] == "INVALID"  # 5 queries: too few, and it says so
    assert any("early stopping" in reason for reason in summary["verdict"]["reasons"])
    assert summary["cross_check"]["clock_mismatch"] is False
    assert summary["cross_check"]["largest_difference_ns"] < 1_000_000


def test_the_run_folder_holds_everything(config_file: Any) -> None:
    config = config_file({"one": 2})
    _, summary = run(config)
    folder = config.parent / "out"
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert record["status"] == "completed"
    assert record["config"]["workload"]["turn_timeout_s"] == 600
    assert record["settings"]["samples"] == 2
    assert record["data"]["sha256"]
    assert json.loads((folder / "summary.json").read_text(encoding="utf-8")) == summary
    assert "Result is" in (folder / "loadgen/mlperf_log_summary.txt").read_text(encoding="utf-8")
    outputs = (folder / "outputs.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["turn"] for line in outputs] == [1, 2]


def test_accuracy_mode_issues_each_turn_once_and_loadgen_judges_nothing(config_file: Any) -> None:
    config = config_file({"one": 2, "two": 3}, mode="accuracy")
    done, summary = run(config)
    assert done.returncode == 0, done.stderr
    assert (summary["mode"], summary["turns"]["issued"]) == ("accuracy", 5)
    assert summary["verdict"]["loadgen"] is None
    log = (config.parent / "out/loadgen/mlperf_log_accuracy.json").read_text(encoding="utf-8")
    payloads = [json.loads(bytes.fromhex(row["data"])) for row in json.loads(log)]
    assert {(row["session"], row["turn"]) for row in payloads} == {
        ("one", 1), ("one", 2), ("two", 1), ("two", 2), ("two", 3),
    }  # fmt: skip


def test_with_unit_session_a_query_is_a_whole_session(config_file: Any) -> None:
    config = config_file({"one": 3, "two": 4}, [{"decode_tps": 500}], scenario={"unit": "session"})
    done, summary = run(config)
    assert done.returncode == 0, done.stderr
    assert (summary["turns"]["issued"], summary["query_latency_ns"]["n"]) == (7, 2)
    assert summary["query_latency_ns"]["min"] > 2 * summary["latency_ns"]["max"]
    assert summary["cross_check"]["largest_difference_ns"] < 1_000_000


def test_a_failed_turn_is_counted_and_the_rest_of_its_session_not_issued(config_file: Any) -> None:
    config = config_file({"one": 4, "two": 2}, [{"session": "one", "turn": 2, "fail": "raise"}])
    done, summary = run(config)
    assert done.returncode == 5
    turns = summary["turns"]
    assert (turns["expected"], turns["issued"], turns["failed"]) == (6, 4, 1)
    assert summary["verdict"]["ours"] == "INVALID"
    assert summary["latency_ns"]["n"] == 3  # a failed turn is never a latency
    assert "scripted failure" in summary["failures"][0]["error"]
    assert turns["repeated"] == 2  # LoadGen's count was kept with real turns, marked as repeats


def test_empty_turns_are_apart_and_have_no_ttft(config_file: Any) -> None:
    done, summary = run(config_file({"one": 3}, [{"turn": 2, "fail": "empty"}]))
    assert done.returncode == 0
    assert (summary["turns"]["completed"], summary["turns"]["empty"]) == (2, 1)
    assert summary["verdict"]["ours"] == "INVALID"  # a third of the turns is above 5 %
    assert summary["ttft_ns"]["n"] == 2


def test_an_engine_that_hangs_ends_the_run_with_the_turn_failed(config_file: Any) -> None:
    config = config_file(
        {"one": 3},
        [{"turn": 2, "fail": "hang", "at_token": 1}],
        workload={"turn_timeout_s": 0.5},
    )
    done, summary = run(config)
    assert done.returncode == 5
    assert (summary["status"], summary["turns"]["failed"]) == ("failed", 1)
    assert "did not come back" in done.stderr


def test_a_turn_past_its_deadline_fails(config_file: Any) -> None:
    config = config_file(
        {"one": 3}, [{"turn": 2, "decode_tps": 1}], workload={"turn_timeout_s": 0.2}
    )
    done, summary = run(config)
    assert done.returncode == 5
    assert "deadline" in summary["failures"][0]["error"]


def test_an_engine_that_exits_is_a_failed_turn_with_the_trace_kept(config_file: Any) -> None:
    config = config_file({"one": 3}, [{"turn": 2, "fail": "exit"}])
    done, summary = run(config)
    assert done.returncode == 5
    assert "exit code 70" in done.stderr
    assert "Traceback" not in done.stderr
    assert (summary["turns"]["completed"], summary["turns"]["failed"]) == (1, 1)


def test_a_conversation_longer_than_the_context_fails_that_turn(config_file: Any) -> None:
    config = config_file({"one": 12}, device={"context_tokens": 330})
    done, summary = run(config)
    assert done.returncode == 5
    assert "context" in summary["failures"][0]["error"]


def test_recorded_delays_lie_outside_every_latency(tmp_path: Path, write_replay: Any) -> None:
    data = write_replay({"one": 3}, delay_s=0.2)
    config = tmp_path / "config.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "name": "delays",
                "kind": "agentic-replay",
                "workload": {"data": str(data), "tool_delay": "honour"},
                "device": {"kind": "scripted"},
            }
        )
    )
    _, summary = run(config)
    assert summary["gap_ns"]["recorded_delay"] >= 400_000_000
    assert summary["latency_ns"]["max"] < 200_000_000


SLOW = [{"decode_tps": 20}]


@pytest.fixture
def started(config_file: Any) -> Iterator[Any]:
    """A slow run in progress: its first turn is measured."""
    processes: list[subprocess.Popen[str]] = []

    def start() -> tuple[subprocess.Popen[str], Path]:
        config = config_file({"one": 40}, SLOW)
        out = config.parent / "out"
        process = subprocess.Popen(
            command("run", str(config), "--out", str(out), "--json"),
            cwd=config.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        wait_for_turns(out, 1)
        return process, out

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def wait_for_turns(folder: Path, count: int) -> None:
    """Until the run has written that many turns (a watched file: there is nothing to wait on)."""
    tick = threading.Event()
    for _ in range(600):
        path = folder / "events.jsonl"
        if path.exists() and path.read_bytes().count(b'{"type":"turn"') >= count:
            return
        tick.wait(0.05)
    raise AssertionError("the run never measured a turn")


def test_ctrl_c_keeps_what_was_measured(started: Any) -> None:
    process, out = started()
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    summary = json.loads(stdout)
    assert summary["status"] == "aborted"
    assert summary["turns"]["completed"] >= 1
    assert summary["turns"]["aborted"] == 1
    assert summary["latency_ns"]["n"] == summary["turns"]["completed"]
    assert "Traceback" not in stderr
    assert json.loads((out / "run.json").read_text())["status"] == "aborted"


def test_ctrl_c_in_the_last_turn_is_a_stop_as_well(config_file: Any) -> None:
    config = config_file({"one": 2}, [{"turn": 2, "decode_tps": 1}])
    out = config.parent / "out"
    process = subprocess.Popen(
        command("run", str(config), "--out", str(out), "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for_turns(out, 1)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    summary = json.loads(stdout)
    assert (summary["status"], summary["turns"]["aborted"]) == ("aborted", 1)
    assert summary["query_latency_ns"]["n"] == 1  # the stopped turn is nobody's latency


def test_a_hang_in_the_warm_up_ends_the_run(config_file: Any) -> None:
    config = config_file({"one": 2}, [{"fail": "hang"}], workload={"turn_timeout_s": 0.5})
    done, summary = run(config)
    assert done.returncode == 5
    assert "warm-up: the engine did not come back" in done.stderr
    assert (summary["status"], summary["turns"]["issued"]) == ("failed", 0)


def test_a_stop_during_a_hanging_warm_up_ends_the_worker(config_file: Any) -> None:
    config = config_file({"one": 2}, [{"session": "warm-up", "fail": "hang"}])
    out = config.parent / "out"
    process = subprocess.Popen(
        command("run", str(config), "--out", str(out), "--json"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    while "warming up" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert json.loads((out / "run.json").read_text())["status"] == "aborted"


def test_an_engine_that_never_answers_does_not_fill_600_seconds(config_file: Any) -> None:
    config = config_file(
        {"one": 2, "two": 2},
        [{"session": "one", "fail": "raise"}, {"session": "two", "fail": "raise"}],
        scenario={"preset": "mlperf"},
    )
    done, summary = run(config)
    assert done.returncode == 5
    assert "none of the first 4 queries was answered" in done.stderr
    assert summary["turns"]["failed"] == 2


def test_the_watcher_may_go_away(config_file: Any) -> None:
    config = config_file({"one": 30}, [{"decode_tps": 400}])
    out = config.parent / "out"
    typed = " ".join(command("run", str(config), "--out", str(out), "--json"))
    subprocess.run(["bash", "-c", f"{typed} 2>&1 >/dev/null | head -1"], check=False, timeout=120)
    assert json.loads((out / "run.json").read_text())["status"] == "completed"


def test_kill_9_of_the_worker_fails_the_turn_in_flight(started: Any) -> None:
    process, out = started()
    (worker,) = psutil.Process(process.pid).children()
    worker.kill()
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 5, stderr
    summary = json.loads(stdout)
    assert (summary["status"], summary["turns"]["failed"]) == ("failed", 1)
    assert summary["turns"]["completed"] >= 1
    assert "SIGKILL" in stderr
    assert events(out, "turn")[-1]["status"] == "failed"


def test_a_worker_whose_parent_is_gone_ends(started: Any) -> None:
    process, out = started()
    (worker,) = psutil.Process(process.pid).children()
    process.kill()
    worker.wait(timeout=30)
    assert events(out, "run")[-1]["data"]["status"] == "aborted"


def test_ctrl_c_before_anything_runs(config_file: Any) -> None:
    config = config_file({"one": 2})
    text = config.read_text(encoding="utf-8")
    fifo = config.parent / "waiting.jsonl"
    os.mkfifo(fifo)
    config.write_text(text.replace("replay.jsonl", "waiting.jsonl"), encoding="utf-8")
    process = subprocess.Popen(
        command("run", str(config), "--out", str(config.parent / "out")),
        stderr=subprocess.PIPE,
        text=True,
    )
    with fifo.open("w"):  # opens once the command reads: it is past its imports and still preparing
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert not (config.parent / "out").exists()


@pytest.mark.parametrize(
    ("sets", "code", "said"),
    [
        (["workload.sesions=1"], 2, "did you mean 'sessions'"),
        (["generation.max_tokens=many"], 2, "generation.max_tokens"),
        (["generation.max_tokens=0"], 2, "greater than or equal to 1"),
        (["kind=agentic-reply"], 2, "did you mean 'agentic-replay'"),
        (["device.kind=cuda"], 2, "installed: llama-cpp, scripted"),
        (["device.kind=llama-cpp", "device.script=null"], 2, "script"),
        (["workload.sessions=9"], 2, "has only 1"),
        (["scenario.preset=mlperf", "workload.sessions=1"], 2, "use preset quick"),
        (["scenario.unit=week"], 2, "scenario.unit"),
        (["workload"], 2, "key=value"),
        (["workload.data=absent.jsonl"], 4, "absent.jsonl"),
        (["workload.data=absent"], 4, "absent"),
    ],
)
def test_bad_input_is_one_line_and_the_right_code(
    config_file: Any, sets: list[str], code: int, said: str
) -> None:
    config = config_file({"one": 2})
    flags = [part for item in sets for part in ("--set", item)]
    done, _ = run(config, *flags)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (config.parent / "out").exists()


def test_a_bad_row_names_file_and_line(config_file: Any) -> None:
    config = config_file({"one": 2})
    data = config.parent / "replay.jsonl"
    lines = data.read_text(encoding="utf-8").splitlines()
    del lines[1]
    data.write_text("\n".join(lines), encoding="utf-8")
    done, _ = run(config)
    assert done.returncode == 4
    assert "replay.jsonl:2" in done.stderr


def test_foreign_text_in_errors_is_shown_literally(config_file: Any) -> None:
    done, _ = run(config_file({"one": 2}), "--set", "workload.data=a\x1b[31m\nb.jsonl")
    assert done.returncode in (2, 4)
    assert "\x1b" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_folder_in_use_is_refused(config_file: Any) -> None:
    config = config_file({"one": 2})
    (config.parent / "out").mkdir()
    (config.parent / "out/precious").write_text("mine", encoding="utf-8")
    done, _ = run(config)
    assert done.returncode == 2
    assert (config.parent / "out/precious").read_text(encoding="utf-8") == "mine"


def test_the_table_fits_80_columns_and_starts_with_what_failed(config_file: Any) -> None:
    config = config_file({"one": 4}, [{"turn": 3, "fail": "raise"}])
    done = edge_runner("run", str(config), cwd=config.parent, env={"COLUMNS": "80"})
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("failed" in line for line in lines[:8])
    assert "not verified by MLCommons Association" in done.stdout
