"""The list of packages in pyproject.toml is complete, and so is what the wheel carries."""

from __future__ import annotations

import tomllib

from support import ROOT

MAPPED = ("agents", "configs", "devices", "rag", "tui", "workloads")


def test_every_package_is_listed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folders = set()
    for top in ("edge_runner", *MAPPED):
        for init in (ROOT / top).rglob("__init__.py"):
            parts = init.parent.relative_to(ROOT).parts
            if not all(part.isidentifier() for part in parts):
                continue  # a recorded project among the data, not part of ours
            name = ".".join(parts)
            folders.add(name if top == "edge_runner" else f"edge_runner.{name}")

    assert set(settings["tool"]["setuptools"]["packages"]) == folders
