"""Look into a GGUF file before a runtime loads it, and say what is wrong with it.

llama.cpp answers "failed to load model" to everything: a truncated file, a pointer file, a web
page, a missing shard. Here each has its own message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from edge_runner.catalog import ggml
from edge_runner.catalog.gguf_header import (
    MAGIC,
    MAX_HEADER_BYTES,
    MAX_TENSORS,
    Header,
    Value,
    read_header,
)
from edge_runner.errors import ModelFileError

MAX_SHARDS = 1_024

_SHARD_NAME = re.compile(r"^(?P<stem>.+)-(?P<no>\d{5})-of-(?P<count>\d{5})\.gguf$")
_TEMPLATE = "tokenizer.chat_template"

_LOOKS_LIKE = (
    (rb"version https://git-lfs", "a git-lfs pointer, not the model: run `git lfs pull`"),
    (rb"# xet version", "a Xet pointer, not the model: fetch it with the hub's own tools"),
    (rb"\s*<(!doctype|html|\?xml|head)", "a web page, not a model: the link or the login is wrong"),
    (rb".{8}\{\s*\"", "a safetensors file: convert it to GGUF with llama.cpp's tools"),
    (rb"PK\x03\x04", "a zip archive (a PyTorch checkpoint or a wheel), not a GGUF file"),
    (rb"\x08[\x01-\x0c](\x12|\x1a|:|\")", "an ONNX model, not a GGUF file"),
    (rb"(lmgg|fmgg|tjgg|ggml|ggmf|ggjt)", "a GGML file from before GGUF: convert it again"),
    (rb"FUGG", "a big-endian GGUF file: get the little-endian one"),
    (rb"\x1f\x8b|\x28\xb5\x2f\xfd|BZh|\xfd7zXZ", "a compressed file: unpack it first"),
    (rb"\s*[\{\[]", "a JSON text, not a model: perhaps a server's error message"),
    (rb"\x00{8}", "filled with zeros: an unfinished download; fetch it again"),
)


@dataclass(frozen=True, slots=True)
class GgufInfo:
    """What a GGUF model says about itself, summed over its shards.

    `path` is the first shard. `parameters` counts the elements of all tensors, `tensor_bytes` their
    bytes, `file_bytes` all files. `quantization` is the name of `general.file_type`, such as
    "Q4_K_M". `head_count_kv` is a tuple where it differs by layer. `chat_templates` maps a
    template's name to its source, the default one under "". `metadata` has all scalars and short
    numeric arrays; the tokenizer's vocabulary is only counted. Fields the file lacks are None.
    """

    path: Path
    version: int
    architecture: str
    name: str | None
    type: str | None
    quantization: str | None
    parameters: int
    tensors: int
    tensor_bytes: int
    file_bytes: int
    shards: tuple[Path, ...]
    context_length: int | None
    block_count: int | None
    embedding_length: int | None
    head_count: Value | None
    head_count_kv: Value | None
    pooling_type: int | None
    vocabulary: int | None
    tokenizer: str | None
    tokenizer_pre: str | None
    bos_token_id: int | None
    eos_token_id: int | None
    add_bos_token: bool | None
    chat_templates: Mapping[str, str]
    metadata: Mapping[str, Value]

    @property
    def chat_template(self) -> str | None:
        """Source of the default chat template. Untrusted: render it in a sandbox."""
        return self.chat_templates.get("")


def inspect(path: Path | str) -> GgufInfo:
    """Read the header of a model and check that its files are whole.

    Takes well under 2 s and some tens of MB whatever the file declares; no tensor is read. Raises
    ModelFileError with one message a kind of damage.
    """
    path = Path(path)
    header, size = _open(path)
    shards, headers, sizes = _shards(path, header, size)
    for shard, shard_header, shard_size in zip(shards, headers, sizes, strict=True):
        _check_data(shard, shard_header, shard_size, split=len(shards) > 1)
    info = _info(path, header, shards, headers, sum(sizes))
    _check_architecture(info)
    return info


def is_gguf(path: Path) -> bool:
    """By its name or, for one like Ollama's that has no ending, by its first bytes."""
    if path.suffix == ".gguf":
        return True
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def require_generator(info: GgufInfo) -> None:
    """Raise ModelFileError when text cannot come out of the model: an embedding model, a LoRA
    adapter, a projector, a draft head."""
    why = None
    if info.type not in {None, "model"}:
        why = f"it is of type {info.type!r}"
    elif info.architecture in ggml.NOT_GENERATORS:
        why = f"its architecture is {info.architecture!r}"
    elif info.pooling_type:
        why = f"it pools its outputs (pooling type {info.pooling_type})"
    elif info.metadata.get(f"{info.architecture}.attention.causal") is False:
        why = "its attention is not causal"
    if why:
        raise ModelFileError(f"{info.path} cannot generate text: {why}; give a language model")


def _open(path: Path) -> tuple[Header, int]:
    """The header and size of one file."""
    try:
        if path.is_dir():
            raise ModelFileError(f"{path} is a folder; give the .gguf file in it")
        if not path.exists():
            raise ModelFileError(f"{path} does not exist")
        if not path.is_file():
            raise ModelFileError(f"{path} is not a regular file")
        with path.open("rb") as file:
            size = path.stat().st_size
            start = file.read(512)
            if not start:
                raise ModelFileError(f"{path} is empty; fetch it again")
            if not start.startswith(MAGIC):
                raise ModelFileError(f"{path} is {_what_is_it(start)}")
            return read_header(file, size, path), size
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from error


def _what_is_it(start: bytes) -> str:
    for pattern, what in _LOOKS_LIKE:
        if re.match(pattern, start, re.IGNORECASE | re.DOTALL):
            return what
    return f"not a GGUF file: it begins with {start[:4]!r} instead of {MAGIC!r}"


