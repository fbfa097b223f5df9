"""What one request gives: text, counts, times, limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import monotonic_ns
from typing import Any

import pytest
from llama_cpp_support import OpenEngine, chatter, user

from edge_runner.devices.llama_cpp import sequence as sequence_module
from edge_runner.devices.llama_cpp.context import NativeContext
from edge_runner.engines import Generation, GenerationRequest, RecordedReply, TokenEvent
from edge_runner.errors import ContextOverflowError, EngineError
from edge_runner.messages import Message, ToolCall, ToolSpec
from edge_runner.trace import PARTS

HELLO = (user("hello"),)


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make the model say given tokens instead of its own, then end of text."""

    class Scripted:
        def __init__(self, tokens: Sequence[int]) -> None:
            self.tokens = list(tokens)

        def __call__(self, banned: Any = ()) -> Scripted:
            return Scripted(self.tokens)

        def sample(self, context: NativeContext) -> int:
            return self.tokens.pop(0)

        def close(self) -> None: ...

    def script(engine: Any, text: str, *, end: bool = True) -> int:
        vocabulary = engine.shared.vocabulary
        tokens = vocabulary.tokenize(text)
        ends = sorted(vocabulary.end_tokens)[:1] if end else []
        monkeypatch.setattr(sequence_module, "Greedy", Scripted([*tokens, *ends]))
        return len(tokens)

    return script


