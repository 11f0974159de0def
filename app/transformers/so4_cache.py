# SPDX-License-Identifier: Apache-2.0
"""A KV cache for transformers that keeps keys and values as packed rows of the C codec.

    cache = So4Cache.from_table(model.config, Path("rotation.so4.h5"), sink=4, recent=0)
    model.generate(**inputs, cache=cache)
    cache.memory()

The first `sink` tokens and the `recent` latest ones stay exact; a token is packed when it leaves the latest ones, once.
Attention gets every kept token, unpacked for the call and dropped again; with `keep_decoded` the unpacked copy stays,
which is faster and needs the memory that packing saves: for measuring quality. With padding on the left, the padding
counts among the first tokens. Layers with sliding windows keep the window, as DynamicCache does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from load_model import InputError  # first: it sets what the libraries read when they are imported

import torch
from transformers.cache_utils import (
    Cache,
    CacheLayerMixin,
    DummyLayer,
    DynamicCache,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionLayer,
)

from codec import CodecLibrary, RowCodec
from codec_sets import CodecSet, TableCodecs, decode_heads, encode_heads, refuse_shared_caches
from table_heads import read_table


class Memory(NamedTuple):
    """Bytes of the arrays that are held now, and the values (tokens x heads x channels) in packed rows."""

    packed: int
    exact: int
    decoded: int  # 0 unless keep_decoded
    packed_values: int

    @property
    def bits_per_packed_value(self) -> float:
        return 8 * self.packed / self.packed_values if self.packed_values else 0.0


@dataclass
class Options:
    sink: int = 4
    recent: int = 0
    keep_decoded: bool = False


class PackedSide:
    """Keys or values of one layer in the order of their tokens: first ones exact, packed ones, latest ones exact.

    Tensors and arrays are [batch, head, token, ...].
    """

    def __init__(self, codecs: list[RowCodec], like: torch.Tensor, options: Options) -> None:
        self.codecs, self.options = codecs, options
        batch, heads, _, channels = like.shape
        self.first = self.latest = like.new_empty((batch, heads, 0, channels))
        self.rows = np.empty((batch, heads, 0, codecs[0].row_bytes), np.uint8)
        self.decoded = self.first if options.keep_decoded else None

    def __len__(self) -> int:
        return self.first.shape[2] + self.rows.shape[2] + self.latest.shape[2]

    def append(self, x: torch.Tensor, position: int) -> None:
        """`position`: tokens that came before, dropped ones included."""
        num_first = min(max(self.options.sink - position, 0), x.shape[2])
        self.first = torch.cat([self.first, x[:, :, :num_first]], dim=2)
        latest = torch.cat([self.latest, x[:, :, num_first:]], dim=2)
        num_packed = max(latest.shape[2] - self.options.recent, 0)
        self._pack(latest[:, :, :num_packed])
        self.latest = latest[:, :, num_packed:].clone()  # not a view, which would hold the packed tokens in memory

    def _pack(self, x: torch.Tensor) -> None:
        if x.shape[2] == 0:
            return
        batch = x.detach().to("cpu", torch.float32).numpy()
        rows = np.stack([encode_heads(self.codecs, item) for item in batch])
        self.rows = np.concatenate([self.rows, rows], axis=2)
        if self.decoded is not None:
            self.decoded = torch.cat([self.decoded, self._unpacked(rows)], dim=2)

    def _unpacked(self, rows: np.ndarray) -> torch.Tensor:
        x = torch.from_numpy(np.stack([decode_heads(self.codecs, item) for item in rows]))
        return x.to(self.first.device, self.first.dtype)

    def read(self) -> torch.Tensor:
        """All tokens, as attention is to see them."""
        decoded = self._unpacked(self.rows) if self.decoded is None else self.decoded
        return torch.cat([self.first, decoded, self.latest], dim=2)

    def keep(self, begin: int, end: int) -> None:
        """Drops all tokens but those from place `begin` to before place `end`."""
        packed_from = self.first.shape[2]
        latest_from = packed_from + self.rows.shape[2]

        def part(array: Any, start: int) -> Any:
            return array[:, :, max(begin - start, 0) : max(end - start, 0)]

        self.first, self.latest = part(self.first, 0).clone(), part(self.latest, latest_from).clone()
        self.rows = part(self.rows, packed_from).copy()
        if self.decoded is not None:
            self.decoded = part(self.decoded, packed_from).clone()

    def choose(self, of_batch: torch.Tensor) -> None:
        """Puts other items, by index, in the places of the batch."""
        index = of_batch.to(self.first.device)
        self.first, self.latest = self.first[index], self.latest[index]
        self.rows = self.rows[of_batch.cpu().numpy()]
        if self.decoded is not None:
            self.decoded = self.decoded[index]

    def memory(self) -> Memory:
        exact = sum(x.untyped_storage().nbytes() for x in (self.first, self.latest))
        decoded = 0 if self.decoded is None else self.decoded.untyped_storage().nbytes()
        return Memory(self.rows.nbytes, exact, decoded, self.rows[..., 0].size * self.codecs[0].head_dim)


class So4Layer(CacheLayerMixin):
    """One layer. `sliding_window` as in DynamicSlidingWindowLayer: between calls window - 1 tokens are kept."""

    def __init__(self, layer: int, codecs: CodecSet, options: Options, sliding_window: int | None) -> None:
        super().__init__()
        self.layer, self.codecs, self.options, self.sliding_window = layer, codecs, options, sliding_window
        self.is_sliding = sliding_window is not None
        self.is_croppable = not self.is_sliding
        self.cumulative_length = 0  # tokens seen
        self.sides: list[PackedSide] = []  # keys, values

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.device = key_states.device
        self.sides = [
            PackedSide(self.codecs.side(self.layer, name, x.shape[1], x.shape[3]), x, self.options)
            for name, x in (("k", key_states), ("v", value_states))
        ]
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        for side, x in zip(self.sides, (key_states, value_states), strict=True):
            side.append(x, self.cumulative_length)
        self.cumulative_length += key_states.shape[2]
        keys, values = (side.read() for side in self.sides)
        self._slide()
        return keys, values

    def _slide(self) -> None:
        for side in self.sides if self.sliding_window else ():
            if len(side) >= self.sliding_window:
                side.keep(len(side) - self.sliding_window + 1, len(side))

    def get_seq_length(self) -> int:
        return self.cumulative_length

    def get_max_length(self) -> int:
        return self.sliding_window or -1

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        kept = len(self.sides[0]) if self.sides else 0
        return kept + query_length, self.cumulative_length - kept

    def crop(self, tokens_to_remove: int) -> None:
        """Drops the last -tokens_to_remove tokens."""
        if tokens_to_remove > 0 or (tokens_to_remove and self.sliding_window):
            raise ValueError(f"layer {self.layer}: crop({tokens_to_remove}): expected 0 or less, no sliding window")
        for side in self.sides if tokens_to_remove else ():
            side.keep(0, max(len(side) + tokens_to_remove, 0))
        self.cumulative_length = max(self.cumulative_length + tokens_to_remove, 0)

    def reset(self) -> None:
        self.sides, self.cumulative_length, self.is_initialized = [], 0, False

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        self.batch_select_indices(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        if self.sides:
            self.batch_select_indices(torch.arange(self.sides[0].first.shape[0]).repeat_interleave(repeats))

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        for side in self.sides:
            side.choose(indices)

    def offload(self) -> None:
        raise NotImplementedError("a packed cache is in main memory already")

    prefetch = offload


class So4Cache(Cache):
    """`config` is the model's. Raises InputError for layers whose cache is more than keys and values, or another's."""

    def __init__(
        self, config: Any, codecs: CodecSet, sink: int = 4, recent: int = 0, keep_decoded: bool = False
    ) -> None:
        if sink < 0 or recent < 0:
            raise InputError(f"sink {sink}, recent {recent}: expected 0 or more exact tokens")
        refuse_shared_caches(config)
        options = Options(sink, recent, keep_decoded)
        make: dict[type, Callable[[int, Any], Any]] = {
            DynamicLayer: lambda i, _: So4Layer(i, codecs, options, None),
            DynamicSlidingWindowLayer: lambda i, layer: So4Layer(i, codecs, options, layer.sliding_window),
            DummyLayer: lambda _, layer: layer,  # has no attention
            LinearAttentionLayer: lambda _, layer: layer,  # has none
        }
        layers = DynamicCache(config=config).layers
        for i, layer in enumerate(layers):
            if type(layer) not in make:
                raise InputError(f"layer {i}: its cache, {type(layer).__name__}, holds more than keys and values")
        super().__init__(layers=[make[type(layer)](i, layer) for i, layer in enumerate(layers)])

    @classmethod
    def from_table(cls, config: Any, table: Path, codec_library: Path | None = None, **options: Any) -> So4Cache:
        """`table`: what `so4cal fit` wrote, .so4.h5; `options` as above."""
        return cls(config, TableCodecs(read_table(table), CodecLibrary(codec_library)), **options)

    def memory(self) -> Memory:
        """Sums over layers and sides, of the arrays' own sizes."""
        parts = [side.memory() for layer in self.layers if isinstance(layer, So4Layer) for side in layer.sides]
        return Memory(*map(sum, zip(*parts, strict=True))) if parts else Memory(0, 0, 0, 0)

    def stored_bytes(self) -> int:
        """What the cache must keep: packed rows and exact tokens. A decoded copy is not among them."""
        memory = self.memory()
        return memory.packed + memory.exact