def _shards(
    path: Path, header: Header, size: int
) -> tuple[tuple[Path, ...], list[Header], list[int]]:
    """All files of a split model with their headers; just the one of a whole model."""
    count = _integer(header, "split.count") or 0
    if count <= 1:
        return (path,), [header], [size]
    number = (_integer(header, "split.no") or 0) + 1
    match = _SHARD_NAME.match(path.name)
    if match is None or int(match["count"]) != count or int(match["no"]) != number:
        raise ModelFileError(
            f"{path} is part {number} of {count} of a split model, but its name does not end in "
            f"-{number:05}-of-{count:05}.gguf; give it its original name"
        )
    if count > MAX_SHARDS:
        raise ModelFileError(f"{path} is damaged: it declares {count} shards; fetch it again")
    names = [f"{match['stem']}-{n:05}-of-{count:05}.gguf" for n in range(1, count + 1)]
    if number != 1:
        raise ModelFileError(f"{path} is part {number} of {count}; give the first: {names[0]}")
    shards = tuple(path.with_name(name) for name in names)
    absent = [shard.name for shard in shards if not shard.is_file()]
    if absent:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        raise ModelFileError(f"{path.parent} lacks {absent[0]}{more}, a shard of {path.name}")
    headers, sizes = [header], [size]
    tensors, header_bytes = len(header.tensors), header.data_start
    for n, shard in enumerate(shards[1:], start=1):
        other, other_size = _open(shard)
        if _integer(other, "split.no") != n or _integer(other, "split.count") != count:
            raise ModelFileError(f"{shard} is not the shard its name says; fetch it again")
        tensors += len(other.tensors)
        header_bytes += other.data_start
        if tensors > MAX_TENSORS or header_bytes > MAX_HEADER_BYTES:
            raise ModelFileError(
                f"{path} is damaged: the headers of its shards take {header_bytes} bytes and "
                f"describe {tensors} tensors; fetch it again"
            )
        # Only the first shard's metadata counts; the others repeat a part of it.
        headers.append(replace(other, metadata={}, array_lengths={}))
        sizes.append(other_size)
    return shards, headers, sizes


def _check_data(path: Path, header: Header, size: int, *, split: bool) -> None:
    if not header.tensors:
        # The first shard of a split model may carry the metadata alone.
        if split:
            return
        raise ModelFileError(
            f"{path} holds metadata but no tensor (a vocabulary file?); give the whole model"
        )
    last = header.tensors[-1]
    needed = header.data_start + last.offset + last.bytes
    if size >= needed:
        return
    if size <= header.data_start:
        raise ModelFileError(
            f"{path} is only a header: {len(header.tensors)} tensors are described but none of "
            f"their {needed - header.data_start} bytes follows; fetch it again"
        )
    raise ModelFileError(
        f"{path} is truncated: {size} bytes of the {needed} it declares "
        f"({100 * size / needed:.1f} %); fetch it again"
    )


def _check_architecture(info: GgufInfo) -> None:
    if info.architecture in ggml.ARCHITECTURES or ggml.runtime_is_newer():
        return
    raise ModelFileError(
        f"{info.path} has architecture {info.architecture!r}, which {ggml.RUNTIME} "
        f"{ggml.runtime_version()} does not know; a newer version may"
    )


def _info(
    path: Path, header: Header, shards: tuple[Path, ...], headers: list[Header], file_bytes: int
) -> GgufInfo:
    metadata = header.metadata
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise ModelFileError(f"{path} does not say its architecture; convert the model again")
    file_type = _integer(header, "general.file_type")
    tensors = [tensor for each in headers for tensor in each.tensors]
    templates = {
        key.removeprefix(_TEMPLATE).removeprefix("."): text
        for key, text in metadata.items()
        if isinstance(text, str) and (key == _TEMPLATE or key.startswith(f"{_TEMPLATE}."))
    }
    add_bos = metadata.get("tokenizer.ggml.add_bos_token")
    return GgufInfo(
        path=path,
        version=header.version,
        architecture=architecture,
        name=_text(header, "general.name"),
        type=_text(header, "general.type"),
        quantization=None if file_type is None else ggml.FILE_TYPES.get(file_type),
        parameters=sum(tensor.elements for tensor in tensors),
        tensors=len(tensors),
        tensor_bytes=sum(tensor.bytes for tensor in tensors),
        file_bytes=file_bytes,
        shards=shards,
        context_length=_integer(header, f"{architecture}.context_length"),
        block_count=_integer(header, f"{architecture}.block_count"),
        embedding_length=_integer(header, f"{architecture}.embedding_length"),
        head_count=metadata.get(f"{architecture}.attention.head_count"),
        head_count_kv=metadata.get(f"{architecture}.attention.head_count_kv"),
        pooling_type=_integer(header, f"{architecture}.pooling_type"),
        vocabulary=header.array_lengths.get("tokenizer.ggml.tokens"),
        tokenizer=_text(header, "tokenizer.ggml.model"),
        tokenizer_pre=_text(header, "tokenizer.ggml.pre"),
        bos_token_id=_integer(header, "tokenizer.ggml.bos_token_id"),
        eos_token_id=_integer(header, "tokenizer.ggml.eos_token_id"),
        add_bos_token=add_bos if isinstance(add_bos, bool) else None,
        chat_templates=templates,
        metadata=metadata,
    )


def _text(header: Header, key: str) -> str | None:
    value = header.metadata.get(key)
    return value if isinstance(value, str) else None


def _integer(header: Header, key: str) -> int | None:
    value = header.metadata.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
