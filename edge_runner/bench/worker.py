"""The worker: one process that loads the engine, warms up and sits in LoadGen for one run.

It talks to its parent over its standard streams (see protocol.py). Native libraries write where
they like, so descriptors 1 and 2 are turned into `worker.log` first; only then is anything
imported that could print. A run that cannot go on ends with `os._exit`: LoadGen has no way back.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import traceback
from io import FileIO
from pathlib import Path
from time import monotonic, monotonic_ns, time_ns
from typing import NoReturn

import msgspec

from edge_runner.adapters import load_device, load_workload
from edge_runner.bench import protocol
from edge_runner.bench.loadgen import Bridge, as_error
from edge_runner.bench.pool import PooledTurn, SessionPool
from edge_runner.bench.settings import decide
from edge_runner.config import RunConfig, load_config
from edge_runner.engines import Generation, Generator
from edge_runner.errors import CancelledError, EngineUnresponsiveError, RunFailedError
from edge_runner.results.events import EventWriter
from edge_runner.sessions import SessionSource, TurnOutcome, TurnStatus
from edge_runner.trace import TurnTrace

LOADGEN_FOLDER = "loadgen"
NATIVE_LOG = "worker.log"

# LoadGen takes microseconds between queries and a second or two to write its logs.
LOADGEN_LIMIT_S = 120.0
WATCH_INTERVAL_S = 0.25
# A model that is being loaded cannot be stopped: after this the process just ends.
START_GRACE_S = 5.0

# For the least time a pass can take: an empty reply is one token long.
LEAST_REPLY_TOKENS = 1
CHARACTERS_PER_TOKEN = 5


def main() -> int:
    """Carry out the job on standard input. Returns only when the run ended by itself."""
    outgoing = os.fdopen(os.dup(1), "wb", buffering=0)
    # Unbuffered: a thread that waits in a buffered reader would block the interpreter's exit.
    incoming = os.fdopen(os.dup(0), "rb", buffering=0)
    line = incoming.readline()
    if not line:
        return CancelledError.exit_code
    job = protocol.decode_from_parent(line)
    if not isinstance(job, protocol.Job):
        return CancelledError.exit_code
    folder = Path(job.folder)
    _capture_native_output(folder / NATIVE_LOG)
    worker = Worker(job, folder, outgoing)
    threading.Thread(target=worker.listen, args=(incoming,), daemon=True).start()
    threading.Thread(target=worker.watch, daemon=True).start()
    try:
        worker.run()
    except BaseException as error:  # noqa: BLE001 - the parent must hear of every end
        worker.halt(error)
    return 0


class Worker:
    """One run. `stop` may be set at any time; `halt` ends the process from any thread."""

    def __init__(self, job: protocol.Job, folder: Path, outgoing: FileIO) -> None:
        self._job = job
        self._folder = folder
        self._outgoing = outgoing
        self._sending = threading.Lock()
        self._ending = threading.Lock()
        # A turn leaves `in_flight` and enters the events at once, or a halt could count it twice.
        self._recording = threading.Lock()
        self._stop = threading.Event()
        self._events = EventWriter(folder)
        self._pool: SessionPool | None = None
        self._bridge: Bridge | None = None
        self._turn_timeout_s = 0.0
        self._warm_up_since_ns: int | None = None
        self._done = 0
        self._turns = 0
        # LoadGen measures with the wall clock, we with the monotonic one.
        self._clocks = (0, 0)

    def run(self) -> None:
        config = load_config(self._job.config)
        self._turn_timeout_s = config.workload.turn_timeout_s
        source = self._load_workload(config)
        with self._load_engine(config) as engine:
            warm = self._warm_up(source, engine)
            self._stop_if_asked()
            self._measure(config, source, engine, warm)
        wall_ns, clock_ns = time_ns() - self._clocks[0], monotonic_ns() - self._clocks[1]
        self._events.run("end", status="completed", wall_ns=wall_ns, monotonic_ns=clock_ns)
        self._events.close()
        self._send(protocol.Ended("completed", clock_drift_ns=wall_ns - clock_ns))

    def halt(self, error: BaseException) -> NoReturn:
        """End the run now, for the reason given; what was measured is on disk."""
        self._ending.acquire()  # never released: the first reason counts
        reason = as_error(error)
        if reason is not error:
            traceback.print_exception(error)  # a bug: worker.log has where
        status: TurnStatus = "aborted" if isinstance(reason, CancelledError) else "failed"
        with contextlib.suppress(RunFailedError):  # a full disk: the reason itself, or no matter
            self._end_turns_in_flight(status, str(reason))
            self._events.run("end", status=status, reason=str(reason))
        self._send(
            protocol.Ended("aborted", None, reason.exit_code)
            if status == "aborted"
            else protocol.Ended("failed", str(reason), reason.exit_code)
        )
        os._exit(reason.exit_code)

    def listen(self, incoming: FileIO) -> None:
        """Wait for a stop, or for the parent's end, and press it until the process is gone."""
        incoming.readline()
        self._stop.set()
        asked = monotonic()
        while True:
            # Again and again: a cancel that comes between two turns would be lost.
            if self._pool is not None:
                self._pool.cancel()
            elif monotonic() - asked > START_GRACE_S:
                self.halt(CancelledError("stopped before the first turn"))
            threading.Event().wait(0.1)

    def watch(self) -> None:
        """End the run when an engine or LoadGen never comes back."""
        while True:
            threading.Event().wait(WATCH_INTERVAL_S)
            now_ns = monotonic_ns()
            limit_ns = (self._turn_timeout_s + self._grace_s()) * 1e9
            for turn in self._pool.in_flight() if self._pool else ():
                if now_ns - turn.issued_ns > limit_ns:
                    self.halt(self._unresponsive(f"{turn.session} turn {turn.turn}"))
            since_ns = self._warm_up_since_ns
            if since_ns is not None and now_ns - since_ns > limit_ns:
                self.halt(self._unresponsive("warm-up"))
            idle_ns = self._bridge.idle_since_ns if self._bridge else None
            if idle_ns is not None and now_ns - idle_ns > LOADGEN_LIMIT_S * 1e9:
                self.halt(RunFailedError("LoadGen did not go on; its logs are in loadgen/"))

    def _grace_s(self) -> float:
        """An engine ends a late turn itself, within some seconds; after these it never will."""
        return min(15.0, 6.0 + self._turn_timeout_s / 10)

    def _unresponsive(self, where: str) -> EngineUnresponsiveError:
        return EngineUnresponsiveError(
            f"{where}: the engine did not come back {self._grace_s():.0f} s after the deadline of "
            f"{self._turn_timeout_s:g} s"
        )

    def _end_turns_in_flight(self, status: TurnStatus, error: str) -> None:
        """Turns that were issued and never will be recorded otherwise end with the run."""
        with self._recording:
            for stream in self._pool.streams if self._pool else ():
                if (turn := stream.in_flight) is None:
                    continue
                now_ns = monotonic_ns()
                outcome = TurnOutcome(
                    session=turn.session,
                    turn=turn.turn,
                    status=status,
                    issued_ns=turn.issued_ns,
                    completed_ns=now_ns,
                    ledger_ns=TurnTrace(turn.issued_ns).close(now_ns),
                    error=error,
                )
                self._events.turn(outcome, stream=turn.stream, repeat=turn.repeat)

    def _load_workload(self, config: RunConfig) -> SessionSource:
        workload = load_workload(config.kind)
        return workload.load(config.workload, config.generation, self._job.data)

    def _load_engine(self, config: RunConfig) -> Generator:
        self._send(protocol.Phase("load"))
        started_ns = monotonic_ns()
        adapter = load_device(config.device.kind)
        engine = adapter.open_generator(config.device, self._job.model)
        info, capabilities = _plain(engine.info), _plain(engine.capabilities)
        self._events.run("load", duration_ns=monotonic_ns() - started_ns, engine=info)
        self._send(protocol.Engine(info, capabilities))
        return engine

    def _warm_up(self, source: SessionSource, engine: Generator) -> Generation:
        self._send(protocol.Phase("warm-up"))
        started_ns = self._warm_up_since_ns = monotonic_ns()
        warm = source.warm_up(engine)
        self._warm_up_since_ns = None
        self._events.run(
            "warm-up", duration_ns=monotonic_ns() - started_ns, tokens=_plain(warm.usage)
        )
        return warm

    def _measure(
        self, config: RunConfig, source: SessionSource, engine: Generator, warm: Generation
    ) -> None:
        pool = self._pool = SessionPool(source, engine)
        samples = pool.turns if config.scenario.unit == "turn" else pool.sessions
        settings = decide(config, samples, _least_pass_ns(source, warm) // samples)
        self._turns = pool.turns
        folder = self._folder / LOADGEN_FOLDER
        folder.mkdir(exist_ok=True)
        os.chdir(folder)
        self._clocks = (time_ns(), monotonic_ns())
        self._events.run("start", settings=settings.as_dict(), wall_ns=self._clocks[0])
        self._send(protocol.Settings(settings.as_dict(), pool.turns, settings.outlook()))
        self._send(protocol.Phase("run"))
        self._bridge = Bridge(
            settings,
            pool,
            folder,
            on_ready=lambda turn: self._send(
                protocol.TurnStarting(turn.session, turn.turn, turn.stream, turn.repeat)
            ),
            on_turn=self._record,
            stop=self._stop,
            halt=self.halt,
        )
        self._bridge.run()
        self._bridge = None
        pool.close()

    def _record(self, turn: PooledTurn) -> None:
        with self._recording:
            event = self._events.turn(
                turn.outcome,
                stream=turn.stream,
                repeat=turn.repeat,
                gap_ns=turn.gap_ns,
                query_ns=turn.query_ns,
            )
            if self._pool is not None:
                self._pool.streams[turn.stream].in_flight = None
        self._done += 1
        self._send(
            protocol.TurnDone(
                done=self._done,
                total=max(self._turns, self._done),
                session=event.session,
                turn=event.turn,
                stream=event.stream,
                status=event.status,
                latency_ns=event.latency_ns,
                query_ns=event.query_ns,
                ttft_ns=event.ttft_ns,
                prompt_tokens=event.tokens.prompt,
                output_tokens=event.tokens.output,
                repeat=event.repeat,
                error=event.error,
            )
        )

    def _stop_if_asked(self) -> None:
        if self._stop.is_set():
            raise CancelledError("stopped on request")

    def _send(self, message: protocol.FromWorker) -> None:
        line = protocol.encode(message) + b"\n"
        with self._sending:
            try:
                self._outgoing.write(line)
            except BrokenPipeError:
                self._stop.set()  # the parent is gone: end as if it had asked


def _least_pass_ns(source: SessionSource, warm: Generation) -> int:
    """The least time one pass over the workload takes, from the warm-up's speeds."""

    def per_token(part: str, tokens: int) -> float:
        return warm.ledger_ns.get(part, 0) / max(tokens, 1)

    prompt = sum(plan.characters for plan in source.plans) / CHARACTERS_PER_TOKEN
    replies = sum(plan.turns for plan in source.plans) * LEAST_REPLY_TOKENS
    return int(
        prompt * per_token("prefill", warm.usage.evaluated)
        + replies * per_token("decode", warm.usage.output)
    )


def _plain(value: object) -> dict[str, object]:
    plain: dict[str, object] = msgspec.to_builtins(value)
    return plain


def _capture_native_output(path: Path) -> None:
    """Everything written to descriptors 1 and 2 from here on goes to the run's own log."""
    sys.stdout.flush()
    sys.stderr.flush()
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
