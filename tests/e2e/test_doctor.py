"""`edge-runner doctor` as typed, on this machine."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

from support import edge_runner

NO_HUB = {"HF_ENDPOINT": "http://127.0.0.1:9"}
CHECK_KEYS = {"area", "what", "state", "value", "advice", "exit_code"}


def test_the_lines_fit_80_columns_and_end_with_the_verdict(tmp_path: Path) -> None:
    env = {**NO_HUB, "EDGE_RUNNER_CACHE": str(tmp_path / "cache"), "COLUMNS": "80"}
    done = edge_runner("doctor", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1].startswith("ready")
    assert "PROBLEM" not in done.stdout
    assert not done.stderr
    assert not list(tmp_path.iterdir())  # looking changes nothing


def test_json_is_the_same_as_data(tmp_path: Path) -> None:
    env = {**NO_HUB, "EDGE_RUNNER_CACHE": str(tmp_path)}
    done = edge_runner("doctor", "--json", cwd=tmp_path, env=env)
    document = json.loads(done.stdout)
    assert done.returncode == document["exit_code"] == 0
    for check in document["checks"]:
        assert check.keys() == CHECK_KEYS
        assert check["state"] in {"ok", "note", "problem", "unavailable"}
        assert check["state"] == "ok" or check["advice"]
        assert "the check failed" not in check["value"]


def test_a_cache_that_is_no_folder_is_exit_4(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    env = {**NO_HUB, "EDGE_RUNNER_CACHE": str(file)}
    done = edge_runner("doctor", cwd=tmp_path, env=env)
    assert done.returncode == 4
    assert "is not a folder" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 problem")


def test_a_broken_engine_is_exit_3_and_breaks_nothing_else(tmp_path: Path) -> None:
    package = tmp_path / "modules/llama_cpp"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import os; os.abort()", encoding="utf-8")
    path = os.pathsep.join(filter(None, [str(package.parent), os.environ.get("PYTHONPATH")]))
    env = {**NO_HUB, "EDGE_RUNNER_CACHE": str(tmp_path / "cache"), "PYTHONPATH": path}
    done = edge_runner("doctor", "--json", cwd=tmp_path, env=env)
    document = json.loads(done.stdout)
    assert done.returncode == document["exit_code"] == 3
    problems = [check for check in document["checks"] if check["state"] == "problem"]
    assert [check["what"] for check in problems] == ["llama.cpp"]
    assert "SIGABRT" in problems[0]["value"]
    assert {check["area"] for check in document["checks"]} >= {"caches", "sensors", "noise"}


def test_a_hub_that_never_answers_does_not_hold_it_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        env = {
            "HF_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "EDGE_RUNNER_CACHE": str(tmp_path),
            "NO_PROXY": "127.0.0.1",
        }
        done = edge_runner("doctor", "--json", cwd=tmp_path, env=env)
    (hub,) = (check for check in json.loads(done.stdout)["checks"] if check["what"] == "hub")
    assert done.returncode == 0
    assert (hub["state"], "no answer within" in hub["value"]) == ("note", True)
