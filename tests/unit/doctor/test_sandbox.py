"""Only a probe that really ran earns the level `namespace`."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from edge_runner.doctor import sandbox
from edge_runner.doctor.machine import Machine

pytestmark = pytest.mark.skipif(os.name != "posix", reason="scripts as commands")


@pytest.fixture
def bwrap(tmp_path: Path, machine: Any) -> Any:
    """A machine where `bwrap` is this shell script, alone on the path."""

    def make(script: str, tree: dict[str, str] | None = None) -> Machine:
        folder = tmp_path / "bin"
        folder.mkdir()
        path = folder / "bwrap"
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        made: Machine = machine(tree, environ={"PATH": str(folder)})
        return made

    return make


def test_a_probe_that_works(bwrap: Any, lines: Any) -> None:
    made = bwrap('[ "$1" = --ro-bind ] && echo "$@" | /bin/grep -q -- "--unshare-all"')
    check = lines(sandbox.level(made))["level"]
    assert check.state == "ok"
    assert check.value.startswith("namespace:")


@pytest.mark.parametrize(
    ("setting", "value", "lift"),
    [
        ("proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces"),
        ("proc/sys/kernel/unprivileged_userns_clone", "0", "unprivileged_userns_clone=1"),
        ("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor"),
        ("proc/sys/kernel/unprivileged_userns_clone", "1", "seccomp"),
    ],
)
def test_a_probe_that_fails_says_what_would_lift_it(
    bwrap: Any, lines: Any, setting: str, value: str, lift: str
) -> None:
    made = bwrap(
        "echo 'bwrap: No permissions to create new namespace' >&2; exit 1", {setting: value}
    )
    check = lines(sandbox.level(made))["level"]
    assert check.state == "note"
    assert check.value.startswith("process only:")
    assert "No permissions to create new namespace" in check.value
    assert lift in check.advice
    assert "will not run unless you allow it" in check.advice


def test_a_probe_that_hangs(bwrap: Any, lines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "LIMIT_S", 0.3)
    check = lines(sandbox.level(bwrap("/bin/sleep 99")))["level"]
    assert "no answer in time" in check.value


def test_a_program_that_cannot_be_started(bwrap: Any, lines: Any) -> None:
    made = bwrap("")
    Path(made.environ["PATH"], "bwrap").write_bytes(b"\x7fELF is broken")
    check = lines(sandbox.level(made))["level"]
    assert (check.state, "cannot be started" in check.value) == ("note", True)


def test_without_bubblewrap(machine: Any, lines: Any, tmp_path: Path) -> None:
    check = lines(sandbox.level(machine(environ={"PATH": str(tmp_path)})))["level"]
    assert "not installed" in check.value
    assert "apt install bubblewrap" in check.advice
    check = lines(sandbox.level(machine(system="Darwin")))["level"]
    assert check.value == "process only: no bubblewrap on Darwin"


@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("bwrap") is None, reason="bubblewrap is not installed"
)
def test_the_real_one_gives_an_answer(lines: Any) -> None:
    value = lines(sandbox.level(Machine()))["level"].value
    assert value.startswith(("namespace: bubblewrap works", "process only: bubblewrap fails"))
