# SPDX-License-Identifier: Apache-2.0
"""Sees the queries, keys and values of every attention layer of a transformers model, after RoPE.

transformers lets a program register an attention function; a model that supports this calls it once per layer and
sequence with q [1, Hq, T, D], k [1, Hkv, T, D] and v [1, Hkv, T, Dv], exactly what a KV cache would hold. Ours hands
them to an observer and then computes what the model would have computed anyway.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from load_model import InputError  # first: it sets what the libraries read when they are imported

import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, eager_mask, sdpa_mask

NAME = "so4cal_capture"


@dataclass
class AttentionCall:
    """One layer's attention over one sequence. Tensors have no batch axis: [head, token, channel]."""

    layer: int
    module: torch.nn.Module
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    output: torch.Tensor  # [T, Hq, Dv], before the output projection
    softmax_scale: float
    sliding_window: int | None
    softcap: float | None  # logits are softcap * tanh(logits / softcap)
    has_sink: bool  # a learned logit joins the softmax


Observer = Callable[[AttentionCall], None]
Rewrite = Callable[[int, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]  # layer, k, v -> k, v


def _needs_eager(model: Any) -> bool:
    """torch's fused attention knows neither soft caps nor learned sinks; the model's own eager function does."""
    config = model.config.get_text_config()
    has_sinks = any(getattr(module, "sinks", None) is not None for module in model.modules())
    has_softcap = bool(getattr(config, "attn_logit_softcapping", None))
    return has_softcap or has_sinks or not getattr(model, "_supports_sdpa", True)


def _eager_attention(module: torch.nn.Module) -> Callable[..., Any]:
    function = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    if function is None:
        raise InputError(f"{type(module).__name__}: no eager attention function found in its modelling file")
    return function


def _describe(module: torch.nn.Module, q: torch.Tensor, options: dict[str, Any]) -> dict[str, Any]:
    scale = options.get("scaling")
    window = options.get("sliding_window", getattr(module, "sliding_window", None))
    sinks = options.get("s_aux", getattr(module, "sinks", None))
    return {
        "softmax_scale": float(q.shape[-1] ** -0.5 if scale is None else scale),
        "sliding_window": window if isinstance(window, int) and window > 0 else None,
        "softcap": options.get("softcap"),
        "has_sink": sinks is not None,
    }


def _check_causal(module: torch.nn.Module, q: torch.Tensor, k: torch.Tensor) -> int:
    """The layer's number. Raises InputError for attention that a cache over one whole sequence doesn't describe."""
    layer = getattr(module, "layer_idx", None)
    if layer is None:
        raise InputError(f"{type(module).__name__}: the attention module does not know its layer (no layer_idx)")
    if q.shape[-2] != k.shape[-2] or getattr(module, "is_cross_attention", False):
        raise InputError(f"layer {layer}: cross-attention ({q.shape[-2]} queries, {k.shape[-2]} keys) has no dump")
    if not getattr(module, "is_causal", True):
        raise InputError(f"layer {layer}: attention is not causal, so it keeps no KV cache")
    return int(layer)


def _own_attention(observer: Observer | None, rewrite: Rewrite | None, eager: bool) -> Callable[..., Any]:
    def attention(
        module: torch.nn.Module, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any, **options: Any
    ) -> Any:
        layer = _check_causal(module, q, k)
        if rewrite is not None:
            k, v = rewrite(layer, k, v)
        function = _eager_attention(module) if eager else sdpa_attention_forward
        result = function(module, q, k, v, mask, **options)
        if observer is not None:
            observer(AttentionCall(layer, module, q[0], k[0], v[0], result[0][0], **_describe(module, q, options)))
        return result

    return attention


@contextmanager
def observed_attention(
    model: Any, observer: Observer | None = None, rewrite: Rewrite | None = None
) -> Iterator[None]:
    """While this is open, every attention layer of `model` reports to `observer`, and attends to the keys and values
    that `rewrite` makes of its own. Raises InputError when it cannot."""
    eager = _needs_eager(model)
    AttentionInterface.register(NAME, _own_attention(observer, rewrite, eager))
    AttentionMaskInterface.register(NAME, eager_mask if eager else sdpa_mask)
    previous = model.config._attn_implementation
    try:
        model.set_attn_implementation(NAME)
        yield
    except (ValueError, KeyError, NotImplementedError) as error:
        raise InputError(f"{type(model).__name__}: its attention cannot be observed: {error}") from error
    finally:
        model.set_attn_implementation(previous)


def run_sequence(model: Any, token_ids: list[int], use_cache: bool = False) -> Any:
    """One forward pass over one sequence through the model without its output head (its logits are not needed)."""
    inputs = torch.tensor([token_ids], device=model.device)
    with torch.no_grad():
        return model.base_model(input_ids=inputs, use_cache=use_cache)
