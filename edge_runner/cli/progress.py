"""What a person sees while a run goes on: phases, LoadGen's settings, turns, what failed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from edge_runner.bench import protocol
from edge_runner.bench.remarks import remarks
from edge_runner.cli.bars import Bars

if TYPE_CHECKING:
    from edge_runner.bench.run import Run

PHASES = {"load": "loading the model", "warm-up": "warming up (not measured)"}


FAILURES_SHOWN = 20


class RunView(Bars):
    """Shows one run's messages."""

    def __init__(self) -> None:
        super().__init__()
        self._failures = 0

    def event(self, message: protocol.FromWorker) -> None:
        """Show one message of the worker."""
        match message:
            case protocol.Phase() if message.name in PHASES:
                self.say(PHASES[message.name])
            case protocol.Engine():
                for remark in remarks(message.info, message.capabilities):
                    self.say(f"note: {remark}")
            case protocol.Settings():
                self.say(_settings_line(message))
                if message.outlook:
                    self.say(f"note: {message.outlook}")
            case protocol.TurnDone():
                if message.error:
                    self._failed(message)
                self.advance(message.done, message.total, "turns", "turns")

    def _failed(self, message: protocol.TurnDone) -> None:
        self._failures += 1
        if self._failures <= FAILURES_SHOWN:
            where = f"{message.session} turn {message.turn}"
            self.say(f"{where} {message.status}: {message.error}")
        if self._failures == FAILURES_SHOWN:
            self.say("further turns that fail are only counted")


def _settings_line(message: protocol.Settings) -> str:
    settings = message.loadgen
    line = f"LoadGen: {settings['scenario']}, {settings['mode']}, {settings['samples']} queries"
    if not settings["max_queries"]:
        line += f", then again from the first until {settings['min_duration_ms'] / 1000:g} s"
    return line


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
