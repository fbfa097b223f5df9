"""Reusing a prefix changes nothing but the time: logits and outputs equal a fresh context's."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from llama_cpp_support import OpenEngine, assistant, chatter, growing, user

from edge_runner.engines import Divergence, GenerationRequest
from edge_runner.errors import EngineError
from edge_runner.messages import Message, ToolSpec


def request(messages: tuple[Message, ...], **keys: Any) -> GenerationRequest:
    return GenerationRequest(messages, **{"max_tokens": 12} | keys)


@pytest.mark.parametrize("batch_tokens", [16, 64, 256])
@pytest.mark.parametrize("flash_attention", ["off", "on"])
def test_a_growing_conversation_equals_fresh_contexts(
    open_engine: OpenEngine, first_logits: list[Any], flash_attention: str, batch_tokens: int
) -> None:
    engine = open_engine(
        batch_tokens=batch_tokens,
        flash_attention=flash_attention,
        sequences=2,
        context_tokens=4096,
    )
    assert engine.capabilities.prefix_reuse == "exact"
    kept, fresh = engine.open_sequence(), engine.open_sequence()
    reused = 0
    for messages in growing(seed=3, turns=12):
        once = kept.generate(request(messages))
        fresh.reset()
        again = fresh.generate(request(messages))
        assert np.array_equal(first_logits[-2], first_logits[-1])
        assert once.text == again.text
        assert once.divergence is again.divergence is None
        assert again.usage.cached == 0
        assert once.usage.prompt == once.usage.cached + once.usage.evaluated
        reused += once.usage.cached
    assert reused > 0


def test_any_edit_of_the_history_equals_a_fresh_context(
    open_engine: OpenEngine, first_logits: list[Any]
) -> None:
    engine = open_engine(batch_tokens=32, sequences=2)
    kept, fresh = engine.open_sequence(), engine.open_sequence()
    generator = random.Random(5)
    text = chatter(5, 300)
    for _ in range(40):
        at = generator.randrange(len(text))
        text = text[:at] + chatter(generator.randrange(10**6), generator.randrange(1, 120))
        text = text[:1500]
        messages = (user(text),)
        once = kept.generate(request(messages, max_tokens=4))
        fresh.reset()
        again = fresh.generate(request(messages, max_tokens=4))
        assert np.array_equal(first_logits[-2], first_logits[-1]), once.usage
        assert once.text == again.text


def test_usage_and_divergence(open_engine: OpenEngine) -> None:
    sequence = open_engine().open_sequence()
    history = (Message("system", "be brief"), user(chatter(1, 60)))
    cold = sequence.generate(request(history))
    assert cold.divergence is None
    assert (cold.usage.cached, cold.usage.new) == (0, cold.usage.prompt)

    longer = (*history, assistant("fine"), user(chatter(2, 20)))
    grown = sequence.generate(request(longer))
    assert grown.divergence is None
    assert grown.usage.new == grown.usage.prompt - cold.usage.prompt
    assert 0 <= cold.usage.prompt - grown.usage.cached < 4

    edited = (history[0], user("X" + history[1].content))
    changed = sequence.generate(request(edited))
    assert changed.divergence is not None
    assert changed.divergence.reason == "history replaced"
    index = changed.divergence.index
    assert changed.usage.new == changed.usage.prompt - index
    assert index - 12 < changed.usage.cached <= index

    again = sequence.generate(request(edited))
    assert again.divergence is None
    assert again.usage.new == 0
    assert 0 < again.usage.evaluated <= 12


def test_a_template_that_rewrites_the_past_is_named(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine()
    sequence = engine.open_sequence()
    history = (user(chatter(1, 30)),)
    sequence.generate(request(history))
    render = engine.shared.template.render
    monkeypatch.setattr(
        engine.shared.template,
        "render",
        lambda *arguments, **keys: render(*arguments, **keys).replace("user", "User", 1),
    )
    changed = sequence.generate(request((*history, assistant("fine"), user("more"))))
    assert changed.divergence is not None
    assert changed.divergence.reason == "template changed"


def test_new_tools_are_named(open_engine: OpenEngine) -> None:
    sequence = open_engine("tools").open_sequence()
    history = (user("hello"),)
    sequence.generate(request(history, tools=(ToolSpec("one"),)))
    changed = sequence.generate(request(history, tools=(ToolSpec("two"),)))
    assert changed.divergence is not None
    assert changed.divergence.reason == "tools changed"


def test_a_recurrent_model_evaluates_everything_and_says_so(
    open_engine: OpenEngine, first_logits: list[Any]
) -> None:
    engine = open_engine("recurrent", sequences=2)
    assert engine.capabilities.prefix_reuse == "none"
    kept, fresh = engine.open_sequence(), engine.open_sequence()
    previous = 0
    outputs = set()
    for messages in growing(seed=3, turns=4):
        once = kept.generate(request(messages))
        fresh.reset()
        again = fresh.generate(request(messages))
        assert np.array_equal(first_logits[-2], first_logits[-1])
        assert once.text == again.text
        assert once.usage.cached == 0
        expected = Divergence(previous, "cannot be trimmed") if previous else None
        assert once.divergence == expected
        previous = once.usage.prompt
        outputs.add(once.text)
    assert len(outputs) > 1


def test_sequences_do_not_see_each_other(open_engine: OpenEngine) -> None:
    engine = open_engine(sequences=3)
    alone = engine.open_sequence().generate(request((user("one"),))).text
    others = [engine.open_sequence() for _ in range(2)]
    for other in others:
        other.generate(request((user(chatter(9, 200)),)))
    others[0].reset()
    assert others[0].generate(request((user("one"),))).text == alone


def test_places_are_limited(open_engine: OpenEngine) -> None:
    engine = open_engine()
    engine.open_sequence()
    with pytest.raises(EngineError, match="all 1 sequences"):
        engine.open_sequence()


def test_close_gives_the_place_back(open_engine: OpenEngine) -> None:
    engine = open_engine()
    messages = (user(chatter(1, 60)),)
    first = engine.open_sequence()
    before = first.generate(request(messages))
    first.close()
    first.close()
    after = engine.open_sequence().generate(request(messages))
    assert after.usage.cached == 0
    assert after.text == before.text
