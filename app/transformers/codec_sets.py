# SPDX-License-Identifier: Apache-2.0
"""What can pack a whole model's cache: a rotation table or one of ggml's types, as a row codec per layer and head."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from codec import CodecLibrary, RowCodec
from ggml_blocks import Q4_0, Q8_0, GgmlCodec
from load_model import InputError
from table_heads import TableHeads, read_table

ROWS_PER_TASK = 256
_threads = ThreadPoolExecutor(torch.get_num_threads())  # as many as torch uses: OMP_NUM_THREADS holds for both


class CodecSet(Protocol):
    identity: str  # the same text exactly when the rows are the same
    table_bytes: int  # kept once per model beside the rows

    def side(self, layer: int, side: str, num_heads: int, head_dim: int) -> list[RowCodec]:
        """A codec for each KV head of the layer's keys ("k") or values ("v"). Raises InputError if they don't fit."""


def refuse_shared_caches(config: Any) -> None:
    """Raises InputError for a model with layers that read another layer's keys and values: packing would happen at
    the wrong layer, with the wrong table. `config` is the model's."""
    modes = getattr(config.get_text_config(decoder=True), "kv_sharing_modes", None) or []
    shared = [str(layer) for layer, mode in enumerate(modes) if mode == "reuse"]
    if shared:
        raise InputError(
            f"{config.model_type}: expected layers with keys and values of their own, found that layers "
            f"{', '.join(shared)} read those of other layers: packed caches do not support this model; dump_kv.py and "
            "so4cal report work on its other layers"
        )


class TableCodecs:
    def __init__(self, table: TableHeads, library: CodecLibrary) -> None:
        self._table, self._library = table, library
        content = b"".join(head for key in sorted(table.heads) for head in table.heads[key])
        self.identity = f"{table.path.name}, crc32 {zlib.crc32(content):08x}, libso4codec {library.version}"
        self.table_bytes = table.num_bytes
        self._made: dict[tuple[int, str], list[RowCodec]] = {}

    def side(self, layer: int, side: str, num_heads: int, head_dim: int) -> list[RowCodec]:
        if (layer, side) not in self._made:
            self._made[layer, side] = self._make(layer, side)
        codecs = self._made[layer, side]
        found = len(codecs), codecs[0].head_dim
        if found != (num_heads, head_dim):
            raise InputError(
                f"{self._table.path}: layer {layer} {side}: the model has {num_heads} heads of {head_dim} channels, "
                f"the table {found[0]} of {found[1]}: it was fitted on another model ({self._table.model!r})"
            )
        return codecs

    def _make(self, layer: int, side: str) -> list[RowCodec]:
        where = f"{self._table.path}: layer {layer} {side}"
        if (layer, side) not in self._table.heads:
            layers = sorted({layer for layer, _ in self._table.heads})
            raise InputError(
                f"{where}: the model caches this layer, the table has only layers {', '.join(map(str, layers))}: dump "
                "and fit all layers"
            )
        heads = self._table.heads[layer, side]
        return [self._library.head(head, f"{where} head {h}") for h, head in enumerate(heads)]


class GgmlCodecs:
    table_bytes = 0

    def __init__(self, name: str, block_type: type[Q4_0] | type[Q8_0], rotate: bool) -> None:
        self.identity = name
        self._type, self._rotate = block_type, rotate

    def side(self, layer: int, side: str, num_heads: int, head_dim: int) -> list[RowCodec]:
        return [GgmlCodec(self._type, head_dim, self._rotate)] * num_heads


NAMED: dict[str, Callable[[], CodecSet]] = {
    "q4_0": lambda: GgmlCodecs("q4_0", Q4_0, rotate=False),
    "hadamard+q4_0": lambda: GgmlCodecs("hadamard+q4_0", Q4_0, rotate=True),
    "q8_0": lambda: GgmlCodecs("q8_0", Q8_0, rotate=False),
}


def load_codecs(setting: str, library: Path | None = None) -> tuple[str, CodecSet]:
    """The name and codecs of a setting: one of NAMED, TABLE, or NAME=TABLE."""
    if setting in NAMED:
        return setting, NAMED[setting]()
    name, equals, path = setting.partition("=")
    table = Path(path if equals else setting)
    if not table.is_file():
        raise InputError(f"setting {setting}: expected one of exact, {', '.join(NAMED)}, a table or NAME=TABLE")
    name = name if equals else table.name.removesuffix(".h5").removesuffix(".so4")
    if name in NAMED or name == "exact" or not name or "/" in name:
        raise InputError(f"setting {setting}: {name!r} cannot be a table's name; use another NAME in NAME=TABLE")
    return name, TableCodecs(read_table(table), CodecLibrary(library))


def _over_heads(work: Callable[[int, slice], None], num_heads: int, num_rows: int) -> None:
    """work(head, rows) for runs of rows of every head, on all threads when there is enough to do."""
    runs = [slice(first, first + ROWS_PER_TASK) for first in range(0, num_rows, ROWS_PER_TASK)]
    tasks = [(head, run) for head in range(num_heads) for run in runs]
    if num_heads * num_rows < ROWS_PER_TASK:
        for task in tasks:
            work(*task)
        return
    for done in [_threads.submit(work, *task) for task in tasks]:
        done.result()


def encode_heads(codecs: list[RowCodec], x: np.ndarray) -> np.ndarray:
    """[head, token, channel] float32 -> [head, token, row_bytes] uint8."""
    rows = np.empty((*x.shape[:2], codecs[0].row_bytes), np.uint8)

    def encode(head: int, run: slice) -> None:
        rows[head, run] = codecs[head].encode(x[head, run])

    _over_heads(encode, *x.shape[:2])
    return rows


def decode_heads(codecs: list[RowCodec], rows: np.ndarray) -> np.ndarray:
    """The inverse of encode_heads, but for what the codec loses."""
    x = np.empty((*rows.shape[:2], codecs[0].head_dim), np.float32)

    def decode(head: int, run: slice) -> None:
        x[head, run] = codecs[head].decode(rows[head, run])

    _over_heads(decode, *rows.shape[:2])
    return x
