"""Whatever the bytes, inspection ends with a description or with one clear error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from gguf_files import gguf_bytes, write_split
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runner.catalog.gguf import inspect, require_generator
from edge_runner.errors import ModelFileError

TINY = gguf_bytes()
INTERESTING = st.sampled_from([b"\xff" * 8, b"\0" * 8, b"\x09\0\0\0", b"\xff\xff\xff\x7f", b"\x80"])


@st.composite
def mutated(draw: Callable[..., object], content: bytes = TINY) -> bytes:
    """A few overwrites, insertions, deletions and a cut."""
    out = bytearray(content)
    for _ in range(draw(st.integers(1, 6))):  # type: ignore[call-overload]
        at = draw(st.integers(0, max(len(out) - 1, 0)))
        piece = draw(st.one_of(INTERESTING, st.binary(min_size=1, max_size=9)))
        assert isinstance(at, int)
        assert isinstance(piece, bytes)
        match draw(st.sampled_from(["overwrite", "insert", "delete", "cut"])):
            case "overwrite":
                out[at : at + len(piece)] = piece
            case "insert":
                out[at:at] = piece
            case "delete":
                del out[at : at + len(piece)]
            case "cut":
                del out[max(at, len(out) // 2) :]
    return bytes(out)


def outcome(path: Path) -> str:
    """What is wrong with the file, or nothing; any other exception fails the test."""
    try:
        require_generator(inspect(path))
    except ModelFileError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@settings(max_examples=600, deadline=2000, database=None)
@given(content=mutated())
def test_mutated_files(folder: Path, content: bytes) -> None:
    path = folder / "model.gguf"
    path.write_bytes(content)
    assert "\n" not in outcome(path)


@settings(max_examples=300, deadline=2000, database=None)
@given(content=st.binary(max_size=400))
def test_random_bytes_behind_the_magic(folder: Path, content: bytes) -> None:
    path = folder / "model.gguf"
    path.write_bytes(b"GGUF\x03\0\0\0" + content)
    assert "\n" not in outcome(path)


@settings(max_examples=200, deadline=2000, database=None)
@given(content=mutated(gguf_bytes({"split.no": 1, "split.count": 3})))
def test_mutated_shards(folder: Path, content: bytes) -> None:
    shards = write_split(folder)
    shards[1].write_bytes(content)
    assert "\n" not in outcome(shards[0])
