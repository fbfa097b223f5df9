"""Tiny GGUF files for tests: a valid one, and any way of breaking it."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

U32, F32, BOOL, STRING, ARRAY, U64, I32 = 4, 6, 7, 8, 9, 10, 5
ALIGNMENT = 32


class Raw(NamedTuple):
    """A metadata value given as its type and bytes, for what no sane writer would write."""

    type_id: int
    payload: bytes


class TensorSpec(NamedTuple):
    """`offset` None: where it belongs. `type_id` 0 is F32."""

    name: str
    shape: tuple[int, ...]
    type_id: int = 0
    offset: int | None = None
    bytes: int | None = None


Value = str | bool | int | float | Sequence[str] | Sequence[int] | Raw

METADATA: dict[str, Value] = {
    "general.architecture": "llama",
    "general.type": "model",
    "general.name": "Tiny",
    "general.file_type": 0,
    "llama.context_length": 128,
    "llama.block_count": 1,
    "llama.embedding_length": 8,
    "llama.attention.head_count": 2,
    "llama.attention.head_count_kv": 1,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "qwen2",
    "tokenizer.ggml.tokens": ["a", "b", "<|end|>"],
    "tokenizer.ggml.token_type": [1, 1, 3],
    "tokenizer.ggml.bos_token_id": 2,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.add_bos_token": False,
    "tokenizer.chat_template": "{{ messages }}",
}
TENSORS = (TensorSpec("token_embd.weight", (8, 3)), TensorSpec("output.weight", (8, 3)))


def gguf_bytes(
    metadata: Mapping[str, Value] | Sequence[tuple[str, Value]] = METADATA,
    tensors: Sequence[TensorSpec] = TENSORS,
    *,
    version: int = 3,
    order: str = "<",
    metadata_count: int | None = None,
    tensor_count: int | None = None,
    alignment: int = ALIGNMENT,
    data: bool = True,
) -> bytes:
    """A GGUF file. Counts default to the truth; `data=False` leaves the tensors' data out."""
    pairs = list(metadata.items()) if isinstance(metadata, Mapping) else list(metadata)
    count = len(pairs) if metadata_count is None else metadata_count
    tensor_total = len(tensors) if tensor_count is None else tensor_count
    out = bytearray(b"GGUF" + struct.pack(f"{order}IQQ", version, tensor_total, count))
    for key, value in pairs:
        type_id, payload = _encode(value, order)
        out += _string(key, order) + struct.pack(f"{order}I", type_id) + payload
    offset = 0
    for tensor in tensors:
        placed = offset if tensor.offset is None else tensor.offset
        out += _string(tensor.name, order) + struct.pack(f"{order}I", len(tensor.shape))
        out += struct.pack(f"{order}{len(tensor.shape)}q", *tensor.shape)
        out += struct.pack(f"{order}IQ", tensor.type_id, placed)
        offset = _pad(offset + _bytes_of(tensor), alignment)
    out += b"\0" * (_pad(len(out), alignment) - len(out))
    if data:
        out += bytes(offset)
    return bytes(out)


def write_gguf(path: Path, **changes: object) -> Path:
    """Write `gguf_bytes(**changes)` to `path`."""
    path.write_bytes(gguf_bytes(**changes))  # type: ignore[arg-type]
    return path


def write_split(folder: Path, shards: int = 3, stem: str = "tiny") -> list[Path]:
    """A split model: the first shard has the metadata, every shard one tensor."""
    paths = []
    for number in range(shards):
        split = {"split.no": number, "split.count": shards}
        metadata = METADATA | split if number == 0 else split
        path = folder / f"{stem}-{number + 1:05}-of-{shards:05}.gguf"
        tensors = (TensorSpec(f"blk.{number}.weight", (8, 3)),)
        paths.append(write_gguf(path, metadata=metadata, tensors=tensors))
    return paths


def _bytes_of(tensor: TensorSpec) -> int:
    if tensor.bytes is not None:
        return tensor.bytes
    elements = 1
    for length in tensor.shape:
        elements *= max(length, 0)
    return min(elements * 4, 1 << 16)


def _encode(value: Value, order: str) -> tuple[int, bytes]:
    match value:
        case Raw(type_id, payload):
            return type_id, payload
        case bool():
            return BOOL, struct.pack("?", value)
        case str():
            return STRING, _string(value, order)
        case int():
            return U32, struct.pack(f"{order}I", value)
        case float():
            return F32, struct.pack(f"{order}f", value)
    if value and isinstance(value[0], str):
        items = b"".join(_string(str(item), order) for item in value)
        return ARRAY, struct.pack(f"{order}IQ", STRING, len(value)) + items
    numbers = struct.pack(f"{order}{len(value)}i", *value)
    return ARRAY, struct.pack(f"{order}IQ", I32, len(value)) + numbers


def _string(text: str, order: str) -> bytes:
    raw = text.encode()
    return struct.pack(f"{order}Q", len(raw)) + raw


def _pad(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
