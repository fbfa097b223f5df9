"""What a replay session asks of an engine, and what it makes of the answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from time import monotonic_ns
from typing import Any

import pytest

from edge_runner.adapters import GenerationSection
from edge_runner.agents.conversation import ClientTurn, Conversation
from edge_runner.agents.replay import ReplayEngine, ReplayRules, ReplaySession
from edge_runner.engines import Generation, RecordedReply, TokenEvent, Usage
from edge_runner.errors import (
    CancelledError,
    ContextOverflowError,
    EngineError,
    EngineUnresponsiveError,
    TurnTimeoutError,
)
from edge_runner.messages import Message, ToolCall, ToolSpec

SECOND = 1_000_000_000
TOOLS = (ToolSpec("bash"),)
CALL = ToolCall("c1", "bash", '{"command": "ls"}')
CONVERSATION = Conversation(
    id="fix",
    system="Be brief.",
    tools=TOOLS,
    turns=(
        ClientTurn((Message("user", "go"),), 0, RecordedReply("", "hm", (CALL,))),
        ClientTurn(
            (Message("tool", "x", tool_call_id="c1"),), 3 * SECOND, RecordedReply("thanks", "", ())
        ),
        ClientTurn((Message("user", "more"),), 0, RecordedReply("done", "", ())),
    ),
)
Fake = Callable[..., Any]
Made = Callable[..., Generation]


def scores(recorded: RecordedReply | None, made: Generation | None) -> dict[str, float | None]:
    return {"made": 0.0 if made is None else 1.0}


def session(
    generator: Any,
    *,
    conversation: Conversation = CONVERSATION,
    engine: ReplayEngine | None = None,
    timeout_ns: int = 600 * SECOND,
    honour_delays: bool = False,
    **generation: Any,
) -> ReplaySession:
    rules = ReplayRules(GenerationSection(**generation), timeout_ns, honour_delays)
    return ReplaySession(conversation, engine or ReplayEngine(generator), rules, scores)


def raising(*errors: BaseException | None) -> Callable[[Any, Any], Generation]:
    """Behave: raise these in turn; None answers."""
    left: Iterator[BaseException | None] = iter(errors)

    def behave(sequence: Any, request: Any) -> Generation:
        if (error := next(left, None)) is not None:
            raise error
        return Generation("fine", "", (), "stop", Usage(output=1), None, None, None, {"decode": 5})

    return behave


def test_the_recorded_reply_goes_into_the_history_not_the_models_own(
    fake: Fake, made: Made
) -> None:
    generator = fake(lambda sequence, request: made("the model's own words"))
    replay = session(generator, max_tokens=64, seed=7, temperature=0.5)
    outcomes = [replay.advance() for _ in range(3)]
    assert replay.done
    (sequence,) = generator.sequences
    prompts = [request.messages for request in sequence.requests]
    assert prompts[0] == (Message("system", "Be brief."), Message("user", "go"))
    assert prompts[1] == (
        *prompts[0],
        Message("assistant", "", "hm", (CALL,)),
        Message("tool", "x", tool_call_id="c1"),
    )
    assert prompts[2] == (
        *prompts[1],
        Message("assistant", "thanks"),
        Message("user", "more"),
    )
    assert [(one.session, one.turn, one.status) for one in outcomes] == [
        ("fix", 1, "completed"),
        ("fix", 2, "completed"),
        ("fix", 3, "completed"),
    ]
    assert outcomes[0].text == "the model's own words"
    request = sequence.requests[1]
    assert (request.max_tokens, request.seed, request.temperature) == (64, 7, 0.5)
    assert (request.session, request.turn, request.tools) == ("fix", 2, TOOLS)
    assert request.recorded == CONVERSATION.turns[1].recorded


def test_without_a_system_prompt_there_is_no_system_message(fake: Fake) -> None:
    generator = fake()
    bare = Conversation("bare", "", (), CONVERSATION.turns[:1])
    session(generator, conversation=bare).advance()
    assert [one.role for one in generator.sequences[0].requests[0].messages] == ["user"]


def test_output_length_and_deadline_reach_the_engine(fake: Fake) -> None:
    generator = fake()
    replay = session(generator, timeout_ns=5 * SECOND, output_length="recorded")
    issued_ns = monotonic_ns() - 1000
    outcome = replay.advance(issued_ns)
    request = generator.sequences[0].requests[0]
    assert request.deadline_ns == issued_ns + 5 * SECOND
    assert request.output_length == "recorded"
    assert outcome.issued_ns == issued_ns


def test_the_ledger_sums_to_the_latency_and_keeps_the_engines_parts(fake: Fake, made: Made) -> None:
    generator = fake(lambda sequence, request: made(render=11, prefill=700, decode=300))
    replay = session(generator)
    before_ns = monotonic_ns()
    outcome = replay.advance(before_ns - 2 * SECOND)
    assert sum(outcome.ledger_ns.values()) == outcome.latency_ns
    assert (outcome.ledger_ns["render"], outcome.ledger_ns["prefill"]) == (11, 700)
    assert outcome.ledger_ns["queue"] >= 2 * SECOND  # it waited before anybody took it up
    assert outcome.ledger_ns["overhead"] > 0
    assert before_ns <= outcome.completed_ns <= monotonic_ns()
    assert {span.part for span in outcome.spans} == {"overhead"}


def test_an_issue_time_ahead_of_the_clock_never_gives_a_negative_queue(fake: Fake) -> None:
    outcome = session(fake()).advance(monotonic_ns() + SECOND)
    assert outcome.ledger_ns["queue"] == 0


def test_tokens_are_passed_on(fake: Fake) -> None:
    seen: list[TokenEvent] = []
    session(fake()).advance(on_token=seen.append)
    assert [event.text for event in seen] == ["fine"]


@pytest.mark.parametrize("text", ["", " \n"])
def test_nothing_said_is_an_empty_turn_and_the_session_goes_on(
    fake: Fake, made: Made, text: str
) -> None:
    replay = session(fake(lambda sequence, request: made(text)))
    assert replay.advance().status == "empty"
    assert not replay.done
    assert replay.advance().turn == 2


def test_a_call_without_text_is_not_empty(fake: Fake, made: Made) -> None:
    outcome = session(fake(lambda sequence, request: made("", (CALL,)))).advance()
    assert (outcome.status, outcome.tool_calls) == ("completed", (CALL,))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (EngineError("no memory left"), "no memory left"),
        (ContextOverflowError("9000 + 64 tokens do not fit 8192"), "9000 + 64 tokens do not fit"),
        (TurnTimeoutError("deadline passed"), "deadline passed"),
        (ZeroDivisionError("by\nzero"), "ZeroDivisionError: by zero"),
        (KeyError("usage"), "KeyError: 'usage'"),
    ],
)
def test_a_failed_turn_says_why_and_ends_the_session(
    fake: Fake, error: Exception, text: str
) -> None:
    replay = session(fake(raising(None, error)))
    assert replay.advance().status == "completed"
    outcome = replay.advance()
    assert (outcome.status, outcome.turn) == ("failed", 2)
    assert outcome.error is not None
    assert outcome.error.startswith(text)
    assert sum(outcome.ledger_ns.values()) == outcome.latency_ns
    assert outcome.scores == {"made": 0.0}
    assert replay.done
    assert replay.next_delay_ns == 0
    with pytest.raises(RuntimeError, match="no turn left"):
        replay.advance()


def test_an_engine_that_cannot_open_a_sequence_fails_the_turn(fake: Fake) -> None:
    class Full(fake):  # type: ignore[misc, valid-type]
        def open_sequence(self) -> Any:
            raise EngineError("all places are taken")

    replay = session(Full())
    assert replay.advance().error == "all places are taken"
    assert replay.done


def test_a_ledger_with_an_unknown_part_fails_the_turn_instead_of_the_run(
    fake: Fake, made: Made
) -> None:
    outcome = session(fake(lambda sequence, request: made(magic=3))).advance()
    assert outcome.status == "failed"
    assert outcome.error is not None
    assert "magic" in outcome.error


def test_an_answer_after_the_deadline_is_a_failure_whatever_the_engine_says(fake: Fake) -> None:
    replay = session(fake(), timeout_ns=SECOND)
    outcome = replay.advance(monotonic_ns() - 2 * SECOND)
    assert outcome.status == "failed"
    assert outcome.error is not None
    assert "deadline" in outcome.error
    assert replay.done


def test_a_lost_engine_fails_its_turn_and_stops_every_session_on_it(fake: Fake) -> None:
    generator = fake(raising(None, EngineUnresponsiveError("gone for 30 s")))
    engine = ReplayEngine(generator)
    first, second = session(generator, engine=engine), session(generator, engine=engine)
    first.advance()
    outcome = second.advance()
    assert (outcome.status, outcome.error) == ("failed", "gone for 30 s")
    assert second.done
    for replay in (first, second):
        with pytest.raises(EngineUnresponsiveError, match="gone for 30 s"):
            replay.advance()
    assert session(fake()).advance().status == "completed"


def test_cancel_reaches_the_turn_in_flight(fake: Fake) -> None:
    begun, stop = threading.Event(), threading.Event()

    def behave(sequence: Any, request: Any) -> Generation:
        sequence.cancel = stop.set
        begun.set()
        assert stop.wait(30)
        raise CancelledError("stopped")

    replay = session(fake(behave))
    outcomes: list[Any] = []
    worker = threading.Thread(target=lambda: outcomes.append(replay.advance()))
    worker.start()
    assert begun.wait(30)
    replay.cancel()
    worker.join(30)
    assert [one.status for one in outcomes] == ["aborted"]
    assert outcomes[0].scores == {}
    assert replay.done


def test_a_cancel_between_turns_is_not_lost(fake: Fake) -> None:
    generator = fake()
    replay = session(generator)
    replay.cancel()
    assert replay.advance().status == "aborted"
    assert generator.sequences[0].requests == []


def test_delays_are_those_of_the_next_turn_and_only_on_request(fake: Fake) -> None:
    skipping, honouring = session(fake()), session(fake(), honour_delays=True)
    assert (skipping.next_delay_ns, honouring.next_delay_ns) == (0, 0)
    skipping.advance()
    honouring.advance()
    assert (skipping.next_delay_ns, honouring.next_delay_ns) == (0, 3 * SECOND)
    honouring.advance()
    honouring.advance()
    assert honouring.next_delay_ns == 0


def test_close_gives_the_sequence_back_and_may_come_twice(fake: Fake) -> None:
    generator = fake()
    replay = session(generator)
    replay.advance()
    replay.close()
    replay.close()
    assert generator.sequences[0].closed
    assert replay.done
    session(generator).close()
    assert len(generator.sequences) == 1
