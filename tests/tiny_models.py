"""Tiny models with random weights, as GGUF files: real llama.cpp runs in milliseconds.

The vocabulary is byte-level (every text can be written), with a few merges and ChatML's special
tokens. The weights come from a seeded generator, so a file's bytes depend on its arguments only.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content"
    " + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TOOL_CHATML = (
    "{% if tools %}{{ '<|im_start|>system\n<tools>' + tools | tojson + '</tools><|im_end|>\n' }}"
    "{% endif %}{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' }}"
    "{{ message.content }}{% for call in message.tool_calls or [] %}"
    "{{ '<tool_call>' + call.function | tojson + '</tool_call>' }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
BOS, EOT, IM_START, TOOL_CALL, TOOL_CALL_END = (
    "<|bos|>",
    "<|im_end|>",
    "<|im_start|>",
    "<tool_call>",
    "</tool_call>",
)
_MERGES = ["t h", "th e", "i n", "a n", "Ġ a", "e r", "o n", "Ċ Ċ", "s t"]


def write_attention_model(
    path: Path,
    *,
    template: str | None = CHATML,
    seed: int = 1,
    context: int = 2048,
    add_bos: bool = False,
    width: int = 128,
    layers: int = 2,
) -> Path:
    """A two-layer llama with grouped-query attention."""
    heads, kv_heads, hidden = 4, 2, 2 * width
    writer = _writer(path, "llama", template, add_bos)
    writer.add_context_length(context)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // heads)
    random = np.random.default_rng(seed)
    kv_width = width // heads * kv_heads
    _add(writer, random, "token_embd.weight", (_vocabulary_size(), width))
    _add(writer, random, "output.weight", (_vocabulary_size(), width), scale=4.0)
    _ones(writer, "output_norm.weight", width)
    for layer in range(layers):
        block = f"blk.{layer}"
        _ones(writer, f"{block}.attn_norm.weight", width)
        _ones(writer, f"{block}.ffn_norm.weight", width)
        _add(writer, random, f"{block}.attn_q.weight", (width, width), scale=3.0)
        _add(writer, random, f"{block}.attn_k.weight", (kv_width, width), scale=3.0)
        _add(writer, random, f"{block}.attn_v.weight", (kv_width, width))
        _add(writer, random, f"{block}.attn_output.weight", (width, width))
        _add(writer, random, f"{block}.ffn_gate.weight", (hidden, width))
        _add(writer, random, f"{block}.ffn_up.weight", (hidden, width))
        _add(writer, random, f"{block}.ffn_down.weight", (width, hidden))
    return _finish(writer, path)


def write_recurrent_model(path: Path, *, template: str | None = CHATML, seed: int = 1) -> Path:
    """A two-layer Mamba: its memory is a state, which cannot be cut back."""
    width, inner, state, kernel, rank, layers = 64, 128, 16, 4, 4, 2
    writer = _writer(path, "mamba", template, add_bos=False)
    writer.add_context_length(2048)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_ssm_conv_kernel(kernel)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(rank)
    writer.add_layer_norm_rms_eps(1e-5)
    random = np.random.default_rng(seed)
    _add(writer, random, "token_embd.weight", (_vocabulary_size(), width))
    _add(writer, random, "output.weight", (_vocabulary_size(), width), scale=4.0)
    _ones(writer, "output_norm.weight", width)
    for layer in range(layers):
        block = f"blk.{layer}"
        _ones(writer, f"{block}.attn_norm.weight", width)
        _add(writer, random, f"{block}.ssm_in.weight", (2 * inner, width))
        _add(writer, random, f"{block}.ssm_conv1d.weight", (inner, kernel))
        _add(writer, random, f"{block}.ssm_conv1d.bias", (inner,))
        _add(writer, random, f"{block}.ssm_x.weight", (rank + 2 * state, inner))
        _add(writer, random, f"{block}.ssm_dt.weight", (inner, rank))
        _add(writer, random, f"{block}.ssm_dt.bias", (inner,))
        decay = np.float32(-0.02) * np.tile(np.arange(1, state + 1, dtype=np.float32), (inner, 1))
        writer.add_tensor(f"{block}.ssm_a", decay)
        _ones(writer, f"{block}.ssm_d", inner)
        _add(writer, random, f"{block}.ssm_out.weight", (width, inner))
    return _finish(writer, path)


def _writer(path: Path, architecture: str, template: str | None, add_bos: bool) -> gguf.GGUFWriter:
    writer = gguf.GGUFWriter(path, architecture)
    tokens, kinds = _vocabulary()
    writer.add_name(f"tiny {architecture}")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(_MERGES)
    writer.add_bos_token_id(tokens.index(BOS))
    writer.add_eos_token_id(tokens.index(EOT))
    writer.add_add_bos_token(add_bos)
    if template is not None:
        writer.add_chat_template(template)
    return writer


def _vocabulary() -> tuple[list[str], list[int]]:
    normal = [*_byte_characters(), *(merge.replace(" ", "") for merge in _MERGES)]
    control = [BOS, EOT, IM_START]
    user_defined = [TOOL_CALL, TOOL_CALL_END]
    kinds = (
        [gguf.TokenType.NORMAL] * len(normal)
        + [gguf.TokenType.CONTROL] * len(control)
        + [gguf.TokenType.USER_DEFINED] * len(user_defined)
    )
    return normal + control + user_defined, [int(kind) for kind in kinds]


def _vocabulary_size() -> int:
    return len(_vocabulary()[0])


def _byte_characters() -> list[str]:
    """GPT-2's printable stand-ins for the 256 bytes."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1)]
    printable += range(ord("®"), ord("ÿ") + 1)
    others = [byte for byte in range(256) if byte not in printable]
    mapping = {byte: chr(byte) for byte in printable}
    mapping |= {byte: chr(256 + index) for index, byte in enumerate(others)}
    return [mapping[byte] for byte in range(256)]


def _add(
    writer: gguf.GGUFWriter,
    random: np.random.Generator,
    name: str,
    shape: tuple[int, ...],
    scale: float = 1.0,
) -> None:
    weights = random.standard_normal(shape) * (scale / np.sqrt(shape[-1]))
    writer.add_tensor(name, weights.astype(np.float32))


def _ones(writer: gguf.GGUFWriter, name: str, size: int) -> None:
    writer.add_tensor(name, np.ones(size, np.float32))


def _finish(writer: gguf.GGUFWriter, path: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
