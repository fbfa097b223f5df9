"""What a person sees while a run goes on: phases, a progress bar, failed turns. On stderr."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Self

from edge_runner.bench import protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from edge_runner.bench.run import Run

# Drawing takes time from the machine that is measured: twice a second is enough to see it move.
REFRESHES_PER_S = 2

PHASES = {"load": "loading the model", "warm-up": "warming up (not measured)"}


class RunView:
    """Progress of one run. Plain lines when stderr is no terminal."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console: Console = Console(stderr=True, highlight=False)
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def event(self, message: protocol.FromWorker) -> None:
        """Show one message of the worker."""
        match message:
            case protocol.Phase() if message.name in PHASES:
                self.say(PHASES[message.name])
            case protocol.Engine():
                for warning in message.info.get("warnings", ()):
                    self.say(f"note: {warning}")
            case protocol.Settings():
                self.say(_settings_line(message))
                if message.outlook:
                    self.say(f"note: {message.outlook}")
            case protocol.TurnDone():
                self._turn(message)
            case protocol.Log():
                self.say(message.text)

    def download(self, done: int, total: int | None, label: str) -> None:
        """Show a download's progress (bytes)."""
        self._advance(label, done, total, unit="bytes")

    def say(self, text: str) -> None:
        """One line, shown literally."""
        self._console.print(text, markup=False, soft_wrap=True)

    def _turn(self, message: protocol.TurnDone) -> None:
        self._advance("turns", message.done, message.total, unit="turns")
        if message.error:
            self.say(f"{message.session} turn {message.turn} {message.status}: {message.error}")

    def _advance(self, label: str, done: int, total: int | None, unit: str) -> None:
        progress = self._bar()
        if label not in self._tasks:
            self._tasks[label] = progress.add_task(label, total=total, unit=unit)
        progress.update(self._tasks[label], completed=done, total=total)

    def _bar(self) -> Progress:
        if self._progress is None:
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )

            self._progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=self._console,
                refresh_per_second=REFRESHES_PER_S,
                transient=True,
            )
            self._progress.start()
        return self._progress

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()


def _settings_line(message: protocol.Settings) -> str:
    settings = message.loadgen
    passes = f" ({settings['passes']} passes)" if settings["passes"] > 1 else ""
    least = settings["min_duration_ms"] / 1000
    return (
        f"LoadGen: {settings['scenario']}, {settings['mode']}, "
        f"{settings['queries']} queries{passes}, at least {least:g} s"
    )


@contextmanager
def stopping(run: Run, view: RunView) -> Iterator[None]:
    """Ctrl-C and SIGTERM ask the run to stop; a second one does not wait."""

    def handle(signum: int, frame: FrameType | None) -> None:
        del signum, frame
        if not run.stop():
            raise KeyboardInterrupt  # nothing runs yet: leave the download or the checks at once
        view.say("stopping; what was measured is kept (again: do not wait)")

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
