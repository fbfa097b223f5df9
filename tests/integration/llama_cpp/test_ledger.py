"""Planted delays land where they belong: the proof of the ledger, on a real engine."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic_ns, sleep
from typing import Any

import pytest
from llama_cpp_support import OpenEngine, chatter

from edge_runner.adapters import GenerationSection
from edge_runner.agents.conversation import ClientTurn, Conversation
from edge_runner.agents.replay import ReplayEngine, ReplayRules, ReplaySession
from edge_runner.bench.pool import PooledTurn, SessionPool
from edge_runner.devices.chat_template import ChatTemplate
from edge_runner.devices.llama_cpp.context import NativeContext
from edge_runner.devices.llama_cpp.sampler import Greedy
from edge_runner.devices.llama_cpp.tokens import PromptTokenizer
from edge_runner.devices.reply import ReplyParser
from edge_runner.engines import Generator, RecordedReply
from edge_runner.messages import Message
from edge_runner.sessions import Session, SessionPlan

PLANTED = 50
RULES = ReplayRules(
    GenerationSection(max_tokens=4, output_length="recorded"), turn_timeout_ns=60_000_000_000
)


class Source:
    """One long conversation, so that every turn is like the one before."""

    data_name, data_sha256 = "made up", ""

    def __init__(self, turns: int) -> None:
        recorded = RecordedReply("the cat reads every file")
        self._conversation = Conversation(
            "planted",
            "system",
            (),
            tuple(
                ClientTurn((Message("user", chatter(at, 4)),), recorded=recorded)
                for at in range(turns)
            ),
        )
        self.plans = (SessionPlan("planted", turns),)

    def open(self, session_id: str, generator: Generator) -> Session:
        return ReplaySession(self._conversation, ReplayEngine(generator), RULES, lambda *_: {})

    def warm_up(self, generator: Generator) -> Any:
        raise AssertionError("not here")


@contextmanager
def delayed(patch: pytest.MonkeyPatch, target: Any, name: str, delay_s: float) -> Iterator[None]:
    """The first call of `target.name` takes `delay_s` longer."""
    original = getattr(target, name)
    left = [delay_s]

    def slow(*args: Any, **kwargs: Any) -> Any:
        if left:
            sleep(left.pop())
        return original(*args, **kwargs)

    with patch.context() as scoped:
        scoped.setattr(target, name, slow)
        yield
    assert not left, f"{name} was never called"


@pytest.fixture
def plant(open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch) -> Callable[..., PooledTurn]:
    engine = open_engine(context_tokens=4096)
    pool = SessionPool(Source(PLANTED + 10), engine)
    stream = pool.streams[0]
    targets: dict[str, tuple[Any, str]] = {
        "render": (ChatTemplate, "render"),
        "tokenize": (PromptTokenizer, "tokenize"),
        "prefill": (NativeContext, "synchronize"),
        "decode": (Greedy, "sample"),
        "parse": (ReplyParser, "feed"),
        "overhead": (ReplaySession, "_request"),
    }

    def turn(part: str | None = None, delay_s: float = 0.0) -> PooledTurn:
        stream.prepare()
        if part == "harness":
            sleep(delay_s)
        if part in targets:
            with delayed(monkeypatch, *targets[part], delay_s):
                return stream.advance(monotonic_ns())
        return stream.advance(monotonic_ns())

    for _ in range(5):
        turn()
    return turn


def test_planted_delays_land_in_the_right_part(plant: Callable[..., PooledTurn]) -> None:
    parts = ("render", "tokenize", "prefill", "decode", "parse", "overhead", "harness")
    draw = random.Random(7)
    landed = 0
    for index in range(PLANTED):
        part = parts[index % len(parts)]
        delay_ns = round(5e6 * 100 ** draw.random())
        turn = plant(part, delay_ns / 1e9)
        outcome = turn.outcome
        assert outcome.status == "completed", outcome.error
        assert sum(outcome.ledger_ns.values()) == outcome.latency_ns
        everywhere = {**outcome.ledger_ns, "harness": turn.gap_ns.get("harness", 0)}
        elsewhere = sum(everywhere.values()) - everywhere[part]
        # In its part whole, and nowhere else: beside it there is only what a turn costs anyway.
        landed += everywhere[part] >= delay_ns and (delay_ns < 50e6 or elsewhere < delay_ns / 2)
    assert landed >= 0.99 * PLANTED


def test_next_to_nothing_is_unattributed(plant: Callable[..., PooledTurn]) -> None:
    turns = [plant().outcome for _ in range(20)]
    unattributed = sorted(turn.ledger_ns["unattributed"] for turn in turns)
    assert all(value >= 0 for value in unattributed)
    median_share = unattributed[10] / sorted(turn.latency_ns for turn in turns)[10]
    assert median_share < 0.1
