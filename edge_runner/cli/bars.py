"""Lines and moving bars on stderr. Without a terminal, a line at every tenth of the way."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

Unit = Literal["bytes", "turns"]

# Drawing takes time from the machine that is measured: twice a second is enough to see it move.
REFRESHES_PER_S = 2
STEPS = 10


class Bars:
    """One bar a label. All text is shown literally: names and errors come from outside."""

    def __init__(self) -> None:
        self._console = _stderr()
        self._silent = False
        self._progress: Progress | None = None
        self._unit: Unit | None = None
        self._tasks: dict[str, TaskID] = {}
        self._steps: dict[str, int] = {}

    def say(self, line: str) -> None:
        """Print one line, above the bars."""
        from edge_runner.results.table import visible

        line = visible(line)
        if self._console.is_terminal:
            self._console.print(line, markup=False, soft_wrap=True)
        elif not self._silent:
            # Rich takes most of a millisecond for a line, which on two cores is the worker's.
            try:
                sys.stderr.write(f"{line}\n")
                sys.stderr.flush()
            except BrokenPipeError:
                self._silent = True
                _read_by_nobody()

    def fetch(self, done_bytes: int, total_bytes: int, label: str) -> None:
        """How far a download or check is: a catalog.progress.OnProgress."""
        self.advance(done_bytes, total_bytes, label, "bytes")

    def advance(self, done: int, total: int, label: str, unit: Unit) -> None:
        if not self._console.is_terminal:
            self._step(done, total, label, unit)
            return
        progress = self._bars_for(unit)
        if label not in self._tasks:
            self._tasks[label] = progress.add_task(label, total=total)
        progress.update(self._tasks[label], completed=done, total=total)

    def reset(self) -> None:
        """Take finished bars away, so that their labels can be used again."""
        self._stop()
        self._steps.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def _step(self, done: int, total: int, label: str, unit: Unit) -> None:
        step = STEPS * done // max(total, 1)
        if step > self._steps.get(label, 0):
            self._steps[label] = step
            if unit == "turns" or step < STEPS:  # a fetch that is through says so itself
                shown = f"{done} of {total}" if unit == "turns" else f"{step * STEPS} %"
                self.say(f"{label}: {shown}")

    def _bars_for(self, unit: Unit) -> Progress:
        if self._progress is None or self._unit != unit:
            from rich.progress import (
                BarColumn,
                DownloadColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )

            self._stop()
            self._unit = unit
            self._progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                DownloadColumn() if unit == "bytes" else MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=self._console,
                refresh_per_second=REFRESHES_PER_S,
                transient=True,
            )
            self._progress.start()
        return self._progress

    def _stop(self) -> None:
        if self._progress is not None:
            self._progress.stop()
        self._progress = None
        self._tasks.clear()


def _stderr() -> Console:
    """A console that falls silent when nobody reads it any more; rich's own would end the program,
    and with it the run."""
    from rich.console import Console

    class Quiet(Console):
        def on_broken_pipe(self) -> None:
            self.quiet = True
            _read_by_nobody()

    return Quiet(stderr=True, highlight=False)


def _read_by_nobody() -> None:
    """Let what is still buffered for stderr go nowhere, or the interpreter's exit would fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stderr.fileno())
    os.close(nowhere)
