"""The engine's one thread: it owns the native context, and nobody else touches it."""

from __future__ import annotations

import threading
from collections import deque
from time import monotonic_ns

from edge_runner.devices.llama_cpp.context import NativeContext
from edge_runner.devices.llama_cpp.job import Job, JobStoppedError
from edge_runner.devices.llama_cpp.model import LoadedModel
from edge_runner.devices.llama_cpp.prefix import Steps
from edge_runner.devices.llama_cpp.tokens import Vocabulary
from edge_runner.errors import EdgeRunnerError, EngineClosedError, EngineError


class Worker:
    """Carries out jobs in the order they came, one at a time. Its thread frees context and model
    when it ends, so they are never freed under a native call; being a daemon, it does not keep the
    interpreter alive when such a call never returns."""

    def __init__(
        self, model: LoadedModel, context: NativeContext, vocabulary: Vocabulary, steps: Steps
    ) -> None:
        self.longest_step_ns = 0
        self._model = model
        self._context = context
        self._vocabulary = vocabulary
        self._steps = steps
        self._jobs: deque[Job] = deque()
        self._running: Job | None = None
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._serve, name="llama-cpp", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        with self._changed:
            if self._closing:
                raise EngineClosedError("the engine was closed")
            self._jobs.append(job)
            self._changed.notify()

    def close(self, timeout_s: float) -> bool:
        """Stop the job in flight, refuse the others, end the thread. False: it did not end."""
        with self._changed:
            self._closing = True
            for job in (*filter(None, [self._running]), *self._jobs):
                job.stop(EngineClosedError("the engine was closed during the request"))
            self._changed.notify()
        if threading.current_thread() is self._thread:  # closed from within on_token
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _serve(self) -> None:
        try:
            while (job := self._next()) is not None:
                self._carry_out(job)
        finally:
            self._vocabulary.close()
            self._context.close()
            self._model.close()

    def _next(self) -> Job | None:
        with self._changed:
            self._running = None
            self._changed.wait_for(lambda: self._jobs or self._closing)
            if self._closing:
                return None
            self._running = self._jobs.popleft()
            return self._running

    def _carry_out(self, job: Job) -> None:
        if not job.begin():
            return
        context, steps, vocabulary = self._context, self._steps, self._vocabulary
        try:
            job.place(context, steps)
            before_ns = job.laps.last_ns
            while job.step(context, steps, vocabulary):
                now_ns = monotonic_ns()
                self.longest_step_ns = max(self.longest_step_ns, now_ns - before_ns)
                before_ns = now_ns
        except JobStoppedError as stopped:
            job.keep()
            job.finish(stopped.error)
        except EdgeRunnerError as error:
            job.finish(error)
        except Exception as error:  # noqa: BLE001 - a native call may raise anything; the thread must live on
            failure = EngineError(f"the llama.cpp engine failed: {type(error).__name__}: {error}")
            failure.__cause__ = error
            job.finish(failure)
        else:
            job.keep()
            job.finish()
