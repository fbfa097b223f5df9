"""Text as it leaves a model: bytes into characters, and nothing shown before it is safe.

A token is a few bytes of UTF-8. A character, a stop string or a tag may be spread over several
tokens, so a stream of text has to be held back wherever its end could still turn into one.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class Utf8Decoder:
    """Bytes in, whole characters out. Bytes that are no UTF-8 become U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> str:
        """The characters that are complete by now."""
        return self._decoder.decode(data)

    def finish(self) -> str:
        """What is left when nothing follows: U+FFFD for a character cut short, or nothing."""
        return self._decoder.decode(b"", final=True)


class StopStrings:
    """Passes text on up to the first stop string, which is never shown, not even in part.

    The string whose last character comes first wins (the longer one, of two that end together), so
    the result does not depend on how the text was split. Empty stop strings are ignored.
    """

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = tuple(text for text in stop if text)
        self._held = ""
        self.stopped = False

    def feed(self, text: str) -> str:
        """The text that is safe to show. Nothing comes out once `stopped` is true."""
        if self.stopped:
            return ""
        if not self._stop:
            return text
        buffer = self._held + text
        found = [
            (start + len(stop), start) for stop in self._stop if (start := buffer.find(stop)) >= 0
        ]
        if found:
            self.stopped = True
            self._held = ""
            return buffer[: min(found)[1]]
        shown = len(buffer) - held_length(buffer, self._stop)
        self._held = buffer[shown:]
        return buffer[:shown]

    def finish(self) -> str:
        """The text held back, when nothing follows."""
        held, self._held = self._held, ""
        return held


def held_length(text: str, tags: Sequence[str]) -> int:
    """How many characters at the end of `text` could be the beginning of one of `tags`."""
    for length in range(min(max(map(len, tags), default=0) - 1, len(text)), 0, -1):
        suffix = text[-length:]
        if any(len(tag) > length and tag.startswith(suffix) for tag in tags):
            return length
    return 0


def find_first(text: str, tags: Sequence[str], start: int = 0) -> tuple[int, str] | None:
    """Where the first of `tags` begins at or after `start`, and which one it is."""
    found = [(at, tag) for tag in tags if (at := text.find(tag, start)) >= 0]
    return min(found) if found else None
