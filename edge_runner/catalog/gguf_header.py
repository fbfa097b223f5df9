"""Read a GGUF header: bounded in time and memory whatever the file declares.

Layout (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): magic, version, tensor count,
metadata count; the metadata; a description of each tensor; padding; the tensors' data. Every count
is checked against a cap and against the bytes that are left before anything is read or skipped, and
long arrays are skipped, so no file can keep the reader busy. The caps are several times what real
models have (262,144 tokens and 514,906 merges, 15 MB, are a large vocabulary).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from edge_runner.catalog import ggml
from edge_runner.errors import ModelFileError

MAGIC = b"GGUF"
VERSIONS = (2, 3)

MAX_HEADER_BYTES = 256 << 20
MAX_METADATA = 65_536
MAX_TENSORS = 65_536
MAX_KEY_BYTES = 65_535
MAX_STRING_BYTES = 16 << 20
MAX_ARRAY_STRINGS = 2_000_000
MAX_ALIGNMENT = 1 << 20

# What is kept in memory: characters of keys and texts, and numbers of arrays up to a length.
MAX_KEPT_CHARACTERS = 16 << 20
MAX_KEPT_NUMBERS = 1 << 20
MAX_KEPT_ARRAY = 4_096

Scalar = str | int | float | bool
Value = Scalar | tuple[int | float | bool, ...]

_STRING, _ARRAY = 8, 9
_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q"}
_FORMATS |= {12: "d"}
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_WINDOW_BYTES = 1 << 18


class Tensor(NamedTuple):
    name: str
    elements: int
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Header:
    """What one file declares. `metadata` has scalars and short numeric arrays; `array_lengths` the
    length of every array. `data_start` is where the tensors' data begins."""

    version: int
    metadata: Mapping[str, Value]
    array_lengths: Mapping[str, int]
    tensors: tuple[Tensor, ...]
    data_start: int


def read_header(file: BinaryIO, size: int, path: Path) -> Header:
    """Read and check the header of a GGUF file of `size` bytes. Raises ModelFileError."""
    cursor = _Cursor(file, size, path)
    version = _version(cursor)
    tensor_count = cursor.u64()
    metadata_count = cursor.u64()
    cursor.cap(tensor_count, MAX_TENSORS, "tensors")
    cursor.cap(metadata_count, MAX_METADATA, "metadata entries")
    # The smallest metadata entry takes 13 bytes, the smallest tensor description 32.
    cursor.expect(metadata_count * 13 + tensor_count * 32)
    metadata, array_lengths = _metadata(cursor, metadata_count)
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not _is_power_of_two(alignment):
        raise cursor.problem(f"declares an alignment of {alignment!r}, not a power of two")
    tensors = _tensors(cursor, tensor_count, alignment)
    data_start = _align(cursor.position, alignment)
    return Header(version, metadata, array_lengths, tensors, data_start)


class _Cursor:
    """Reads forward through a small window; refuses to go past the end of the file."""

    def __init__(self, file: BinaryIO, size: int, path: Path) -> None:
        self._file = file
        self._size = size
        self.path = path
        self._window = b""
        self._start = 0
        self._offset = 0

    @property
    def position(self) -> int:
        return self._start + self._offset

    def problem(self, what: str) -> ModelFileError:
        return ModelFileError(f"{self.path} is damaged: it {what}; fetch it again")

    def cap(self, count: int, limit: int, what: str) -> None:
        if count > limit:
            raise self.problem(f"declares {count} {what}, more than any model has ({limit})")

    def expect(self, count: int) -> None:
        """Raise unless `count` more bytes are in the file."""
        if self.position + count > MAX_HEADER_BYTES:
            raise self.problem(f"declares a header of more than {MAX_HEADER_BYTES >> 20} MiB")
        if self.position + count > self._size:
            raise ModelFileError(
                f"{self.path} is truncated: it ends inside its header, after {self._size} bytes; "
                "fetch it again"
            )

    def _fill(self, count: int) -> None:
        self.expect(count)
        self._start = self.position
        self._offset = 0
        self._file.seek(self._start)
        self._window = self._file.read(max(count, _WINDOW_BYTES))
        if len(self._window) < count:
            raise self.problem("became shorter while it was read")

    def take(self, count: int) -> bytes:
        if self._offset + count > len(self._window):
            self._fill(count)
        taken = self._window[self._offset : self._offset + count]
        self._offset += count
        return taken

    def skip(self, count: int) -> None:
        self.expect(count)
        self._offset += count
        if self._offset > len(self._window):
            self._start, self._offset, self._window = self.position, 0, b""

    def u32(self) -> int:
        return int(_U32.unpack(self.take(4))[0])

    def u64(self) -> int:
        return int(_U64.unpack(self.take(8))[0])

    def string(self, limit: int, what: str) -> str:
        length = self.u64()
        if length > limit:
            raise self.problem(f"declares {what} of {length} bytes, more than {limit}")
        return self.take(length).decode("utf-8", errors="replace")

    def skip_strings(self, count: int) -> None:
        unpack = _U64.unpack_from
        for _ in range(count):
            if self._offset + 8 > len(self._window):
                self._fill(8)
            length = unpack(self._window, self._offset)[0]
            self._offset += 8
            if length > MAX_STRING_BYTES:
                raise self.problem(f"declares a string of {length} bytes inside an array")
            if self._offset + length <= len(self._window):
                self._offset += length
            else:
                self.skip(length)


