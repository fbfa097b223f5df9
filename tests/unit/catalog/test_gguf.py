"""Every way a GGUF file can be broken has its own message."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from gguf_files import (
    ARRAY,
    METADATA,
    STRING,
    TENSORS,
    U32,
    U64,
    Raw,
    TensorSpec,
    gguf_bytes,
    write_gguf,
    write_split,
)

from edge_runner.catalog.gguf import inspect, require_generator
from edge_runner.catalog.gguf_header import MAX_ARRAY_STRINGS, MAX_METADATA, MAX_TENSORS
from edge_runner.errors import ModelFileError


def problem_of(path: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        inspect(path)
    text = str(caught.value)
    assert "\n" not in text
    assert caught.value.exit_code == 4
    return text


def problem_of_bytes(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    return problem_of(path)


def test_a_valid_file_is_described(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "tiny.gguf")
    info = inspect(path)
    assert (info.architecture, info.name, info.quantization) == ("llama", "Tiny", "F32")
    assert (info.context_length, info.block_count, info.embedding_length) == (128, 1, 8)
    assert (info.head_count, info.head_count_kv) == (2, 1)
    assert (info.parameters, info.tensors, info.tensor_bytes) == (48, 2, 192)
    assert (info.vocabulary, info.tokenizer, info.tokenizer_pre) == (3, "gpt2", "qwen2")
    assert (info.bos_token_id, info.eos_token_id, info.add_bos_token) == (2, 2, False)
    assert info.chat_template == "{{ messages }}"
    assert info.shards == (path,)
    assert info.file_bytes == path.stat().st_size
    require_generator(info)


def test_our_reader_agrees_with_the_gguf_package(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    path = write_gguf(tmp_path / "tiny.gguf")
    reader = gguf.GGUFReader(path)
    info = inspect(path)
    assert len(reader.tensors) == info.tensors
    assert sum(int(tensor.n_bytes) for tensor in reader.tensors) == info.tensor_bytes
    assert sum(int(tensor.n_elements) for tensor in reader.tensors) == info.parameters


def test_named_templates_and_per_layer_heads(tmp_path: Path) -> None:
    extra = {"tokenizer.chat_template.tool_use": "T", "llama.attention.head_count_kv": [1, 2, 0]}
    info = inspect(write_gguf(tmp_path / "tiny.gguf", metadata=METADATA | extra))
    assert info.chat_templates == {"": "{{ messages }}", "tool_use": "T"}
    assert info.head_count_kv == (1, 2, 0)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "git-lfs pointer"),
        (b"# xet version 0\nfilesize = 1\n", "Xet pointer"),
        (b"<!DOCTYPE html><html></html>", "web page"),
        (b"\n <html>", "web page"),
        (struct.pack("<Q", 40) + b'{"a":{"dtype":"F32"}}', "safetensors"),
        (b"PK\x03\x04rest", "zip archive"),
        (b"\x08\x07\x12\x07pytorch", "ONNX"),
        (b"lmgg\x01\x00\x00\x00", "before GGUF"),
        (b"FUGG\x00\x00\x00\x03", "big-endian"),
        (b"\x1f\x8b\x08\x00", "compressed"),
        (b'{"error": "not found"}', "JSON"),
        (bytes(4096), "filled with zeros"),
        (b"what is this", "begins with b'what'"),
    ],
)
def test_other_files_are_told_apart(tmp_path: Path, content: bytes, says: str) -> None:
    assert says in problem_of_bytes(tmp_path, content)


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    assert "does not exist" in problem_of(tmp_path / "none.gguf")
    assert "is a folder" in problem_of(tmp_path)
    fifo = tmp_path / "pipe.gguf"
    os.mkfifo(fifo)
    assert "not a regular file" in problem_of(fifo)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "tiny.gguf")
    path.chmod(0)
    assert "Permission denied" in problem_of(path)


def test_an_error_while_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = write_gguf(tmp_path / "tiny.gguf")
    monkeypatch.setattr(Path, "open", fail)
    assert "cannot be read: Permission denied" in problem_of(path)


def test_header_only(tmp_path: Path) -> None:
    text = problem_of_bytes(tmp_path, gguf_bytes(data=False))
    assert "only a header: 2 tensors" in text
    assert "192 bytes" in text


def test_metadata_without_tensors(tmp_path: Path) -> None:
    assert "no tensor" in problem_of_bytes(tmp_path, gguf_bytes(tensors=()))


def test_truncation_gives_both_sizes(tmp_path: Path) -> None:
    whole = gguf_bytes()
    text = problem_of_bytes(tmp_path, whole[:-40])
    assert f"{len(whole) - 40} bytes of the {len(whole)}" in text


def test_every_cut_is_noticed(tmp_path: Path) -> None:
    whole = gguf_bytes()
    for length in range(len(whole)):
        problem_of_bytes(tmp_path, whole[:length])


def test_versions(tmp_path: Path) -> None:
    assert "big-endian" in problem_of_bytes(tmp_path, gguf_bytes(order=">"))
    assert "version 1; supported: 2, 3" in problem_of_bytes(tmp_path, gguf_bytes(version=1))
    assert "version 9" in problem_of_bytes(tmp_path, gguf_bytes(version=9))


HUGE = 1 << 60
ABSURD = {
    "tensors": gguf_bytes(tensor_count=HUGE),
    "metadata": gguf_bytes(metadata_count=HUGE),
    "long text": gguf_bytes({"a": Raw(STRING, struct.pack("<Q", HUGE))}),
    "long array": gguf_bytes({"a": Raw(ARRAY, struct.pack("<IQ", U64, HUGE))}),
    "many strings": gguf_bytes({"a": Raw(ARRAY, struct.pack("<IQ", STRING, HUGE))}),
    "long string in array": gguf_bytes({"a": Raw(ARRAY, struct.pack("<IQQ", STRING, 1, HUGE))}),
    "array of arrays": gguf_bytes({"a": Raw(ARRAY, struct.pack("<IQ", ARRAY, 1))}),
    "value type": gguf_bytes({"a": Raw(99, b"")}),
    "element type": gguf_bytes({"a": Raw(ARRAY, struct.pack("<IQ", 98, 1))}),
    "alignment": gguf_bytes(METADATA | {"general.alignment": 3}),
    "alignment 0": gguf_bytes(METADATA | {"general.alignment": 0}),
    "same key twice": gguf_bytes([("a", 1), ("a", 2)]),
    "same tensor twice": gguf_bytes(tensors=[TENSORS[0], TENSORS[0]]),
    "dimensions": gguf_bytes(tensors=[TensorSpec("a", (1,) * 9)]),
    "negative": gguf_bytes(tensors=[TensorSpec("a", (-1, 4))]),
    "elements": gguf_bytes(tensors=[TensorSpec("a", (HUGE, HUGE, HUGE, HUGE))]),
    "name": gguf_bytes(tensors=[TensorSpec("a" * 200, (4,))]),
    "ragged rows": gguf_bytes(tensors=[TensorSpec("a", (33, 2), type_id=12)]),
    "misaligned": gguf_bytes(tensors=[TensorSpec("a", (4,), offset=7)]),
    "far away": gguf_bytes(tensors=[TensorSpec("a", (4,), offset=1 << 62)]),
    "overlap": gguf_bytes(tensors=[TENSORS[0], TensorSpec("b", (8, 3), offset=0)]),
}


@pytest.mark.parametrize("name", ABSURD)
def test_absurd_declarations(tmp_path: Path, name: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(ABSURD[name])
    tracemalloc.start()
    try:
        text = problem_of(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "is damaged: it " in text
    assert peak < 4 << 20


def test_absurd_declarations_have_different_messages(tmp_path: Path) -> None:
    texts = {problem_of_bytes(tmp_path, content) for content in ABSURD.values()}
    assert len(texts) == len(ABSURD)


def test_a_tensor_larger_than_the_file(tmp_path: Path) -> None:
    content = gguf_bytes(tensors=[TensorSpec("a", (1 << 40,))])
    assert "is truncated" in problem_of_bytes(tmp_path, content)


def test_tensor_types(tmp_path: Path) -> None:
    removed = problem_of_bytes(tmp_path, gguf_bytes(tensors=[TensorSpec("a", (32,), type_id=4)]))
    assert "no longer reads" in removed
    unknown = problem_of_bytes(tmp_path, gguf_bytes(tensors=[TensorSpec("a", (32,), type_id=999)]))
    assert "llama-cpp-python" in unknown


def test_unknown_architecture_names_it_and_the_runtime(tmp_path: Path) -> None:
    content = gguf_bytes(METADATA | {"general.architecture": "warp-drive"})
    text = problem_of_bytes(tmp_path, content)
    assert "'warp-drive'" in text
    assert "llama-cpp-python 0." in text


def test_a_newer_runtime_may_know_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_runner.catalog.ggml.runtime_version", lambda: "99.0.0")
    path = write_gguf(
        tmp_path / "new.gguf", metadata=METADATA | {"general.architecture": "warp-drive"}
    )
    assert inspect(path).architecture == "warp-drive"


def test_no_architecture(tmp_path: Path) -> None:
    rest = {key: value for key, value in METADATA.items() if key != "general.architecture"}
    assert "does not say its architecture" in problem_of_bytes(tmp_path, gguf_bytes(rest))
    wrong = gguf_bytes(METADATA | {"general.architecture": Raw(U32, struct.pack("<I", 7))})
    assert "does not say its architecture" in problem_of_bytes(tmp_path, wrong)


def test_split_models(tmp_path: Path) -> None:
    shards = write_split(tmp_path)
    info = inspect(shards[0])
    assert info.shards == tuple(shards)
    assert (info.tensors, info.parameters) == (3, 72)
    assert info.file_bytes == sum(shard.stat().st_size for shard in shards)


def test_split_models_that_are_not_whole(tmp_path: Path) -> None:
    shards = write_split(tmp_path)
    assert "part 2 of 3; give the first: tiny-00001-of-00003.gguf" in problem_of(shards[1])
    renamed = shards[0].rename(tmp_path / "model.gguf")
    assert "-00001-of-00003.gguf" in problem_of(renamed)
    renamed.rename(shards[0])
    third = shards[2].read_bytes()
    shards[2].write_bytes(third[:-8])
    assert f"{shards[2]} is truncated" in problem_of(shards[0])
    shards[2].write_bytes(shards[1].read_bytes())
    assert f"{shards[2]} is not the shard" in problem_of(shards[0])
    shards[2].unlink()
    assert "lacks tiny-00003-of-00003.gguf, a shard" in problem_of(shards[0])
    shards[1].unlink()
    assert "lacks tiny-00002-of-00003.gguf and 1 more" in problem_of(shards[0])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"general.architecture": "bert"}, "architecture is 'bert'"),
        ({"general.type": "adapter"}, "type 'adapter'"),
        ({"llama.pooling_type": 3}, "pools its outputs"),
        ({"llama.attention.causal": False}, "not causal"),
    ],
)
def test_models_that_generate_no_text(
    tmp_path: Path, changes: dict[str, str | int | bool], says: str
) -> None:
    info = inspect(write_gguf(tmp_path / "tiny.gguf", metadata=METADATA | changes))
    with pytest.raises(ModelFileError, match=says):
        require_generator(info)


WORST = """
import resource, struct, sys, time
resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))
from edge_runner.catalog.gguf import inspect
from edge_runner.errors import ModelFileError
for path in sys.argv[1:]:
    start = time.process_time()
    try:
        inspect(path)
    except ModelFileError as error:
        print(error, "after", time.process_time() - start, "s of CPU")
