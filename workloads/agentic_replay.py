"""Agentic replay: recorded coding-agent sessions, each turn's prompt the same on every system."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from time import monotonic_ns
from typing import Annotated, Any, Literal

from pydantic import Field

from edge_runner.adapters import (
    GenerationSection,
    PathOrName,
    WorkloadSection,
)
from edge_runner.agents.conversation import Conversation
from edge_runner.agents.replay import ReplayEngine, ReplayRules, ReplaySession
from edge_runner.assets import DataRef, ModelRef
from edge_runner.engines import Generation, GenerationRequest, Generator, RecordedReply
from edge_runner.errors import ConfigError, DataError
from edge_runner.messages import Message
from edge_runner.sessions import Session, SessionPlan
from edge_runner.workloads.commands import command_iou
from edge_runner.workloads.replay_data import read_replay

REFERENCE = "MLPerf Inference v6.1 Edge Agentic"
REFERENCE_MODEL = "Qwen3.6-27B Q4_K_M"
OFFICIAL_SHA256 = "b7da8c4ffbe1cabd79c4d8169e5201541e006364b4bfc016d01d893e20ee6f70"
OFFICIAL_GENERATION = GenerationSection(
    max_tokens=1024, temperature=0.0, seed=42, output_length="natural"
)
OFFICIAL_TURN_TIMEOUT_S = 600.0

_WARM_UP_TOKENS = 16
_WARM_UP_SYSTEM = "Warm-up before a measurement. Nothing said here is kept."
_WARM_UP_TEXT = """\
A ferry leaves the north pier every forty minutes and takes twenty-five to cross the lake. On the \
far side a bus waits for it, unless the water is rough; then the skipper telephones ahead, and the \
driver goes round by the old stone bridge instead, which adds another quarter of an hour. Travellers
who want to see the lighthouse get off at the second stop, walk along the dyke past three windmills,
and ring the bell at the keeper's cottage. In winter the path is closed after dusk. Tickets are \
sold on board, in coins only, and children under six travel free when somebody holds their hand. \
The last crossing back is at nine in the evening; whoever misses it sleeps at the inn above the \
harbour, where breakfast is served from seven. Say in a few words how long the whole journey takes \
when the lake is calm, and how long when it is not."""

Count = Annotated[int, Field(strict=True, ge=1)]


class ReplaySection(WorkloadSection):
    """`sessions`: only the first n in data order; `max_turns`: only the first n client turns of
    each. `tool_delay: honour` waits before a turn for as long as the recorded tool took."""

    data: PathOrName = "quickstart"
    sessions: Count | None = None
    max_turns: Count | None = None
    tool_delay: Literal["skip", "honour"] = "skip"
    turn_timeout_s: Annotated[float, Field(strict=True, gt=0, le=86_400)] = OFFICIAL_TURN_TIMEOUT_S


class ReplaySource:
    """The sessions of one replay data set, with the rules and the scorer they share."""

    def __init__(
        self, conversations: tuple[Conversation, ...], rules: ReplayRules, data: DataRef
    ) -> None:
        self._conversations = {one.id: one for one in conversations}
        self._rules = rules
        self._data = data
        self._engine: ReplayEngine | None = None
        self._lock = threading.Lock()

    @property
    def plans(self) -> tuple[SessionPlan, ...]:
        return tuple(
            SessionPlan(one.id, len(one.turns), one.characters)
            for one in self._conversations.values()
        )

    @property
    def data_name(self) -> str:
        return self._data.name

    @property
    def data_sha256(self) -> str:
        return self._data.sha256

    def open(self, session_id: str, generator: Generator) -> Session:
        """A cold session; it takes its sequence at its first turn. Raises KeyError for an id that
        is not among `plans`."""
        with self._lock:
            if self._engine is None or self._engine.generator is not generator:
                self._engine = ReplayEngine(generator)
            engine = self._engine
        return ReplaySession(self._conversations[session_id], engine, self._rules, score)

    def warm_up(self, generator: Generator) -> Generation:
        """One generation of 16 tokens after a prompt of about 200, on a sequence of its own that
        is closed again. The text is synthetic, so no session finds its prompt evaluated already.
        Raises EngineError when the engine cannot do even that."""
        request = GenerationRequest(
            messages=(Message("system", _WARM_UP_SYSTEM), Message("user", _WARM_UP_TEXT)),
            max_tokens=_WARM_UP_TOKENS,
            seed=self._rules.generation.seed,
            output_length="recorded",
            recorded=RecordedReply(text=_WARM_UP_TEXT),
            deadline_ns=monotonic_ns() + self._rules.turn_timeout_ns,
            session="warm-up",
        )
        sequence = generator.open_sequence()
        try:
            return sequence.generate(request)
        finally:
            sequence.close()


