"""Bytes to characters and stop strings: the same whatever the split, and nothing leaks."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runner.devices.text import StopStrings, Utf8Decoder, held_length


def pieces(data: st.DataObject, whole: str | bytes) -> list[str] | list[bytes]:
    """`whole` cut at random positions."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]  # type: ignore[return-value]


def stopped_text(stop: tuple[str, ...], chunks: list[str]) -> tuple[str, bool]:
    stops = StopStrings(stop)
    shown = "".join([stops.feed(chunk) for chunk in chunks]) + stops.finish()
    return shown, stops.stopped


class TestUtf8Decoder:
    def test_a_character_comes_out_once_it_is_whole(self) -> None:
        decoder = Utf8Decoder()
        data = "a🙂".encode()
        assert [decoder.feed(data[i : i + 1]) for i in range(len(data))] == ["a", "", "", "", "🙂"]
        assert decoder.finish() == ""

    def test_invalid_and_unfinished_bytes_become_replacement_characters(self) -> None:
        decoder = Utf8Decoder()
        assert decoder.feed(b"a\xffb\xf0\x9f") == "a�b"
        assert decoder.finish() == "�"

    @given(st.binary(max_size=60), st.data())
    def test_any_split_gives_the_text_of_the_whole(self, raw: bytes, data: st.DataObject) -> None:
        decoder = Utf8Decoder()
        text = "".join([decoder.feed(piece) for piece in pieces(data, raw)]) + decoder.finish()  # type: ignore[arg-type]
        assert text == raw.decode(errors="replace")


class TestStopStrings:
    @pytest.mark.parametrize(
        ("stop", "text", "shown"),
        [
            (("STOP",), "go STOP on", "go "),
            (("STOP",), "go STO", "go STO"),
            (("\n\n", "###"), "a\nb###c\n\n", "a\nb"),
            (("abcd", "bc"), "abcd", "a"),
            (("bc", "abc"), "abc", ""),
            (("aab",), "aaab", "a"),
            (("",), "text", "text"),
            ((), "text", "text"),
        ],
    )
    def test_text_ends_before_the_stop_string(
        self, stop: tuple[str, ...], text: str, shown: str
    ) -> None:
        stopped = shown != text
        assert stopped_text(stop, [text]) == (shown, stopped)
        assert stopped_text(stop, list(text)) == (shown, stopped)

    def test_only_what_could_begin_a_stop_string_is_held(self) -> None:
        stops = StopStrings(("</end>",))
        assert stops.feed("x < y </e") == "x < y "
        assert stops.feed("x") == "</ex"

    def test_nothing_follows_a_stop(self) -> None:
        stops = StopStrings(("X",))
        assert stops.feed("aXb") == "a"
        assert (stops.feed("c"), stops.finish(), stops.stopped) == ("", "", True)

    @given(
        st.lists(st.text("ab", min_size=1, max_size=4), max_size=3).map(tuple),
        st.text("abc", max_size=40),
        st.data(),
    )
    def test_any_split_gives_the_same_and_never_leaks(
        self, stop: tuple[str, ...], text: str, data: st.DataObject
    ) -> None:
        shown, stopped = stopped_text(stop, pieces(data, text))  # type: ignore[arg-type]
        assert (shown, stopped) == stopped_text(stop, [text])
        assert not any(string in shown for string in stop)
        assert stopped == any(string in text for string in stop)
        assert text.startswith(shown)

    def test_time_is_linear_in_the_length(self) -> None:
        def best_s(repeats: int) -> float:
            chunks = list("</en " * repeats)
            times = []
            for _ in range(3):
                start = time.process_time()
                stopped_text(("</end>", "\n\n"), chunks)
                times.append(time.process_time() - start)
            return min(times)

        # Eight times the text: 8 if linear, 64 if quadratic.
        assert best_s(8000) < 30 * best_s(1000)


def test_held_length_is_the_longest_suffix_that_begins_a_tag() -> None:
    assert held_length("a<to", ("<tool>", "<think>")) == 3
    assert held_length("a<tool>", ("<tool>",)) == 0
    assert held_length("<<", ("<<<", "<x")) == 2
