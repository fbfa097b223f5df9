"""A run, seen from the parent: fetch and check, start the worker, listen, write the summary.

Command line, TUI and Python API all go through `Run`. It never prints: what happens is told to
`on_event` (the worker's messages) and `on_progress` (downloads).
"""

from __future__ import annotations

import contextlib
import platform
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from time import monotonic, monotonic_ns
from typing import IO, Any, Self

from edge_runner.adapters import load_device, load_workload
from edge_runner.assets import DataRef, ModelRef
from edge_runner.bench import protocol
from edge_runner.bench.crosscheck import Latencies
from edge_runner.bench.loadgen import read_report
from edge_runner.bench.remarks import remarks
from edge_runner.bench.worker import NATIVE_LOG
from edge_runner.catalog.progress import OnProgress, Report
from edge_runner.catalog.resolve import resolve_data, resolve_model
from edge_runner.config import RunConfig, load_config
from edge_runner.errors import CancelledError, EdgeRunnerError, RunFailedError
from edge_runner.results import environment
from edge_runner.results.events import EventWriter, read_turns
from edge_runner.results.report import write_report
from edge_runner.results.run_folder import RunFolder, utc_now
from edge_runner.results.schema import EndStatus, Identity, RunRecord, Standing, Summary
from edge_runner.results.summary import summarize, write_summary
from edge_runner.results.verdict import exit_code
from edge_runner.sessions import TurnOutcome
from edge_runner.trace import TurnTrace

# After a stop the worker ends within one token or prefill chunk; loading a model cannot be stopped.
STOP_GRACE_S = 10.0
EXIT_GRACE_S = 10.0
POLL_S = 0.25

