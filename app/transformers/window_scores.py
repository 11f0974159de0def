# SPDX-License-Identifier: Apache-2.0
"""Scores of one window of text under exact and quantized keys and values, and what follows from many windows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from codec_sets import CodecSet, decode_heads, encode_heads
from kv_capture import observed_attention

TOKENS_AT_ONCE = 128  # bounds the memory of softmax over the vocabulary


@dataclass
class WindowScore:
    """Sums over the tokens of one window that have a next token."""

    tokens: int
    nll: float  # of the next token, nats
    kl: float  # exact distribution to this one, nats
    agree: int  # same most likely token as exact
    packed_bytes: int
    packed_values: int


class RoundTrip:
    """A rewrite for observed_attention: all tokens but the first `sink` through their codecs. Counts what they take."""

    def __init__(self, codecs: CodecSet, sink: int) -> None:
        self._codecs, self._sink = codecs, sink
        self.packed_bytes = self.packed_values = 0

    def __call__(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self._side(layer, "k", k), self._side(layer, "v", v)

    def _side(self, layer: int, side: str, x: torch.Tensor) -> torch.Tensor:
        _, heads, _, channels = x.shape
        codecs = self._codecs.side(layer, side, heads, channels)
        tail = x[0, :, self._sink :].to("cpu", torch.float32).numpy()
        rows = encode_heads(codecs, tail)
        self.packed_bytes += rows.nbytes
        self.packed_values += tail.size
        decoded = torch.from_numpy(decode_heads(codecs, rows)).to(x.device, x.dtype)
        return torch.cat([x[:, :, : self._sink], decoded[None]], dim=2)


def window_logits(model: Any, tokens: list[int], round_trip: RoundTrip | None) -> torch.Tensor:
    """[tokens, vocabulary], the model's own type; exact keys and values without `round_trip`."""
    with torch.no_grad(), observed_attention(model, rewrite=round_trip):
        return model(input_ids=torch.tensor([tokens], device=model.device), use_cache=False).logits[0]


def score_window(
    tokens: list[int], exact: torch.Tensor, logits: torch.Tensor, round_trip: RoundTrip | None
) -> WindowScore:
    score = WindowScore(len(tokens) - 1, 0.0, 0.0, 0, 0, 0)
    if round_trip is not None:
        score.packed_bytes, score.packed_values = round_trip.packed_bytes, round_trip.packed_values
    following = torch.tensor(tokens[1:], device=logits.device)
    for first in range(0, score.tokens, TOKENS_AT_ONCE):
        part = slice(first, min(first + TOKENS_AT_ONCE, score.tokens))
        log_q = logits[part].float().log_softmax(-1)
        score.nll -= float(log_q.gather(1, following[part, None]).double().sum())
        if round_trip is None:
            score.agree += len(log_q)
            continue
        log_p = exact[part].float().log_softmax(-1)
        score.kl += float((log_p.exp() * (log_p - log_q)).sum(-1).double().sum())
        score.agree += int((log_p.argmax(-1) == log_q.argmax(-1)).sum())
    return score


def mean_scores(windows: list[WindowScore], exact_bits: int) -> dict[str, float]:
    """Over all tokens of all windows. `exact_bits`: of one value where nothing was packed."""
    sums = {name: sum(asdict(window)[name] for window in windows) for name in asdict(windows[0])}
    bits = 8 * sums["packed_bytes"] / sums["packed_values"] if sums["packed_values"] else exact_bits
    nll = sums["nll"] / sums["tokens"]
    return {
        "bits_per_value": bits,
        "perplexity": float(np.exp(nll)),
        "nll": nll,
        "kl": sums["kl"] / sums["tokens"],
        "top1_agreement": sums["agree"] / sums["tokens"],
    }


def compare(a: list[WindowScore], b: list[WindowScore], resamples: int, seed: int) -> dict[str, Any]:
    """a against b on the same windows. Intervals: 2.5 and 97.5 % points over windows drawn with replacement."""
    draws = np.random.default_rng(seed).integers(0, len(a), (resamples, len(a)))
    draws = np.concatenate([np.arange(len(a))[None], draws])  # the windows themselves come first

    def sums(windows: list[WindowScore], name: str) -> np.ndarray:
        return np.array([getattr(window, name) for window in windows], float)[draws].sum(1)

    tokens = sums(a, "tokens")
    kl_a, kl_b = sums(a, "kl"), sums(b, "kl")
    measures = {
        "nll_difference": (sums(a, "nll") - sums(b, "nll")) / tokens,
        "kl_difference": (kl_a - kl_b) / tokens,
        "top1_difference": (sums(a, "agree") - sums(b, "agree")) / tokens,
    }
    measures["perplexity_ratio"] = np.exp(measures["nll_difference"])
    if np.all(kl_b > 0):
        measures["kl_ratio"] = kl_a / kl_b
    return {
        name: {"value": float(values[0]), "interval": [float(x) for x in np.percentile(values[1:], [2.5, 97.5])]}
        for name, values in measures.items()
    }
