"""The model cache: can it be written, and is there room for the quickstart's model?"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import yaml

from edge_runner.catalog import cache, find, state
from edge_runner.catalog.entry import Entry
from edge_runner.catalog.partial import format_bytes
from edge_runner.catalog.progress import folder_bytes
from edge_runner.doctor.check import Check, note, ok, problem
from edge_runner.doctor.machine import Machine
from edge_runner.errors import AssetError

QUICKSTART = "agentic-quickstart.yaml"
OFFLINE_SWITCHES = ("EDGE_RUNNER_OFFLINE", "HF_HUB_OFFLINE")
SPACE_FACTOR = 1.25
"""A part of the model lies on the disk twice while it is joined."""


def folder(machine: Machine) -> Iterator[Check]:
    """Where the cache is, whether it can be written, what lies in it."""
    root = cache.root()
    origin = " (EDGE_RUNNER_CACHE)" if machine.environ.get("EDGE_RUNNER_CACHE") else ""
    why = _why_not_writable(root)
    if why:
        yield problem(
            "folder",
            f"{root}{origin}: {why}",
            "set EDGE_RUNNER_CACHE to a folder that can be written",
            AssetError,
        )
        return
    size = format_bytes(sum(folder_bytes(root / kind) for kind in ("models", "data")))
    yield ok("folder", f"{root}{origin}; {size} in it, can be written")
    leftover = {path: folder_bytes(path) for path in sorted(root.glob("*/.partial/*"))}
    if any(leftover.values()):
        names = ", ".join(f"{path.name} ({format_bytes(n)})" for path, n in leftover.items() if n)
        yield note(
            "unfinished",
            f"interrupted fetches: {names}",
            f"`edge-runner models pull NAME` continues one; or delete {root}/*/.partial",
        )


def model(machine: Machine) -> Iterator[Check]:
    """The quickstart's model: there, or room for it and leave to fetch it."""
    wanted = quickstart_model()
    size = format_bytes(wanted.bytes)
    switches = offline_switches(machine)
    present = state(wanted) != "absent"
    if present:
        yield ok("model", f"{wanted.name} is here ({size})")
    elif switches:
        yield problem(
            "model",
            f"{wanted.name} is not here, and {', '.join(switches)} forbids fetching it",
            f"unset {' and '.join(switches)}, then: edge-runner models pull {wanted.name}",
            AssetError,
        )
    else:
        yield note(
            "model",
            f"{wanted.name} is not here yet ({size})",
            f"the first run fetches it; or now: edge-runner models pull {wanted.name}",
        )
    if _why_not_writable(cache.root()):
        return
    free_bytes = shutil.disk_usage(_nearest(cache.root())).free
    if free_bytes >= wanted.bytes * SPACE_FACTOR:
        yield ok("disk", f"{format_bytes(free_bytes)} free")
        return
    value = f"{format_bytes(free_bytes)} free, a model like {wanted.name} takes {size}"
    advice = "free some, or set EDGE_RUNNER_CACHE to a folder on a larger disk"
    if present:
        yield note("disk", value, advice)
    else:
        yield problem("disk", value, advice, AssetError)


def quickstart_model() -> Entry:
    """The catalog entry that the shipped quickstart configuration names."""
    text = files("edge_runner.configs").joinpath(QUICKSTART).read_text(encoding="utf-8")
    return find("models", yaml.safe_load(text)["generator"]["model"])


def offline_switches(machine: Machine) -> list[str]:
    """Those environment variables that are set to forbid fetching."""
    off = {"", "0", "false", "no", "off"}
    return [name for name in OFFLINE_SWITCHES if machine.environ.get(name, "").lower() not in off]


def _why_not_writable(root: Path) -> str:
    """Tried with an unnamed file: permission bits tell neither root nor a read-only disk."""
    where = _nearest(root)
    if not where.is_dir():
        return f"{where} is not a folder"
    try:
        with tempfile.TemporaryFile(dir=where) as file:
            file.write(b"x")
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


def _nearest(path: Path) -> Path:
    """The path, or the nearest parent that exists: it would be made there."""
    return next((each for each in (path, *path.parents) if os.path.lexists(each)), path)