def test_greedy_is_llama_cpp_s_own(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine()
    sequence = engine.open_sequence()
    request = GenerationRequest(HELLO, max_tokens=40)
    ours = sequence.generate(request)
    assert ours.usage.output > 3
    native = engine.shared.native
    chain = native.llama_sampler_init_greedy()

    class NativeGreedy(sequence_module.Greedy):
        def sample(self, context: NativeContext) -> int:
            return int(native.llama_sampler_sample(chain, context.pointer, -1))

    monkeypatch.setattr(sequence_module, "Greedy", NativeGreedy)
    assert sequence.generate(request).text == ours.text
    native.llama_sampler_free(chain)


def test_the_ledger_explains_the_whole_call(open_engine: OpenEngine) -> None:
    sequence = open_engine().open_sequence()
    for _ in range(3):
        before_ns = monotonic_ns()
        result = sequence.generate(GenerationRequest((user(chatter(1, 100)),), max_tokens=30))
        wall_ns = monotonic_ns() - before_ns
        assert set(result.ledger_ns) <= set(PARTS)
        assert all(value >= 0 for value in result.ledger_ns.values())
        assert sum(result.ledger_ns.values()) <= wall_ns
        assert {"queue", "render", "tokenize", "prefill", "decode", "parse"} <= set(
            result.ledger_ns
        )
    for span in result.spans:
        assert before_ns <= span.start_ns <= span.end_ns <= before_ns + wall_ns
    assert [span.part for span in result.spans] == [
        "render", "tokenize", "queue", "prefill", "decode",
    ]  # fmt: skip


def test_times_and_events(open_engine: OpenEngine, say: Any) -> None:
    engine = open_engine()
    count = say(engine, "the cat reads")
    events: list[TokenEvent] = []
    before_ns = monotonic_ns()
    result = engine.open_sequence().generate(GenerationRequest(HELLO), events.append)
    assert result.text == "the cat reads" == "".join(event.text for event in events)
    assert result.finish_reason == "stop"
    assert result.usage.output == count
    assert result.first_token_ns is not None
    assert result.last_token_ns is not None
    assert result.first_delta_ns == events[0].t_ns
    assert before_ns < result.first_token_ns <= result.first_delta_ns <= events[-1].t_ns
    assert result.first_token_ns < result.last_token_ns
    assert [event.tokens for event in events] == sorted(event.tokens for event in events)
    assert events[-1].tokens == count


def test_a_lone_end_of_text_generates_nothing(open_engine: OpenEngine, say: Any) -> None:
    engine = open_engine()
    say(engine, "")
    result = engine.open_sequence().generate(GenerationRequest(HELLO))
    assert result.empty
    assert result.usage.output == 0
    assert result.first_token_ns is result.first_delta_ns is result.last_token_ns is None
    assert result.finish_reason == "stop"


def test_a_character_of_several_tokens_is_shown_whole(open_engine: OpenEngine, say: Any) -> None:
    engine = open_engine()
    assert say(engine, "a🚀b") == 6
    events: list[TokenEvent] = []
    result = engine.open_sequence().generate(GenerationRequest(HELLO), events.append)
    assert [event.text for event in events] == ["a", "🚀", "b"]
    assert [event.tokens for event in events] == [1, 5, 6]
    assert result.usage.output == 6


def test_a_character_cut_short_becomes_a_replacement(open_engine: OpenEngine, say: Any) -> None:
    engine = open_engine()
    say(engine, "a🚀b")
    result = engine.open_sequence().generate(GenerationRequest(HELLO, max_tokens=3))
    assert result.text == "a\ufffd"
    assert result.finish_reason == "length"


def test_a_stop_string_across_tokens_never_shows(open_engine: OpenEngine, say: Any) -> None:
    engine = open_engine()
    say(engine, "one STOP two")
    events: list[TokenEvent] = []
    result = engine.open_sequence().generate(
        GenerationRequest(HELLO, stop=("STOP", "zzz")), events.append
    )
    assert result.text.rstrip() == "one"
    assert "S" not in "".join(event.text for event in events)
    assert result.finish_reason == "stop"
    assert result.usage.output == len(engine.shared.vocabulary.tokenize("one STOP"))


def test_a_tool_call_is_parsed(open_engine: OpenEngine, say: Any) -> None:
    engine = open_engine("tools")
    assert engine.capabilities.tools
    assert engine.capabilities.tool_format == "hermes"
    say(engine, 'ok<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>')
    result = engine.open_sequence().generate(
        GenerationRequest(HELLO, tools=(ToolSpec("bash"),), max_tokens=200)
    )
    assert result.text == "ok"
    assert [(call.name, call.arguments) for call in result.tool_calls] == [
        ("bash", '{"command": "ls"}')
    ]
    assert result.finish_reason == "tool_calls"


def test_control_tokens_are_not_text(open_engine: OpenEngine, say: Any) -> None:
    engine = open_engine()
    say(engine, "a<|im_start|>b")
    assert engine.open_sequence().generate(GenerationRequest(HELLO)).text == "ab"


def test_exactly_full_works_and_one_more_does_not(open_engine: OpenEngine) -> None:
    engine = open_engine(context_tokens=256)
    assert engine.capabilities.context_tokens == 256
    assert engine.info.details["context_tokens"] == 256
    sequence = engine.open_sequence()
    prompt = sequence.generate(GenerationRequest(HELLO, max_tokens=1)).usage.prompt
    full = GenerationRequest(HELLO, max_tokens=256 - prompt, output_length="recorded",
                             recorded=RecordedReply("x" * 300))  # fmt: skip
    assert sequence.generate(full).usage.output == 256 - prompt
    with pytest.raises(ContextOverflowError, match=f"{prompt} tokens.*257.*context of 256"):
        sequence.generate(replace(full, max_tokens=256 - prompt + 1))
    with pytest.raises(ContextOverflowError):
        sequence.generate(GenerationRequest((user(chatter(1, 500)),), max_tokens=1))
    assert sequence.generate(full).usage.output == 256 - prompt


def test_the_effective_context_is_recorded(open_engine: OpenEngine) -> None:
    assert open_engine(context_tokens=300).capabilities.context_tokens == 512
    assert open_engine(context_tokens=300, sequences=3).capabilities.context_tokens == 512
    auto = open_engine()
    assert auto.capabilities.context_tokens == 2048
    longer = open_engine(context_tokens=4096)
    assert any("longer than the 2048" in warning for warning in longer.info.warnings)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (RecordedReply("the cat"), "the cat"),
        (
            RecordedReply("", "", (ToolCall("1", "bash", '{"command": "ls"}'),)),
            '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>',
        ),
    ],
)
def test_recorded_length_is_the_template_s(
    open_engine: OpenEngine, reply: RecordedReply, expected: str
) -> None:
    engine = open_engine("tools")
    count = len(engine.shared.vocabulary.tokenize(expected))
    sequence = engine.open_sequence()
    request = GenerationRequest(HELLO, output_length="recorded", recorded=reply)
    result = sequence.generate(request)
    assert result.usage.output == count
    assert sequence.generate(replace(request, max_tokens=3)).usage.output == 3


