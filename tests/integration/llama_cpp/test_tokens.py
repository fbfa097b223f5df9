"""Tokenizing the growing prompt from its last special token gives what the whole text gives."""

from __future__ import annotations

import random

import pytest
from llama_cpp_support import OpenEngine, chatter
from tiny_models import BOS, EOT, IM_START, TOOL_CALL, TOOL_CALL_END

from edge_runner.devices.llama_cpp.tokens import PromptTokenizer
from edge_runner.errors import EngineClosedError

SPECIALS = (EOT, IM_START, TOOL_CALL, TOOL_CALL_END, BOS)


PLAIN = ("\n", "\n\n", " ", "<|im_", "start|>", "<", "|>", "é", "🚀", "the the", "a cat")
FRAGMENTS = (*SPECIALS, *PLAIN)


def random_text(generator: random.Random) -> str:
    return "".join(generator.choices(FRAGMENTS, k=generator.randrange(1, 12)))


@pytest.mark.parametrize("name", ["attention", "bos"])
def test_incremental_equals_whole(open_engine: OpenEngine, name: str) -> None:
    model = open_engine(name).shared
    assert IM_START in model.anchors
    generator = random.Random(7)
    tokenizer = PromptTokenizer(model.vocabulary, model.anchors)
    text = ""
    for _ in range(400):
        keep = generator.randrange(len(text) + 1) if generator.random() < 0.3 else len(text)
        text = text[:keep] + random_text(generator)
        text = text if len(text) < 2000 else random_text(generator)
        whole = model.vocabulary.bos(text) + model.vocabulary.tokenize(text)
        assert tokenizer.tokenize(text) == whole
        longer = text + random_text(generator)
        if (beyond := tokenizer.tokens_beyond(longer)) is not None:
            both = model.vocabulary.bos(longer) + model.vocabulary.tokenize(longer)
            assert whole + beyond == both


def test_a_growing_prompt_is_tokenized_from_its_last_special_token(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = open_engine().shared
    tokenizer = PromptTokenizer(model.vocabulary, model.anchors)
    text = f"{IM_START}user\n{chatter(1, 500)}{EOT}\n{IM_START}assistant\n"
    tokenizer.tokenize(text)
    seen: list[str] = []
    tokenize = model.vocabulary.tokenize
    monkeypatch.setattr(
        model.vocabulary, "tokenize", lambda part: seen.append(part) or tokenize(part)
    )
    tokenizer.tokenize(text + f"fine{EOT}\n{IM_START}user\nmore")
    assert len("".join(seen)) < 80


def test_exactly_one_bos(open_engine: OpenEngine) -> None:
    vocabulary = open_engine("bos").shared.vocabulary
    bos = vocabulary.tokenize(BOS)
    tokenizer = PromptTokenizer(vocabulary, ())
    for text in ("hello", BOS + "hello"):
        assert tokenizer.tokenize(text).count(bos[0]) == 1
        assert tokenizer.tokenize(text)[0] == bos[0]
    plain = open_engine("attention").shared.vocabulary
    assert plain.bos("hello") == []


def test_text_that_is_no_unicode_is_replaced(open_engine: OpenEngine) -> None:
    vocabulary = open_engine().shared.vocabulary
    assert vocabulary.tokenize("a\ud83d") == vocabulary.tokenize("a?")
    assert len(vocabulary.tokenize("a\0b")) == 3


def test_no_text_after_close(open_engine: OpenEngine) -> None:
    engine = open_engine()
    vocabulary = engine.shared.vocabulary
    engine.close()
    with pytest.raises(EngineClosedError):
        vocabulary.tokenize("hello")