"""


def costly_files(tmp_path: Path) -> list[Path]:
    """The most work the caps allow: many strings, many tensors, many keys, much text."""
    strings = MAX_ARRAY_STRINGS
    empty = Raw(ARRAY, struct.pack("<IQ", STRING, strings) + bytes(8 * strings))
    one = struct.pack("<Q", 1 << 18) + bytes(1 << 18)
    wide = Raw(ARRAY, struct.pack("<IQ", STRING, 900) + one * 900)
    keys = [(f"k{n}", 1) for n in range(MAX_METADATA)]
    tensors = [TensorSpec(f"t{n}", (1,)) for n in range(MAX_TENSORS)]
    text = {f"t{n}": "\N{GRINNING FACE}" * (1 << 20) for n in range(12)}
    return [
        write_gguf(tmp_path / "strings.gguf", metadata={"a": empty}),
        write_gguf(tmp_path / "wide.gguf", metadata={"a": wide}),
        write_gguf(tmp_path / "keys.gguf", metadata=keys),
        write_gguf(tmp_path / "tensors.gguf", metadata={}, tensors=tensors),
        write_gguf(tmp_path / "text.gguf", metadata=text),
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS is reliable on Linux only")
def test_the_costliest_files_are_bounded_in_memory_and_time(tmp_path: Path) -> None:
    paths = costly_files(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", WORST, *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(paths)
    for line in lines:
        assert "does not say its architecture" in line
        print(line)


def test_a_sparse_giant_is_read_no_further_than_its_header(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "giant.gguf", tensors=[TensorSpec("a", (1 << 36,))])
    header_bytes = path.stat().st_size - (1 << 16)
    with path.open("r+b") as file:
        file.truncate(header_bytes + (1 << 38))
    tracemalloc.start()
    try:
        info = inspect(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert info.parameters == 1 << 36
    assert peak < 4 << 20