def test_recorded_length_ignores_end_of_text_and_stop_strings(open_engine: OpenEngine) -> None:
    engine = open_engine()
    request = GenerationRequest(
        HELLO,
        output_length="recorded",
        recorded=RecordedReply(chatter(1, 60)),
        stop=("a", "e", "t"),
        max_tokens=500,
    )
    result = engine.open_sequence().generate(request)
    assert result.usage.output == len(engine.shared.vocabulary.tokenize(chatter(1, 60)))
    assert not set(result.text) & set("aet")


def test_an_empty_recorded_reply_still_decodes_one_token(open_engine: OpenEngine) -> None:
    request = GenerationRequest(HELLO, output_length="recorded", recorded=RecordedReply())
    assert open_engine().open_sequence().generate(request).usage.output == 1


def draw(open_engine: OpenEngine, seed: int) -> Generation:
    engine = open_engine()
    return engine.open_sequence().generate(
        GenerationRequest(HELLO, max_tokens=30, temperature=1.0, seed=seed)
    )


def test_the_seed_decides(open_engine: OpenEngine) -> None:
    assert draw(open_engine, 1).text == draw(open_engine, 1).text != draw(open_engine, 2).text
    draw(open_engine, 0xFFFFFFFF)
    draw(open_engine, -1)


def test_a_model_without_template_gets_chatml_and_a_warning(open_engine: OpenEngine) -> None:
    engine = open_engine("bare")
    assert any("no chat template" in warning for warning in engine.info.warnings)
    assert not engine.capabilities.tools
    with_template = open_engine("attention").open_sequence()
    request = GenerationRequest((Message("system", "s"), user("u")), max_tokens=8)
    assert engine.open_sequence().generate(request).text == with_template.generate(request).text


def test_tools_are_not_shown_to_a_template_that_takes_none(open_engine: OpenEngine) -> None:
    engine = open_engine()
    assert not engine.capabilities.tools
    sequence = engine.open_sequence()
    plain = sequence.generate(GenerationRequest(HELLO, max_tokens=4)).usage.prompt
    with_tools = GenerationRequest(HELLO, tools=(ToolSpec("bash"),), max_tokens=4)
    assert sequence.generate(with_tools).usage.prompt == plain


def test_the_record_names_the_stack(open_engine: OpenEngine) -> None:
    info = open_engine(kv_type="q8_0", flash_attention="on").info
    assert info.runtime == "llama.cpp"
    assert info.runtime_version.startswith("llama-cpp-python 0.")
    assert (info.architecture, info.kv_precision, info.threads) == ("llama", "q8_0", 1)
    assert info.weights_precision == "all F32"
    assert info.load_ns > 0
    assert info.details["flash_attention"] == "on"
    assert "CPU" in info.details["system_info"]
    assert open_engine(flash_attention="auto").info.details["flash_attention"] in ("on", "off")


def test_max_tokens_must_be_positive(open_engine: OpenEngine) -> None:
    with pytest.raises(EngineError, match="at least 1"):
        open_engine().open_sequence().generate(GenerationRequest(HELLO, max_tokens=0))


def test_planted_delays_land_in_their_parts(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 ms each in rendering, tokenizing, evaluating a prompt and a token, and a callback."""
    import time

    engine = open_engine()
    sequence = engine.open_sequence()
    delay_s = 0.02

    def slow(function: Any) -> Any:
        def call(*arguments: Any, **keys: Any) -> Any:
            time.sleep(delay_s)
            return function(*arguments, **keys)

        return call

    request = GenerationRequest((user(chatter(1, 20)),), max_tokens=2)
    planted: dict[str, tuple[Any, str]] = {
        "render": (engine.shared.template, "render"),
        "tokenize": (sequence._tokenizer, "tokenize"),
        "prefill": (engine.worker._context, "synchronize"),
        "decode": (engine.worker._context, "logits"),
        "parse": (engine.shared.vocabulary, "piece"),
    }
    for part, (owner, name) in planted.items():
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, slow(getattr(owner, name)))
            assert sequence.generate(request).ledger_ns[part] >= delay_s * 1e9
        assert sequence.generate(request).ledger_ns[part] < delay_s * 1e9 * 50
    shown = sequence.generate(request, lambda _event: time.sleep(delay_s))
    assert shown.ledger_ns["overhead"] >= delay_s * 1e9
