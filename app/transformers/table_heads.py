# SPDX-License-Identifier: Apache-2.0
"""Head table bytes (lib/CODEC.md) from a native rotation table (formats/FORMATS.md), as in its C export."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from load_model import InputError

_GRIDS = ("symmetric", "full", "lloyd")  # code = place
_SCALES = ("absmax", "mse")
_HADAMARD, _SIGNS, _OFFSET, _DENSE, _METRIC = 1, 2, 4, 8, 16


@dataclass
class TableHeads:
    path: Path
    model: str
    heads: dict[tuple[int, str], list[bytes]]  # (layer, "k" or "v") -> head table bytes per KV head

    @property
    def num_bytes(self) -> int:
        return sum(len(head) for heads in self.heads.values() for head in heads)


def _multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Hamilton product over the last axis; sums in the order of lib/so4.h, so that the floats are the same bits."""
    a0, a1, a2, a3 = np.moveaxis(a, -1, 0)
    b0, b1, b2, b3 = np.moveaxis(b, -1, 0)
    return np.stack([a0 * b0 - a1 * b1 - a2 * b2 - a3 * b3,
                     a0 * b1 + a1 * b0 + a2 * b3 - a3 * b2,
                     a0 * b2 - a1 * b3 + a2 * b0 + a3 * b1,
                     a0 * b3 + a1 * b2 - a2 * b1 + a3 * b0], axis=-1)  # fmt: skip


def block_matrices(quaternions: np.ndarray) -> np.ndarray:
    """[..., 2, 4] pairs (qL, qR) -> [..., 4, 4] matrices of v -> qL v conj(qR), in double."""
    left, right = quaternions[..., 0, :], quaternions[..., 1, :]
    conjugate = np.concatenate([right[..., :1], -right[..., 1:]], axis=-1)
    columns = [_multiply(_multiply(left, np.broadcast_to(e, left.shape)), conjugate) for e in np.eye(4)]
    return np.stack(columns, axis=-1)


def _floats(array: np.ndarray) -> bytes:
    return np.asarray(array).astype("<f4").tobytes()


class _Side:
    """The arrays of one layer's keys or values, each read once for all its heads."""

    def __init__(self, group: h5py.Group) -> None:
        self.attributes: dict[str, Any] = {
            name: value.decode() if isinstance(value, bytes) else value for name, value in group.attrs.items()
        }
        self.columns = {name: group[name][()] for name in ("chosen", "rounding", "damping", "rounds")}
        self.arrays = {name: group[name][()] for name in self.attributes["arrays"].split()}
        self.strides = [int(stride) for stride in self.attributes["strides"]]
        self.blocks = block_matrices(group["quaternions"][()]) if self.strides else None

    def _array(self, name: str, head: int) -> np.ndarray | None:
        """A head without signs, dense matrix or metric has a row of zeros; an offset may be zero."""
        if name not in self.arrays:
            return None
        row = self.arrays[name][head]
        return row if name == "offset" or np.any(row) else None

    def head_bytes(self, head: int) -> bytes:
        signs, offset, dense, metric = (self._array(name, head) for name in ("signs", "offset", "dense", "metric"))
        flags = _HADAMARD if self.attributes["hadamard"] else 0
        body = struct.pack(f"<{len(self.strides)}I", *self.strides)
        if signs is not None:
            flags |= _SIGNS
            body += signs.astype(np.int8).tobytes()
        if offset is not None:
            flags |= _OFFSET
            body += _floats(offset)
        if self.blocks is not None:
            body += _floats(self.blocks[head])
        if dense is not None:
            flags |= _DENSE
            body += _floats(dense)
        if metric is not None:
            flags |= _METRIC
            body += _floats(metric)
        return self._with_frame(head, flags, body)

    def _with_frame(self, head: int, flags: int, body: bytes) -> bytes:
        side, column = self.attributes, self.columns
        sizes = int(side["head_dim"]), int(side["block"])
        codec = int(side["bits"]), _GRIDS.index(side["grid"]), _SCALES.index(side["scale"])
        rounding, chosen, rounds = (int(column[name][head]) for name in ("rounding", "chosen", "rounds"))
        header = struct.pack("<8sII", b"SO4HEAD", 1, 36 + len(body) + 4)
        header += struct.pack("<2I8B", *sizes, *codec, rounding, chosen, flags, rounds, len(self.strides))
        header += struct.pack("<f", column["damping"][head])
        return header + body + struct.pack("<I", zlib.crc32(header + body))


def read_table(path: Path) -> TableHeads:
    """The head table bytes of all heads. The C library checks what is in them; here the container is checked."""
    if not path.is_file():
        raise InputError(f"{path}: expected a rotation table, found no file there")
    try:
        with h5py.File(path) as file:
            kind, version = file.attrs.get("format"), file.attrs.get("format_version")
            if kind not in ("so4cal-table", b"so4cal-table") or version != 1:
                raise InputError(f"{path}: expected format so4cal-table, version 1, found {kind}, version {version}")
            heads = {}
            for layer, group in file["layers"].items():
                for name in "kv":
                    side = _Side(group[name])
                    heads[int(layer), name] = [side.head_bytes(h) for h in range(int(side.attributes["num_heads"]))]
            model = file.attrs["model"]
            return TableHeads(path, model.decode() if isinstance(model, bytes) else model, heads)
    except OSError as error:
        raise InputError(f"{path}: expected a native table (.so4.h5) of `so4cal fit`; h5py says: {error}") from error
    except (KeyError, ValueError) as error:
        raise InputError(f"{path}: damaged, or not a table of format version 1: {error}") from error
