"""How fetching tells its caller what it does: lines for people, and bytes for a moving bar."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

Report = Callable[[str], None]
"""Gets one line of plain text."""

WATCH_INTERVAL_S = 0.2


class OnProgress(Protocol):
    """Called often, from any thread, with bytes that never go backwards within one label."""

    def __call__(self, done_bytes: int, total_bytes: int, label: str, /) -> None: ...


def silent(_line: str) -> None:
    """A Report that drops everything."""


class FolderWatch:
    """Calls `on_size` with a folder's total bytes while another program fills it."""

    def __init__(self, folder: Path, on_size: Callable[[int], None]) -> None:
        self._folder = folder
        self._on_size = on_size
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="folder-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(WATCH_INTERVAL_S):
            self._on_size(folder_bytes(self._folder))


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below `folder`; files that vanish meanwhile count as nothing."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(parent, name).stat().st_size
    return total