OnEvent = Callable[[protocol.FromWorker], None]


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run that ended, one way or another. `error` is the line that says why it failed."""

    folder: RunFolder
    summary: Summary
    report: Path
    exit_code: int
    error: str | None


class Run:
    """One run of one configuration. `execute` once; `stop` from any thread."""

    def __init__(
        self,
        config: RunConfig,
        *,
        out: Path | None = None,
        offline: bool = False,
        require_valid: bool = False,
        on_event: OnEvent = lambda _: None,
        on_progress: OnProgress | None = None,
        on_report: Report | None = None,
    ) -> None:
        self.config = config
        self._out = out
        self._fetching: dict[str, Any] = {
            "offline": offline,
            "report": on_report,
            "progress": on_progress,
        }
        self._require_valid = require_valid
        self._on_event = on_event
        self._worker: _WorkerProcess | None = None
        self._stopped = threading.Event()
        self._underway = False
        self._latencies = Latencies()
        self._remarks: tuple[str, ...] = ()

    def execute(self) -> RunResult:
        """Run to the end. Raises EdgeRunnerError for what is found before the run folder exists;
        from then on every end is a RunResult and nothing measured is lost."""
        config = self.config
        data = resolve_data(config.workload.data, **self._fetching)
        model = None
        if config.generator is not None and load_device(config.device.kind).needs_model:
            model = resolve_model(config.generator.model, role="generator", **self._fetching)
        workload = load_workload(config.kind)
        source = workload.load(config.workload, config.generation, data)
        if self._stopped.is_set():
            raise CancelledError("stopped before the run began; nothing was measured")

        record = RunRecord(
            name=config.name,
            kind=config.kind,
            mode=config.mode,
            scenario=config.scenario.kind,
            unit=config.scenario.unit,
            preset=config.scenario.preset,
            started=utc_now(),
            config=config.model_dump(mode="json"),
            fingerprint=config.fingerprint(),
            edge_runner=version("edge-runner"),
            expected_turns=sum(plan.turns for plan in source.plans),
            model=_identity(model),
            data=_identity(data),
            standing=_standing(
                workload.standing(config.workload, config.generation, data, model),
                config.scenario.preset,
            ),
            environment=environment.capture(),
        )
        self._underway = True
        folder = RunFolder.create(self._out, record)
        try:
            ended = self._supervise(folder, data, model)
        except EdgeRunnerError as error:  # found here, not in the worker: a full disk, say
            ended = protocol.Ended("failed", str(error), error.exit_code)
        except OSError as error:
            reason = f"the worker process cannot be started: {error.strerror}"
            ended = protocol.Ended("failed", reason, RunFailedError.exit_code)
        except BaseException as error:
            # Not ours to judge, but a run must not look as if it went on for ever.
            folder.end("failed", f"ended by {type(error).__name__}")
            raise
        return self._conclude(folder, ended)

    def stop(self) -> bool:
        """Ask the run to stop: it ends as `aborted` and keeps what was measured. A second call
        does not wait for the turn in flight. False: nothing has begun that would have to end."""
        again = self._stopped.is_set()
        self._stopped.set()
        if (worker := self._worker) is not None:
            if again:
                worker.kill()
            else:
                worker.stop()
        return self._underway

    def _supervise(
        self, folder: RunFolder, data: DataRef, model: ModelRef | None
    ) -> protocol.Ended:
        job = protocol.Job(
            config=self.config.model_dump(mode="json"),
            folder=str(folder.path.resolve()),
            data=data,
            model=model,
        )
        pending: dict[int, tuple[int, protocol.TurnStarting]] = {}
        with _WorkerProcess(job, folder.path / NATIVE_LOG) as worker:
            self._worker = worker
            if self._stopped.is_set():  # between the check above and here
                worker.stop()
            for message in worker.messages():
                match message:
                    case protocol.Engine():
                        folder.update(engine=message.info)
                        self._remarks = tuple(remarks(message.info, message.capabilities))
                    case protocol.Settings():
                        folder.update(settings=message.loadgen)
                    case protocol.TurnStarting():
                        pending[message.stream] = (monotonic_ns(), message)
                    case protocol.TurnDone():
                        pending.pop(message.stream, None)
                        if message.query_ns is not None:
                            self._latencies.add(message.query_ns)
                self._tell(message)
                if isinstance(message, protocol.Ended):
                    return message
            return self._died(folder, worker, list(pending.values()))

    def _tell(self, message: protocol.FromWorker) -> None:
        """Whoever watches may have gone (a closed pipe, say); the run goes on without."""
        try:
            self._on_event(message)
        except OSError:
            self._on_event = lambda _: None

    def _died(
        self,
        folder: RunFolder,
        worker: _WorkerProcess,
        lost: list[tuple[int, protocol.TurnStarting]],
    ) -> protocol.Ended:
        """The worker went without a word: its turn in flight failed with it."""
        how = worker.how_it_ended()
        status: EndStatus = "aborted" if self._stopped.is_set() else "failed"
        error = None
        if status == "failed":
            error = f"the worker process {how}; see {NATIVE_LOG} in the run folder"
        with EventWriter(folder.path) as events:
            last = {event.stream: event for event in read_turns(folder.events)}
            for started_ns, turn in lost:
                done = last.get(turn.stream)
                if done is not None and done.completed_ns >= started_ns:
                    continue  # it was recorded, and only the word of it is missing
                ended_ns = monotonic_ns()
                outcome = TurnOutcome(
                    session=turn.session,
                    turn=turn.turn,
                    status=status,
                    issued_ns=started_ns,
                    completed_ns=ended_ns,
                    ledger_ns=TurnTrace(started_ns).close(ended_ns),
                    error=f"the worker process {how} in mid-turn",
                )
                events.turn(outcome, stream=turn.stream, repeat=turn.repeat)
            events.run("end", status=status, reason=error)
        code = CancelledError.exit_code if status == "aborted" else RunFailedError.exit_code
        return protocol.Ended(status, error, code)

    def _conclude(self, folder: RunFolder, ended: protocol.Ended) -> RunResult:
        loadgen, check, error = None, None, ended.error
        if ended.status == "completed":
            try:
                loadgen = read_report(folder.loadgen)
                check = self._latencies.against(loadgen, ended.clock_drift_ns)
            except RunFailedError as problem:
                error = str(problem)
        record = folder.end("failed" if error else ended.status, error)
        summary = summarize(
            folder, record, loadgen=loadgen, cross_check=check, warnings=self._remarks
        )
        write_summary(folder, summary)
        report = write_report(folder, summary)
        code = exit_code(summary, require_valid=self._require_valid)
        return RunResult(folder, summary, report, ended.exit_code or code, error)


def run(
    config: RunConfig | str | Path | Mapping[str, Any], *, out: Path | None = None
) -> RunResult:
    """Run one configuration (loaded, a file, a shipped one's name, or a mapping) to its end.

    The run's folder is `out` (new or empty), or `runs/<time>-<name>`. Raises EdgeRunnerError for
    what is found before the folder exists; after that, see RunResult.
    """
    loaded = config if isinstance(config, RunConfig) else load_config(config)
    return Run(loaded, out=out).execute()


class _WorkerProcess:
    """The child process and the line to it."""

    def __init__(self, job: protocol.Job, log: Path) -> None:
        self._stop_at: float | None = None
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "edge_runner.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                # A Ctrl-C in the terminal is for the parent, which asks the worker to stop.
                start_new_session=platform.system() != "Windows",
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()
        self._write(job)

    def messages(self) -> Any:
        """The worker's messages until its output ends, or until it is overdue after a stop."""
        while True:
            try:
                line = self._lines.get(timeout=POLL_S)
            except queue.Empty:
                if self._stop_at is not None and monotonic() - self._stop_at > STOP_GRACE_S:
                    self.kill()
                continue
            if not line.endswith(b"\n"):
                return  # its end, or a line that its end cut short
            yield protocol.decode_from_worker(line)

    def stop(self) -> None:
        self._stop_at = monotonic()
        self._write(protocol.Stop())

    def kill(self) -> None:
        self._process.kill()

    def how_it_ended(self) -> str:
        code = self._wait()
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"was killed by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:  # nobody listens any more
            self.kill()
        self._wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _wait(self) -> int:
        try:
            return self._process.wait(EXIT_GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.wait()

    def _write(self, message: protocol.FromParent) -> None:
        assert self._process.stdin is not None  # noqa: S101 - opened as a pipe
        with contextlib.suppress(OSError, ValueError):  # it is gone, or ended and closed
            self._process.stdin.write(protocol.encode(message) + b"\n")
            self._process.stdin.flush()

    def _read(self, stream: IO[bytes]) -> None:
        for line in stream:
            self._lines.put(line)
        self._lines.put(b"")


def _identity(ref: ModelRef | DataRef | None) -> Identity | None:
    if ref is None:
        return None
    return Identity(name=ref.name, sha256=ref.sha256, license=ref.license, source=ref.source)


def _standing(of_workload: Mapping[str, Any], preset: str) -> Standing:
    """What the run can be set beside, and every way in which it differs from that."""
    deviations = list(of_workload["deviations"])
    if preset == "quick":
        deviations.append("preset quick: no minimum duration")
    return Standing(
        reference=of_workload["reference"],
        division_like="open" if deviations else "closed",
        deviations=tuple(deviations),
        availability="not stated",
    )
