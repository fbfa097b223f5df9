"""The recorded-replay session: every system answers the same prompts, whatever it answers.

A turn's prompt is the system prompt, all recorded messages before the turn, and the turn itself.
The model's own output never feeds back: the recorded reply goes into the history in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic_ns

from edge_runner.adapters import GenerationSection
from edge_runner.agents.conversation import ClientTurn, Conversation
from edge_runner.engines import (
    Generation,
    GenerationRequest,
    Generator,
    OnToken,
    RecordedReply,
    Sequence,
    Usage,
)
from edge_runner.errors import CancelledError, EdgeRunnerError, EngineUnresponsiveError
from edge_runner.messages import Message
from edge_runner.sessions import TurnOutcome, TurnStatus
from edge_runner.trace import TurnTrace

Score = Callable[[RecordedReply | None, Generation | None], Mapping[str, float | None]]
"""Scores one turn: the recorded reply, and what the engine made (None when it failed)."""


class ReplayEngine:
    """The generator that sessions replay on, and whether it has stopped answering. Sessions on one
    generator share one of these, so that all of them learn when it is lost."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self.lost: EngineUnresponsiveError | None = None


@dataclass(frozen=True, slots=True)
class ReplayRules:
    """What holds for every turn of a replay. A turn past `turn_timeout_ns` has failed."""

    generation: GenerationSection
    turn_timeout_ns: int
    honour_delays: bool = False


class ReplaySession:
    """Replays one conversation on one sequence, opened cold at the first turn.

    A failed or aborted turn ends the session: what follows would stand on a turn that was never
    answered, so it is not issued.
    """

    def __init__(
        self, conversation: Conversation, engine: ReplayEngine, rules: ReplayRules, score: Score
    ) -> None:
        self._conversation = conversation
        self._engine = engine
        self._rules = rules
        self._score = score
        self._sequence: Sequence | None = None
        self._position = 0
        self._ended = not conversation.turns
        self._stopped = False
        self._history: list[Message] = []
        if conversation.system:
            self._history.append(Message("system", conversation.system))

    @property
    def id(self) -> str:
        return self._conversation.id

    @property
    def done(self) -> bool:
        return self._ended

    @property
    def next_delay_ns(self) -> int:
        if self._ended or not self._rules.honour_delays:
            return 0
        return self._conversation.turns[self._position].delay_ns

    def advance(self, issued_ns: int | None = None, on_token: OnToken | None = None) -> TurnOutcome:
        """See `sessions.Session`. An engine that stops answering fails this turn; from then on
        every session on it raises EngineUnresponsiveError. Raises RuntimeError when done."""
        started_ns = monotonic_ns()
        if self._engine.lost is not None:
            raise EngineUnresponsiveError(str(self._engine.lost)) from self._engine.lost
        if self._ended:
            raise RuntimeError(f"session {self.id!r} has no turn left")

        trace = TurnTrace(started_ns if issued_ns is None else issued_ns)
        trace.absorb({"queue": max(0, started_ns - trace.start_ns)})
        turn = self._conversation.turns[self._position]
        deadline_ns = trace.start_ns + self._rules.turn_timeout_ns
        generation: Generation | None = None
        status: TurnStatus = "completed"
        error: str | None = None
        try:
            with trace.span("overhead", "request"):
                request = self._request(turn, deadline_ns)
                sequence = self._open_sequence()
            generation = sequence.generate(request, on_token)
            trace.absorb(generation.ledger_ns, generation.spans)
        except CancelledError as stop:
            status, error = "aborted", str(stop)
        except EngineUnresponsiveError as lost:
            self._engine.lost = lost
            status, error = "failed", str(lost)
        except EdgeRunnerError as failure:
            status, error = "failed", str(failure)
        # An engine is a plug-in: its bug fails this turn, and must not take the run down with it.
        except Exception as bug:  # noqa: BLE001
            status, error = "failed", f"{type(bug).__name__}: {' '.join(str(bug).split())}"
        completed_ns = monotonic_ns()

        if generation is not None and status == "completed":
            if completed_ns > deadline_ns:
                late_ms = (completed_ns - deadline_ns) / 1e6
                status, error = "failed", f"completed {late_ms:.0f} ms after the turn's deadline"
            elif generation.empty:
                status = "empty"
        outcome = self._outcome(turn, trace, completed_ns, status, error, generation)
        self._move_on(turn, status)
        return outcome

    def cancel(self) -> None:
        """Stop the turn in flight; it comes back as `aborted`. Between turns, the next one does:
        a stop that comes a moment before a turn begins is not lost. From any thread."""
        self._stopped = True
        if (sequence := self._sequence) is not None:
            sequence.cancel()

    def close(self) -> None:
        self._ended = True
        if (sequence := self._sequence) is not None:
            self._sequence = None
            sequence.close()

    def _request(self, turn: ClientTurn, deadline_ns: int) -> GenerationRequest:
        self._history.extend(turn.messages)
        generation = self._rules.generation
        return GenerationRequest(
            messages=tuple(self._history),
            tools=self._conversation.tools,
            max_tokens=generation.max_tokens,
            temperature=generation.temperature,
            seed=generation.seed,
            output_length=generation.output_length,
            recorded=turn.recorded,
            deadline_ns=deadline_ns,
            session=self.id,
            turn=self._position + 1,
        )

    def _open_sequence(self) -> Sequence:
        if self._sequence is None:
            self._sequence = self._engine.generator.open_sequence()
        if self._stopped:  # asked after the sequence is there, so cancel() cannot fall in between
            raise CancelledError("stopped before the turn began")
        return self._sequence

    def _outcome(
        self,
        turn: ClientTurn,
        trace: TurnTrace,
        completed_ns: int,
        status: TurnStatus,
        error: str | None,
        generation: Generation | None,
    ) -> TurnOutcome:
        made = generation
        return TurnOutcome(
            session=self.id,
            turn=self._position + 1,
            status=status,
            issued_ns=trace.start_ns,
            completed_ns=completed_ns,
            ledger_ns=trace.close(completed_ns),
            spans=tuple(trace.spans),
            first_token_ns=made.first_token_ns if made else None,
            first_delta_ns=made.first_delta_ns if made else None,
            last_token_ns=made.last_token_ns if made else None,
            usage=made.usage if made else Usage(),
            divergence=made.divergence if made else None,
            text=made.text if made else "",
            reasoning=made.reasoning if made else "",
            tool_calls=made.tool_calls if made else (),
            finish_reason=made.finish_reason if made else None,
            error=error,
            scores={} if status == "aborted" else self._score(turn.recorded, made),
        )

    def _move_on(self, turn: ClientTurn, status: TurnStatus) -> None:
        if (reply := turn.recorded) is not None:
            self._history.append(
                Message("assistant", reply.text, reply.reasoning, reply.tool_calls)
            )
        self._position += 1
        if status in ("failed", "aborted") or self._position == len(self._conversation.turns):
            self._ended = True
