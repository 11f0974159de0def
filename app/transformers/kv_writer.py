# SPDX-License-Identifier: Apache-2.0
"""Writes the HDF5 dump that so4cal reads: /layers/<i>/{q,k,v,w_o}, rows in token order, one sequence at a time."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

import h5py
import numpy as np
import torch

from load_model import InputError

FLOAT16_MAX = 65504.0
CHUNK_BYTES = 1 << 20  # a chunk is at most 256 tokens and about 1 MiB, so that a reader's chunk cache holds it


def _bfloat16() -> h5py.h5t.TypeFloatID:
    """HDF5 before 2.0 has no bfloat16 of its own: a 2-byte float with 8 exponent bits, bias 127, 7 mantissa bits."""
    dtype = h5py.h5t.IEEE_F32LE.copy()
    dtype.set_fields(15, 7, 8, 0, 7)
    dtype.set_size(2)
    dtype.set_ebias(127)
    return dtype


FILE_TYPES = {"f16": h5py.h5t.IEEE_F16LE, "bf16": _bfloat16(), "f32": h5py.h5t.IEEE_F32LE}


def to_stored(values: torch.Tensor, dtype: str, where: str) -> np.ndarray:
    """Rounds to `dtype` (f16, bf16 or f32); bf16 comes back as bits in uint16. Refuses NaN, Inf, f16 overflow."""
    values = values.detach().to(device="cpu", dtype=torch.float32)
    finite = torch.isfinite(values)
    if not finite.all():
        index = tuple(int(i) for i in (~finite).nonzero()[0])
        raise InputError(f"{where}: expected finite values, found {int((~finite).sum())} NaN or Inf, first at {index}")
    if dtype == "f32":
        return values.numpy()
    if dtype == "bf16":
        return values.to(torch.bfloat16).contiguous().view(torch.uint16).numpy()
    largest = float(values.abs().max()) if values.numel() else 0.0
    # Round to nearest sends everything from 65520 on to Inf; above 65504 a value is already out of range.
    if largest > FLOAT16_MAX:
        raise InputError(f"{where}: {largest:g} does not fit f16 (largest {FLOAT16_MAX:g}); use --dtype bf16 or f32")
    return values.to(torch.float16).numpy()


class DumpWriter:
    """A dump under a temporary name beside `output`; it gets its final name only when the block ends without error."""

    def __init__(self, output: Path, dtype: str, compress: bool) -> None:
        self.output = output
        self.dtype = dtype
        self._temporary = output.with_name(f".{output.name}.{os.getpid()}.partial")
        self._filters = {"compression": "gzip", "compression_opts": 4, "shuffle": True} if compress else {}

    def __enter__(self) -> DumpWriter:
        try:
            # Readable by HDF5 1.10, which is what Debian 12 and 13 have.
            self._file = h5py.File(self._temporary, "w", libver=("earliest", "v110"))
        except OSError as error:
            raise InputError(f"{self.output}: cannot be written: {error}") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            self._file.close()
            if kind is None:
                self._publish()
        finally:
            self._temporary.unlink(missing_ok=True)

    def _publish(self) -> None:
        with open(self._temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(self._temporary, self.output)

    def root_attributes(self, **attributes: object) -> None:
        self._file.attrs.update({"rope": "post", "axes": "token,head,channel", **attributes})

    def integers(self, name: str, values: list[int]) -> None:
        self._file.create_dataset(name, data=np.asarray(values, dtype=np.int64), track_times=False)

    def layer_attributes(self, layer: int, **attributes: float | int) -> None:
        self._file.require_group(f"layers/{layer}").attrs.update(attributes)

    def rows(self, name: str, values: torch.Tensor, first_row: int, num_rows: int) -> None:
        """Puts `values` [rows, ...] at `first_row` of dataset `name`, made with `num_rows` rows when it is new."""
        stored = np.ascontiguousarray(to_stored(values, self.dtype, f"{self.output}: /{name} from row {first_row}"))
        if name not in self._file:
            self._create(name, (num_rows, *stored.shape[1:]))
        dataset = self._file[name].id
        space = dataset.get_space()
        space.select_hyperslab((first_row,) + (0,) * (stored.ndim - 1), stored.shape)
        # The memory type is named, because h5py has no numpy type for bfloat16.
        dataset.write(h5py.h5s.create_simple(stored.shape), space, stored, FILE_TYPES[self.dtype])

    def _create(self, name: str, shape: tuple[int, ...]) -> None:
        row_bytes = int(np.prod(shape[1:])) * (4 if self.dtype == "f32" else 2)
        chunk_rows = max(1, min(256, shape[0], CHUNK_BYTES // row_bytes))
        datatype = h5py.Datatype(FILE_TYPES[self.dtype])
        self._file.create_dataset(
            name, shape, datatype, chunks=(chunk_rows, *shape[1:]), track_times=False, **self._filters
        )
