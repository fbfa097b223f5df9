"""One bad check costs its own line only; the exit code says what must be mended first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from threading import Event
from typing import Any

from edge_runner.doctor.check import Check, note, ok, problem
from edge_runner.doctor.examine import Probe, examine
from edge_runner.doctor.machine import Machine
from edge_runner.errors import AssetError


def probe(*checks: Check, area: str = "area", what: str = "what") -> Probe:
    return Probe(area, what, lambda _: checks)


def test_a_hanging_and_a_failing_check_cost_only_their_line(machine: Any) -> None:
    release = Event()

    def hang(_: Machine) -> list[Check]:
        release.wait()
        return []

    def fail(_: Machine) -> Iterator[Check]:
        yield ok("first", "fine")
        raise KeyError("MemTotal")

    found = examine(
        machine(),
        [
            Probe("one", "hangs", hang, limit_s=0.05),
            Probe("two", "fails", fail),
            probe(ok("works", "yes"), area="two"),
        ],
    )
    release.set()
    assert [check.what for check in found.areas["one"]] == ["hangs"]
    assert found.areas["one"][0].state == "unavailable"
    assert "no answer within 0.05 s" in found.areas["one"][0].value
    fails, works = found.areas["two"]
    assert fails.state == "unavailable"
    assert "KeyError: 'MemTotal'" in fails.value
    assert works.value == "yes"
    assert found.exit_code == 0


def test_the_verdict_counts_and_the_exit_code_is_the_first_thing_to_mend(machine: Any) -> None:
    missing = problem("engine", "missing", "install it")
    full = problem("disk", "full", "free some", AssetError)
    noisy = note("load", "9", "wait")
    for checks, verdict, code in [
        ([ok("a", "b")], "ready, 0 notes", 0),
        ([ok("a", "b"), noisy], "ready, 1 note", 0),
        ([full, noisy, noisy], "1 problem, 2 notes", 4),
        ([full, missing], "2 problems, 0 notes", 3),
    ]:
        found = examine(machine(), [probe(*checks)])
        assert (found.verdict, found.exit_code) == (verdict, code)


def test_json_has_one_object_a_line_in_order(machine: Any) -> None:
    found = examine(
        machine(), [probe(ok("a", "1"), area="x"), probe(note("b", "2", "do"), area="y")]
    )
    document = json.loads(json.dumps(found.as_json()))
    assert document["format"] == 1
    assert document["verdict"] == "ready, 1 note"
    assert document["checks"] == [
        {"area": "x", "what": "a", "state": "ok", "value": "1", "advice": "", "exit_code": 0},
        {"area": "y", "what": "b", "state": "note", "value": "2", "advice": "do", "exit_code": 0},
    ]


def test_a_machine_that_tells_nothing_is_examined_all_the_same(machine: Any, lines: Any) -> None:
    found = examine(machine(system="Plan9", environ={"EDGE_RUNNER_OFFLINE": "1", "PATH": ""}))
    for checks in found.areas.values():
        lines(checks)
    failed = [
        check.value
        for checks in found.areas.values()
        for check in checks
        if "the check failed" in check.value
    ]
    assert not failed
    assert list(found.areas) == [
        "installed", "devices", "caches", "sources", "sensors", "limits", "sandbox", "noise",
    ]  # fmt: skip
