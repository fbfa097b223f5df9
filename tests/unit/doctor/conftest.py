"""A machine made of files, so that every state of every check can be met anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from edge_runner.doctor.check import Check
from edge_runner.doctor.machine import Machine

MakeMachine = Callable[..., Machine]


@pytest.fixture
def machine(tmp_path: Path) -> MakeMachine:
    """`machine({"proc/stat": "..."}, system="Linux", environ={...})`."""

    def make(
        tree: Mapping[str, object] | None = None,
        *,
        system: str = "Linux",
        environ: Mapping[str, str] | None = None,
    ) -> Machine:
        root = tmp_path / "root"
        root.mkdir(exist_ok=True)
        for name, text in (tree or {}).items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(str(text), encoding="utf-8")
        return Machine(root, environ if environ is not None else {}, system)

    return make


@pytest.fixture
def forbid(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let reading of files with a name fail for want of permission (root is stopped by none)."""
    read_text = Path.read_text

    def forbid_name(name: str) -> None:
        def reading(path: Path, *args: Any, **kwargs: Any) -> str:
            if path.name == name:
                raise PermissionError(13, "Permission denied", str(path))
            return read_text(path, *args, **kwargs)

        monkeypatch.setattr(Path, "read_text", reading)

    return forbid_name


@pytest.fixture
def lines() -> Callable[[Iterable[Check]], dict[str, Check]]:
    """The checks by name; whatever is not ok must say what to do."""

    def by_name(checks: Iterable[Check]) -> dict[str, Check]:
        found = list(checks)
        for check in found:
            assert check.value
            assert (check.state == "ok") == (not check.advice), check
            assert (check.state == "problem") == bool(check.exit_code), check
        named = {check.what: check for check in found}
        assert len(named) == len(found)
        return named

    return by_name