def _version(cursor: _Cursor) -> int:
    cursor.skip(len(MAGIC))
    version = cursor.u32()
    if version in VERSIONS:
        return version
    if int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS:
        raise ModelFileError(
            f"{cursor.path} is a big-endian GGUF file; this machine needs the little-endian one"
        )
    raise ModelFileError(
        f"{cursor.path} has GGUF version {version}; supported: "
        f"{', '.join(map(str, VERSIONS))}; convert it again with a current llama.cpp"
    )


def _metadata(cursor: _Cursor, count: int) -> tuple[dict[str, Value], dict[str, int]]:
    metadata: dict[str, Value] = {}
    array_lengths: dict[str, int] = {}
    characters = numbers = strings = 0
    for _ in range(count):
        key = cursor.string(MAX_KEY_BYTES, "a metadata key")
        characters += len(key)
        if key in metadata or key in array_lengths:
            raise cursor.problem(f"declares {key!r} twice")
        type_id = cursor.u32()
        if type_id == _ARRAY:
            element, length = cursor.u32(), cursor.u64()
            array_lengths[key] = length
            if element == _STRING:
                strings += length
                cursor.cap(strings, MAX_ARRAY_STRINGS, f"strings up to {key!r}")
                cursor.expect(length * 8)
                cursor.skip_strings(length)
            else:
                values = _numbers(cursor, key, element, length)
                if values is not None:
                    numbers += length
                    cursor.cap(numbers, MAX_KEPT_NUMBERS, f"numbers up to {key!r}")
                    metadata[key] = values
        elif type_id == _STRING:
            text = cursor.string(MAX_STRING_BYTES, f"the value of {key!r}")
            characters += len(text)
            metadata[key] = text
        else:
            metadata[key] = _scalar(cursor, key, type_id)
        cursor.cap(characters, MAX_KEPT_CHARACTERS, f"characters up to {key!r}")
    return metadata, array_lengths


def _scalar(cursor: _Cursor, key: str, type_id: int) -> Scalar:
    code = _format(cursor, key, type_id)
    value: Scalar = struct.unpack(f"<{code}", cursor.take(struct.calcsize(code)))[0]
    return value


def _numbers(
    cursor: _Cursor, key: str, type_id: int, length: int
) -> tuple[int | float | bool, ...] | None:
    """The values of a short array; a long one is skipped."""
    if type_id == _ARRAY:
        raise cursor.problem(f"declares an array of arrays, {key!r}, which llama.cpp refuses")
    code = _format(cursor, key, type_id)
    size = struct.calcsize(code) * length
    cursor.expect(size)
    if length > MAX_KEPT_ARRAY:
        cursor.skip(size)
        return None
    return struct.unpack(f"<{length}{code}", cursor.take(size))


def _format(cursor: _Cursor, key: str, type_id: int) -> str:
    code = _FORMATS.get(type_id)
    if code is None:
        raise cursor.problem(f"gives {key!r} the unknown value type {type_id}")
    return code


def _tensors(cursor: _Cursor, count: int, alignment: int) -> tuple[Tensor, ...]:
    tensors = []
    names = set()
    expected = 0
    for _ in range(count):
        name = cursor.string(ggml.MAX_NAME_BYTES, "a tensor's name")
        if name in names:
            raise cursor.problem(f"describes tensor {name!r} twice")
        names.add(name)
        dimensions = cursor.u32()
        if dimensions > ggml.MAX_DIMS:
            raise cursor.problem(f"gives tensor {name!r} {dimensions} dimensions")
        shape = struct.unpack(f"<{dimensions}q", cursor.take(8 * dimensions))
        elements, size = _extent(cursor, name, shape, cursor.u32())
        offset = cursor.u64()
        if offset % alignment:
            raise cursor.problem(f"puts tensor {name!r} at {offset}, not a multiple of {alignment}")
        # llama.cpp demands it: one tensor after the other, in the order described.
        if offset != expected:
            raise cursor.problem(f"puts tensor {name!r} at {offset} where {expected} is due")
        expected = _align(offset + size, alignment)
        tensors.append(Tensor(name, elements, offset, size))
    return tuple(tensors)


def _extent(cursor: _Cursor, name: str, shape: tuple[int, ...], type_id: int) -> tuple[int, int]:
    """Elements and bytes of a tensor."""
    tensor_type = ggml.TENSOR_TYPES.get(type_id)
    if tensor_type is None:
        if type_id in ggml.REMOVED_TENSOR_TYPES:
            raise ModelFileError(
                f"{cursor.path} stores tensor {name!r} in type {type_id}, which llama.cpp no "
                "longer reads; get the file in a current quantization"
            )
        raise ModelFileError(
            f"{cursor.path} stores tensor {name!r} in type {type_id}, which "
            f"{ggml.RUNTIME} {ggml.runtime_version()} does not know; a newer version may"
        )
    elements = 1
    for length in shape:
        if length < 0:
            raise cursor.problem(f"gives tensor {name!r} the negative dimension {length}")
        elements *= length
    if elements >= 1 << 63:
        raise cursor.problem(f"gives tensor {name!r} {elements} elements")
    row = shape[0] if shape else 1
    if row % tensor_type.block_elements:
        raise cursor.problem(
            f"gives tensor {name!r} rows of {row}, not a multiple of "
            f"{tensor_type.name}'s block of {tensor_type.block_elements}"
        )
    return elements, elements // tensor_type.block_elements * tensor_type.block_bytes


def _align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def _is_power_of_two(number: int) -> bool:
    return 0 < number <= MAX_ALIGNMENT and number & (number - 1) == 0
