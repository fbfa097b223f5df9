"""What the command shows on stderr while models and data are fetched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edge_runner.catalog.progress import OnProgress, Report


@contextmanager
def fetch_display() -> Iterator[tuple[Report, OnProgress]]:
    """A (report, progress) pair for the catalog: lines and a moving bar on stderr."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    tasks: dict[str, TaskID] = {}

    def report(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    def on_progress(done_bytes: int, total_bytes: int, label: str) -> None:
        if label not in tasks:
            tasks[label] = bar.add_task(label, total=total_bytes)
        bar.update(tasks[label], completed=done_bytes)

    with bar:
        yield report, on_progress
