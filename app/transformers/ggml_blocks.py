# SPDX-License-Identifier: Apache-2.0
"""ggml's cache types q4_0 and q8_0 as row codecs, for comparison: the bytes, rounding and sizes of ggml's reference
functions (quantize_row_q4_0_ref and quantize_row_q8_0_ref in ggml-quants.c), written in numpy. Not a fast path.

A block is 32 channels and one fp16 scale d. ggml rounds with 1/d of the float scale and decodes with the fp16 one.
"""

from __future__ import annotations

import numpy as np

from load_model import InputError

BLOCK = 32


def _blocks(x: np.ndarray) -> np.ndarray:
    return np.asarray(x, np.float32).reshape(-1, BLOCK)


def _inverse(scale: np.ndarray) -> np.ndarray:
    return np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale != 0)


def _with_scales(scale: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """[blocks] and [blocks, bytes] -> [blocks, 2 + bytes]: fp16, little-endian, then the codes."""
    return np.concatenate([scale.astype("<f2").view(np.uint8).reshape(-1, 2), codes.view(np.uint8)], axis=1)


def _scales(packed: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(packed[:, :2]).view("<f2").astype(np.float32)


class Q4_0:
    """18 bytes per block (4.5 bits): the value of largest magnitude becomes code 0, that is -8; codes are
    trunc(x/d + 8.5), at most 15; byte j holds channel j in its low and channel j + 16 in its high half."""

    block_bytes = 18

    @staticmethod
    def pack(x: np.ndarray) -> np.ndarray:
        blocks = _blocks(x)
        largest = np.take_along_axis(blocks, np.abs(blocks).argmax(1)[:, None], 1)[:, 0]
        scale = largest / np.float32(-8)
        codes = np.minimum((blocks * _inverse(scale)[:, None] + np.float32(8.5)).astype(np.uint8), 15)
        return _with_scales(scale, codes[:, :16] | codes[:, 16:] << 4)

    @staticmethod
    def unpack(packed: np.ndarray) -> np.ndarray:
        codes = np.concatenate([packed[:, 2:] & 15, packed[:, 2:] >> 4], axis=1)
        return (codes.astype(np.float32) - 8) * _scales(packed)


class Q8_0:
    """34 bytes per block (8.5 bits): d = max|x| / 127, codes rounded to nearest, halves away from zero."""

    block_bytes = 34

    @staticmethod
    def pack(x: np.ndarray) -> np.ndarray:
        blocks = _blocks(x)
        scale = np.abs(blocks).max(1) / np.float32(127)
        scaled = blocks * _inverse(scale)[:, None]
        return _with_scales(scale, np.copysign(np.floor(np.abs(scaled) + np.float32(0.5)), scaled).astype(np.int8))

    @staticmethod
    def unpack(packed: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(packed[:, 2:]).view(np.int8).astype(np.float32) * _scales(packed)


def hadamard(x: np.ndarray) -> np.ndarray:
    """Rows times the normalized Sylvester matrix of the largest power of two that divides their length, by sections."""
    d = x.shape[1]
    p = d & -d
    y, step = x.reshape(-1, p), 1
    while step < p:
        pairs = y.reshape(len(y), -1, 2, step)
        y = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2).reshape(len(y), p)
        step *= 2
    return (y / np.float32(np.sqrt(p))).reshape(x.shape)


class GgmlCodec:
    """A RowCodec (codec.py) of one of the two types, on the rows or on their Hadamard transform."""

    def __init__(self, block_type: type[Q4_0] | type[Q8_0], head_dim: int, rotate: bool) -> None:
        if head_dim % BLOCK:
            raise InputError(f"{block_type.__name__.lower()}: head_dim is {head_dim}, expected a multiple of {BLOCK}")
        self._type, self._rotate = block_type, rotate
        self.head_dim = head_dim
        self.row_bytes = head_dim // BLOCK * block_type.block_bytes

    def encode(self, x: np.ndarray) -> np.ndarray:
        return self._type.pack(hadamard(x) if self._rotate else x).reshape(len(x), self.row_bytes)

    def decode(self, rows: np.ndarray) -> np.ndarray:
        x = self._type.unpack(rows.reshape(-1, self._type.block_bytes)).reshape(len(rows), self.head_dim)
        return hadamard(x) if self._rotate else x  # its own inverse