class AgenticReplay:
    """The workload adapter registered as kind `agentic-replay`."""

    section = ReplaySection

    def load(
        self, section: WorkloadSection, generation: GenerationSection, data: DataRef
    ) -> ReplaySource:
        """Read and check the whole data set, then keep what the section asks for.

        A conversation longer than the engine's context is not known here: its turn fails with
        ContextOverflowError when the engine has counted the tokens. Raises DataError, and
        ConfigError when the section asks for what the data cannot give.
        """
        section = _own(section)
        found = read_replay(data.path).conversations
        if section.sessions is not None and section.sessions > len(found):
            raise ConfigError(
                f"workload.sessions: {section.sessions} asked for, but {data.name} has only "
                f"{len(found)}"
            )
        kept = tuple(one.first(section.max_turns) for one in found[: section.sessions])
        if generation.output_length == "recorded":
            _require_recorded(kept, data)
        rules = ReplayRules(
            generation=generation,
            turn_timeout_ns=round(section.turn_timeout_s * 1e9),
            honour_delays=section.tool_delay == "honour",
        )
        return ReplaySource(kept, rules, data)

    def standing(
        self,
        section: WorkloadSection,
        generation: GenerationSection,
        data: DataRef,
        model: ModelRef | None,
    ) -> Mapping[str, Any]:
        """What differs from the reference run: Qwen3.6-27B Q4_K_M on the official set."""
        section = _own(section)
        deviations = [
            f"{name} is {actual}, the reference has {official}"
            for name, actual, official in (
                ("workload.turn_timeout_s", section.turn_timeout_s, OFFICIAL_TURN_TIMEOUT_S),
                ("workload.tool_delay", section.tool_delay, "skip"),
                *(
                    (f"generation.{key}", getattr(generation, key), official)
                    for key, official in OFFICIAL_GENERATION.model_dump().items()
                ),
            )
            if actual != official
        ]
        if model is None:
            deviations.insert(0, f"no model: the reference runs {REFERENCE_MODEL}")
        elif not model.name.lower().startswith("qwen3.6-27b"):
            deviations.insert(0, f"model is {model.name}, the reference runs {REFERENCE_MODEL}")
        if data.sha256 != OFFICIAL_SHA256:
            deviations.append(f"data is {data.name}, not the official replay set")
        if section.sessions is not None:
            deviations.append(f"limited to the first {section.sessions} sessions")
        if section.max_turns is not None:
            deviations.append(f"limited to the first {section.max_turns} turns of each session")
        return {"reference": REFERENCE, "deviations": deviations}


adapter = AgenticReplay()


def score(recorded: RecordedReply | None, made: Generation | None) -> dict[str, float | None]:
    """A turn's scores: a missing output scores 0, a turn with nothing to compare None."""
    calls = recorded.tool_calls if recorded else ()
    return {"command_iou": command_iou(calls, made.tool_calls if made else ())}


def _own(section: WorkloadSection) -> ReplaySection:
    if not isinstance(section, ReplaySection):
        raise TypeError(f"expected a ReplaySection, got {type(section).__name__}")
    return section


def _require_recorded(conversations: tuple[Conversation, ...], data: DataRef) -> None:
    for one in conversations:
        for number, turn in enumerate(one.turns, 1):
            if turn.recorded is None:
                raise DataError(
                    f"{data.path}: conversation {one.id!r} has no recorded reply to its client "
                    f"turn {number}; generation.output_length: recorded needs one for every turn"
                )
