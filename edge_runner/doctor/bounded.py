"""Run a command that may hang, crash or flood, and come back in time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

OUTPUT_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Ended:
    """`code`: exit code, negative for a signal, None when the time was up. Output is cut."""

    code: int | None
    stdout: str
    stderr: str

    @property
    def cause(self) -> str:
        """How it ended, in a few words; its last line on stderr where that tells more."""
        if self.code is None:
            return "no answer in time"
        if self.code < 0:
            with contextlib.suppress(ValueError):
                return f"crashed ({signal.Signals(-self.code).name})"
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        return lines[-1][:300] if lines else f"exit code {self.code}"


def run(command: Sequence[str], limit_s: float, env: Mapping[str, str] | None = None) -> Ended:
    """Run `command` with no input for at most `limit_s`, then end it and what it started.

    Output goes through files: a pipe that a grandchild keeps open would hold us up. Raises OSError
    when it cannot be started.
    """
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=env,
            start_new_session=True,
        )
        code: int | None
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            _end(process)
            code = None
        return Ended(code, _text(stdout), _text(stderr))


def _end(process: subprocess.Popen[bytes]) -> None:
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _text(file: IO[bytes]) -> str:
    """The end of it: that is where the reason stands."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - OUTPUT_BYTES))
    return file.read().decode("utf-8", "replace")
