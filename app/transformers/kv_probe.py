# SPDX-License-Identifier: Apache-2.0
"""Finds out on a few tokens what of a model can be dumped, by looking at what it does rather than at its name.

A layer is dumped if (1) what it caches is exactly the k and v that its attention reads, and (2) its attention is the
softmax of scaled dot products that a dump describes. (1) fails for MLA, whose cache holds latents; (2) for biases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kv_capture import AttentionCall, observed_attention, run_sequence
from load_model import InputError

PROJECTION_NAMES = ("o_proj", "out_proj", "c_proj", "dense", "wo")


@dataclass
class LayerInfo:
    softmax_scale: float
    sliding_window: int | None
    softcap: float | None
    has_sink: bool
    w_o: torch.Tensor | None  # [M, Hq * Dv] as torch's Linear.weight, None when it was not found


@dataclass
class Probe:
    layers: dict[int, LayerInfo]
    notes: list[str] = field(default_factory=list)  # what was left out and why, for a person


def _projection(call: AttentionCall) -> tuple[torch.nn.Module, torch.Tensor] | None:
    """The output projection's module and weight [M, Hq * Dv], or None."""
    for name in PROJECTION_NAMES:
        module = getattr(call.module, name, None)
        weight = getattr(module, "weight", None)
        if weight is None or weight.ndim != 2:
            continue
        if type(module).__name__ == "Conv1D":  # GPT-2 stores [in, out]
            weight = weight.T
        if weight.shape[1] == call.output.shape[-2] * call.output.shape[-1]:
            return module, weight.detach()
    return None


def plain_attention(call: AttentionCall) -> torch.Tensor:
    """softmax(scale q k^T) v over causal keys inside the window, [T, Hq, Dv] in float32: what a dump describes."""
    q, k, v = (x.float() for x in (call.q, call.k, call.v))
    group = q.shape[0] // k.shape[0]
    k, v = k.repeat_interleave(group, dim=0), v.repeat_interleave(group, dim=0)
    logits = call.softmax_scale * (q @ k.transpose(1, 2))
    if call.softcap:
        logits = call.softcap * torch.tanh(logits / call.softcap)
    token = torch.arange(q.shape[1], device=q.device)
    distance = token[:, None] - token[None, :]
    visible = (distance >= 0) & (distance < (call.sliding_window or q.shape[1]))
    return (logits.masked_fill(~visible, -torch.inf).softmax(-1) @ v).transpose(0, 1)


def _differ(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Float32 models agree to rounding; half-precision ones round the output to 8 or 11 bits."""
    tolerance = 1e-3 if found.dtype == torch.float32 else 3e-2
    return bool((found.float() - expected).abs().max() > tolerance * (expected.abs().max() + 1e-6))


def _cached(cache: Any, layer: int) -> tuple[torch.Tensor, torch.Tensor] | None:
    layers = getattr(cache, "layers", [])
    entry = layers[layer] if layer < len(layers) else None
    keys, values = getattr(entry, "keys", None), getattr(entry, "values", None)
    return None if keys is None or values is None else (keys[0], values[0])


def _same_rows(seen: torch.Tensor, cached: torch.Tensor) -> bool:
    """Sliding layers may cache only their last rows. NaN is the writer's to report, so here it equals itself."""
    rows = cached.shape[1] if cached.ndim == 3 else 0
    tail = seen[:, -rows:]
    return rows > 0 and tail.shape == cached.shape and torch.equal(tail.nan_to_num(), cached.nan_to_num())


def _check_cached(call: AttentionCall, keys: torch.Tensor, values: torch.Tensor) -> None:
    is_mla = getattr(call.module, "kv_lora_rank", None) is not None
    if not is_mla and _same_rows(call.k, keys) and _same_rows(call.v, values):
        return
    mla = " (latent attention, MLA)" if is_mla else ""
    raise InputError(
        f"layer {call.layer}: its cache does not hold the keys and values that attention reads{mla}: expected k "
        f"{list(call.k.shape)} and v {list(call.v.shape)}, found {list(keys.shape)} and {list(values.shape)} in the "
        "cache; a rotation per KV head does not apply to this model"
    )


def _check_plain(call: AttentionCall) -> None:
    if not call.has_sink and _differ(call.output, plain_attention(call)):
        raise InputError(
            f"layer {call.layer}: its attention is not the softmax of scaled dot products (a bias or another rule is "
            "added), which a dump cannot describe"
        )


class _ProjectionInputs:
    """Records what reaches each output projection, to see that nothing (such as a gate) stands before it."""

    def __init__(self) -> None:
        self._seen: dict[int, torch.Tensor] = {}
        self._handles: list[Any] = []

    def watch(self, module: torch.nn.Module) -> None:
        key = id(module)
        self._handles.append(module.register_forward_pre_hook(lambda _, inputs: self._seen.update({key: inputs[0]})))

    def is_plain(self, module: torch.nn.Module, output: torch.Tensor) -> bool:
        seen = self._seen.get(id(module))
        return seen is not None and seen.numel() == output.numel() and torch.equal(seen.flatten(), output.flatten())

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()


def probe_model(model: Any, token_ids: Sequence[int]) -> Probe:
    """Runs `token_ids` (a few dozen) once. Raises InputError for a model that no dump can describe."""
    calls: dict[int, AttentionCall] = {}
    inputs = _ProjectionInputs()

    def observe(call: AttentionCall) -> None:
        if call.layer in calls:
            raise InputError(f"layer {call.layer}: calls attention more than once per pass, which no dump can hold")
        calls[call.layer] = call
        projection = _projection(call)
        if projection is not None:
            inputs.watch(projection[0])

    with observed_attention(model, observe):
        cache = run_sequence(model, list(token_ids), use_cache=True).past_key_values
    inputs.close()
    if not calls:
        raise InputError(
            f"{type(model).__name__}: no layer called the registered attention function, so nothing can be seen: this "
            "model does not support transformers' AttentionInterface, or has no attention; try a newer transformers"
        )
    return _judge(model, calls, cache, inputs)


def _judge(model: Any, calls: dict[int, AttentionCall], cache: Any, inputs: _ProjectionInputs) -> Probe:
    probe = Probe({})
    for layer, call in sorted(calls.items()):
        cached = _cached(cache, layer)
        if cached is None:
            probe.notes.append(f"layer {layer} is left out: it keeps no keys and values of its own")
            continue
        _check_cached(call, *cached)
        _check_plain(call)
        projection = _projection(call)
        w_o = projection[1] if projection and inputs.is_plain(projection[0], call.output) else None
        if w_o is None:
            probe.notes.append(f"layer {layer} has no w_o: no projection reads the attention output as it is")
        if call.softcap:
            probe.notes.append(f"layer {layer} caps its logits at {call.softcap:g}: attention metrics ignore that")
        probe.layers[layer] = LayerInfo(call.softmax_scale, call.sliding_window, call.softcap, call.has_sink, w_o)
    absent = [i for i in range(num_layers(model)) if i not in calls]
    if absent:
        probe.notes.append(f"layers {', '.join(map(str, absent))} have no attention that could be seen")
    return probe


def num_layers(model: Any) -> int:
    return int(model.config.get_text_config().num_hidden_layers)
