# SPDX-License-Identifier: Apache-2.0
"""Randomly initialised models of a few thousand weights, one per way of doing attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as tf

VOCABULARY = 96
_COMMON = {
    "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 256, "pad_token_id": 0,
}  # fmt: skip
_MIXED = {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
_MLA = _COMMON | {
    "num_key_value_heads": 4, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16,
    "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "first_k_dense_replace": 3,
}  # fmt: skip

CONFIGS: dict[str, Callable[[], Any]] = {
    "llama": lambda: tf.LlamaConfig(**_COMMON),
    "llama_biases": lambda: tf.LlamaConfig(**_COMMON, attention_bias=True),  # on q, k, v and o
    "qwen2": lambda: tf.Qwen2Config(**_COMMON),  # biases on q, k, v
    "qwen3": lambda: tf.Qwen3Config(**_COMMON, head_dim=32),  # norms on q and k
    "gemma3": lambda: tf.Gemma3TextConfig(**_COMMON, **_MIXED, head_dim=32),  # sliding and full layers
    "gemma2": lambda: tf.Gemma2Config(**_COMMON, **_MIXED, head_dim=32, attn_logit_softcapping=0.5),
    "gpt_oss": lambda: tf.GptOssConfig(**_COMMON, **_MIXED, head_dim=32, num_local_experts=4, num_experts_per_tok=2),
    "gpt2": lambda: tf.GPT2Config(vocab_size=VOCABULARY, n_embd=64, n_layer=3, n_head=4, n_positions=256),
    "gpt_neox": lambda: tf.GPTNeoXConfig(
        vocab_size=VOCABULARY, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4
    ),
    "qwen3_next": lambda: tf.Qwen3NextConfig(  # one layer of three has attention, with a gate before o_proj
        **_COMMON, head_dim=32, mlp_only_layers=[0, 1, 2], linear_num_key_heads=2, linear_num_value_heads=2,
        linear_key_head_dim=16, linear_value_head_dim=16,
        layer_types=["linear_attention", "full_attention", "linear_attention"],
    ),  # fmt: skip
    "gemma3n": lambda: tf.Gemma3nTextConfig(  # the last layer reads the keys and values of the one before
        **_COMMON, head_dim=32, num_kv_shared_layers=1, sliding_window=8, hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=VOCABULARY, laurel_rank=8, activation_sparsity_pattern=[0.0] * 3,
        layer_types=["sliding_attention", "full_attention", "full_attention"],
    ),  # fmt: skip
    "deepseek_v2": lambda: tf.DeepseekV2Config(**_MLA, q_lora_rank=None),
    "deepseek_v3": lambda: tf.DeepseekV3Config(**_MLA, q_lora_rank=32),
    "bloom": lambda: tf.BloomConfig(vocab_size=VOCABULARY, hidden_size=64, n_layer=3, n_head=4),  # no AttentionInterface
    "mamba": lambda: tf.MambaConfig(vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=2),  # no attention
    "llama4": lambda: tf.Llama4TextConfig(  # attention within chunks
        **_COMMON, head_dim=32, num_local_experts=2, attention_chunk_size=16, interleave_moe_layer_step=10,
        intermediate_size_mlp=64,
    ),  # fmt: skip
}


def tiny_model(name: str, seed: int = 1) -> Any:
    """Weights, biases, norms and sinks are all random, so that leaving one out is seen."""
    torch.manual_seed(seed)
    model = tf.AutoModelForCausalLM.from_config(CONFIGS[name]()).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def random_tokens(length: int, seed: int = 2) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(1, VOCABULARY, (length,), generator=generator).tolist()
