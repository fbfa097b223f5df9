"""The parent's end of the process that renders a chat template, and the limits it works under."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from edge_runner.devices import template_process as child
from edge_runner.errors import UnavailableError

ENVIRONMENT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
"""What the child gets of our environment: what an interpreter needs to start."""

MEMORY_CHECK_NS = 20_000_000

LIMIT_OF_SIGNAL = {"SIGABRT": "memory", "SIGKILL": "memory", "SIGALRM": "time"}
"""Which limit a child ran into that died by a signal we did not send: a failed allocation in Rust
aborts, the kernel's memory killer kills."""


@dataclass(frozen=True, slots=True)
class TemplateLimits:
    """What one rendering may take. `memory_bytes` is on top of what the idle child holds;
    `instructions` are minijinja's (a long conversation takes some ten thousand)."""

    source_bytes: int = 1 << 20
    memory_bytes: int = 512 << 20
    output_bytes: int = 64 << 20
    instructions: int = 20_000_000
    time_ns: int = 5_000_000_000


class RendererLostError(Exception):
    """The child is gone. `limit`: which limit ended it, if one did."""

    def __init__(self, reason: str, limit: str = "") -> None:
        super().__init__(reason)
        self.limit = limit


class Renderer:
    """The child process and its pipes."""

    def __init__(self, limits: TemplateLimits) -> None:
        self._limits = limits
        self._limit_hit = ""
        spec = importlib.util.find_spec("minijinja")
        if spec is None or spec.origin is None:
            raise UnavailableError(
                "rendering chat templates needs minijinja: pip install 'edge-runner[llama-cpp]'"
            )
        self._popen = subprocess.Popen(
            [sys.executable, "-I", "-S", child.__file__, str(Path(spec.origin).parent.parent)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        assert self._popen.stdin is not None and self._popen.stdout is not None  # noqa: S101, PT018 - asked for above
        self._requests, self._answers = self._popen.stdin, self._popen.stdout

    def exchange(self, payload: bytes, time_ns: int) -> tuple[bytes, str]:
        """One request, one answer: status and text. Raises RendererLostError."""
        done = threading.Event()
        watchdog = threading.Thread(target=self._watch, args=(done, time_ns), daemon=True)
        watchdog.start()
        try:
            self._requests.write(len(payload).to_bytes(child.HEADER_BYTES, "big"))
            self._requests.write(payload)
            self._requests.flush()
            size = int.from_bytes(self._read(child.HEADER_BYTES), "big")
            if not 1 <= size <= self._limits.output_bytes + 1:
                raise RendererLostError(f"answer of {size} bytes", "output")
            status = self._read(1)
            return status, self._read(size - 1).decode(errors="replace")
        except BrokenPipeError:
            raise self._lost() from None
        finally:
            done.set()

    def close(self) -> None:
        self._popen.kill()
        for pipe in (self._requests, self._answers):
            with suppress(OSError):  # what is still buffered has nowhere to go
                pipe.close()
        self._popen.wait()

    def _read(self, size: int) -> bytes:
        data = self._answers.read(size)
        if len(data) < size:
            raise self._lost()
        return data

    def _lost(self) -> RendererLostError:
        code = self._popen.wait()
        if self._limit_hit:
            return RendererLostError(f"exit code {code}", self._limit_hit)
        if code == child.OUT_OF_MEMORY_EXIT:
            return RendererLostError(f"exit code {code}", "memory")
        if code < 0:
            name = signal.Signals(-code).name
            return RendererLostError(name, LIMIT_OF_SIGNAL.get(name, ""))
        return RendererLostError(f"exit code {code}")

    def _watch(self, done: threading.Event, left_ns: int) -> None:
        """Kill the child when its time is over, or its memory where the kernel has no cap."""
        step_ns = left_ns if sys.platform == "linux" else MEMORY_CHECK_NS
        while not done.wait(min(step_ns, left_ns) / 1e9):
            left_ns -= step_ns
            if left_ns <= 0:
                self._kill("time")
                return
            with suppress(psutil.Error):
                if psutil.Process(self._popen.pid).memory_info().rss > self._limits.memory_bytes:
                    self._kill("memory")
                    return

    def _kill(self, limit: str) -> None:
        self._limit_hit = limit
        self._popen.kill()
