# SPDX-License-Identifier: Apache-2.0
"""The C codec (lib/so4codec.h, libso4codec) from Python: packs rows of keys or values and unpacks them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from load_model import InputError

LIBRARY_VARIABLE = "SO4CAL_CODEC"
_BUILD = Path(__file__).resolve().parents[2] / "build"


class RowCodec(Protocol):
    """One head and side: vectors of head_dim floats to rows of row_bytes bytes and back."""

    head_dim: int
    row_bytes: int

    def encode(self, x: np.ndarray) -> np.ndarray:
        """[n, head_dim] float32 -> [n, row_bytes] uint8."""

    def decode(self, rows: np.ndarray) -> np.ndarray:
        """[n, row_bytes] uint8 -> [n, head_dim] float32."""


class _Place(ctypes.Structure):
    _fields_ = [("row", ctypes.c_size_t), ("channel", ctypes.c_size_t)]


_HANDLE, _SIZE, _POINTER = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "so4_version": (ctypes.c_uint32, []),
    "so4_error_string": (ctypes.c_char_p, [ctypes.c_int]),
    "so4_create": (ctypes.c_int, [ctypes.c_char_p, _SIZE, ctypes.POINTER(_HANDLE), ctypes.c_char_p, _SIZE]),
    "so4_destroy": (None, [_HANDLE]),
    "so4_head_dim": (_SIZE, [_HANDLE]),
    "so4_row_bytes": (_SIZE, [_HANDLE]),
    "so4_encode": (ctypes.c_int, [_HANDLE, _POINTER, _SIZE, _SIZE, _POINTER, _SIZE, ctypes.POINTER(_Place)]),
    "so4_decode": (ctypes.c_int, [_HANDLE, _POINTER, _SIZE, _POINTER, _SIZE, ctypes.POINTER(_Place)]),
}


def find_library(given: Path | None = None) -> Path:
    """`given`, else the environment's SO4CAL_CODEC, else the newest libso4codec in the folders of build/."""
    named = given or os.environ.get(LIBRARY_VARIABLE)
    if named:
        if Path(named).is_file():
            return Path(named)
        raise InputError(f"{named}: expected the library libso4codec.so, found no file there")
    built = [file for suffix in ("so", "dylib") for file in _BUILD.glob(f"*/libso4codec.{suffix}")]
    if not built:
        raise InputError(
            f"no libso4codec in {_BUILD}/*: build the target so4codec, or name the library with --codec-library or "
            f"the environment variable {LIBRARY_VARIABLE}"
        )
    return max(built, key=lambda file: file.stat().st_mtime)


class CodecLibrary:
    """The loaded shared library. Its functions let go of Python's lock, so that threads work at once."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = find_library(path)
        try:
            self._library = ctypes.CDLL(str(self.path))
            for name, (result, arguments) in _FUNCTIONS.items():
                function = getattr(self._library, name)
                function.restype, function.argtypes = result, arguments
        except (OSError, AttributeError) as error:
            raise InputError(f"{self.path}: cannot be loaded as libso4codec: {error}") from error

    @property
    def version(self) -> str:
        number = self._library.so4_version()
        return f"{number >> 16}.{number >> 8 & 255}.{number & 255}"

    def head(self, table: bytes, what: str) -> HeadCodec:
        """A codec from head table bytes; `what` says whose they are in errors."""
        return HeadCodec(self._library, table, what)


class HeadCodec:
    """A RowCodec on a handle of the C library. Any number of threads may use it at once."""

    def __init__(self, library: Any, table: bytes, what: str) -> None:
        self._library, self.what = library, what
        self._handle = _HANDLE()
        message = ctypes.create_string_buffer(400)
        status = library.so4_create(table, len(table), ctypes.byref(self._handle), message, len(message))
        if status:
            raise InputError(f"{what}: {message.value.decode(errors='replace')}")
        self.head_dim: int = library.so4_head_dim(self._handle)
        self.row_bytes: int = library.so4_row_bytes(self._handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._library.so4_destroy(self._handle)

    def encode(self, x: np.ndarray) -> np.ndarray:
        x = np.ascontiguousarray(x, dtype=np.float32)
        self._check_shape(x, self.head_dim)
        rows = np.empty((len(x), self.row_bytes), np.uint8)
        self._call(self._library.so4_encode, x.ctypes.data, len(x), self.head_dim, rows.ctypes.data, rows.nbytes)
        return rows

    def decode(self, rows: np.ndarray) -> np.ndarray:
        rows = np.ascontiguousarray(rows, dtype=np.uint8)
        self._check_shape(rows, self.row_bytes)
        x = np.empty((len(rows), self.head_dim), np.float32)
        self._call(self._library.so4_decode, rows.ctypes.data, rows.nbytes, x.ctypes.data, len(rows))
        return x

    def _check_shape(self, array: np.ndarray, width: int) -> None:
        if array.ndim != 2 or array.shape[1] != width:
            raise ValueError(f"{self.what}: expected an array [n, {width}], found {list(array.shape)}")

    def _call(self, function: Callable[..., int], *arguments: int) -> None:
        place = _Place()
        status = function(self._handle, *arguments, ctypes.byref(place))
        if status:
            reason = self._library.so4_error_string(status).decode()
            raise InputError(f"{self.what}: row {place.row}, channel {place.channel}: {reason}")
