#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes dumps/*.h5, each with one defect, and dumps/expected.json: words that its error message must have.

Needs numpy and h5py. Running it again gives the same files: python3 make_bad_dumps.py
"""
import json
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

FOLDER = Path(__file__).parent / "dumps"
TOKENS, HEADS, CHANNELS = 256, 2, 8
GZIP = {"compression": "gzip", "shuffle": True}
CASES: list[tuple[str, list[str], Callable[[Path], None]]] = []


def values(*shape: int, dtype: str = "f2") -> np.ndarray:
    """Small exact values that differ from token to token and compress well."""
    index = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    return ((index * 37 % 101 - 50) / 16).astype(dtype)


def good(file: h5py.File, layers: tuple[str, ...] = ("0",), num_tokens: int = TOKENS) -> None:
    file.attrs["rope"] = "post"
    file.attrs["axes"] = "token,head,channel"
    for layer in layers:
        for side in "kv":
            file.create_dataset(f"layers/{layer}/{side}", data=values(num_tokens, HEADS, CHANNELS), **GZIP)


def replace(file: h5py.File, path: str, data: np.ndarray, **storage: object) -> h5py.Dataset:
    del file[path]
    return file.create_dataset(path, data=data, **(storage or GZIP))


def case(*words: str) -> Callable[[Callable[[h5py.File], None]], None]:
    """A defect made to a good dump of one layer; the function's name is the file's."""

    def register(change: Callable[[h5py.File], None]) -> None:
        def make(path: Path) -> None:
            with h5py.File(path, "w") as file:
                good(file)
                change(file)

        CASES.append((change.__name__, list(words), make))

    return register


def raw(*words: str) -> Callable[[Callable[[Path], None]], None]:
    """A defect in the bytes of the file."""

    def register(make: Callable[[Path], None]) -> None:
        CASES.append((make.__name__, list(words), make))

    return register


# The file itself.
@raw("expected a complete HDF5 file", "truncated file", "copy it or write it again")
def truncated(path: Path) -> None:
    with h5py.File(path, "w") as file:
        good(file)
    path.write_bytes(path.read_bytes()[:3000])


@raw("expected an HDF5 file", "something else", "17 bytes")
def not_hdf5(path: Path) -> None:
    path.write_bytes(b"this is not HDF5\n")


@raw("expected an HDF5 file", "0 bytes")
def empty(path: Path) -> None:
    path.write_bytes(b"")


@raw("/layers/0/v", "can't be read", "Fletcher32")
def damaged_chunk(path: Path) -> None:
    with h5py.File(path, "w") as file:
        good(file)
        chunks = {"chunks": (TOKENS, HEADS, CHANNELS), "fletcher32": True}
        replace(file, "layers/0/v", values(TOKENS, HEADS, CHANNELS), **chunks)
        offset = file["layers/0/v"].id.get_chunk_info(0).byte_offset
    data = bytearray(path.read_bytes())
    data[offset + 100] ^= 1
    path.write_bytes(data)


# What is there.
@case("expected the group /layers", "found other")
def no_layers(file: h5py.File) -> None:
    file.move("layers", "other")


@case("/layers: expected groups called by the layer's number", "found first")
def layer_name(file: h5py.File) -> None:
    file.move("layers/0", "layers/first")


@case("layer 0 is there twice", "0 and 00")
def layer_twice(file: h5py.File) -> None:
    file.copy("layers/0", "layers/00")


@case("expected the dataset /layers/0/k", "found v in /layers/0", "--key-name")
def no_k(file: h5py.File) -> None:
    del file["layers/0/k"]


@case("expected the dataset /layers/0/v", "found k in /layers/0", "--value-name")
def no_v(file: h5py.File) -> None:
    del file["layers/0/v"]


@case("expected the dataset /layers/0/k", "found a group")
def k_is_a_group(file: h5py.File) -> None:
    del file["layers/0/k"]
    file.create_group("layers/0/k")


@case("`num_layers` is 5", "there is a layer 7", "count from 0")
def num_layers_too_small(file: h5py.File) -> None:
    file.move("layers/0", "layers/7")
    file.attrs["num_layers"] = 5


@case("`num_layers` is 30", "layer axis has 2 entries", "/layers/<i>")
def stacked_some_layers(file: h5py.File) -> None:
    del file["layers"]
    for side in "kv":
        file[side] = values(2, TOKENS, HEADS, CHANNELS)
    file.attrs["axes"] = "layer,token,head,channel"
    file.attrs["num_layers"] = 30


@case("attribute `axes` of /", "(batch,token,head,channel)", "must start with layer")
def stacked_without_layer_axis(file: h5py.File) -> None:
    del file["layers"]
    for side in "kv":
        file[side] = values(2, TOKENS, HEADS, CHANNELS)
    file.attrs["axes"] = "batch,token,head,channel"


# RoPE.
@case('rope = "pre"', "expected keys after RoPE", "the rotation must act after RoPE")
def rope_pre(file: h5py.File) -> None:
    file.attrs["rope"] = "pre"


@case("no attribute `rope`", 'expected rope = "post"', "attrs[")
def rope_missing(file: h5py.File) -> None:
    del file.attrs["rope"]


@case("attribute `rope`", 'expected "post"', 'found "after"')
def rope_unknown(file: h5py.File) -> None:
    file.attrs["rope"] = "after"


# Axes.
@case("/layers/0/k", "can't be told", "[256, 256, 8]", "token,head,channel (256 tokens, 256 heads) or "
      "head,token,channel (256 tokens, 256 heads)", "attribute `axes`", "--axes")
def axes_two_fit(file: h5py.File) -> None:
    del file.attrs["axes"]
    for side in "kv":
        replace(file, f"layers/0/{side}", np.zeros((256, 256, 8), "f2"))


@case("/layers/0/k", "can't be told", "(100 tokens, 2 heads)", "(2 tokens, 100 heads)", "--axes")
def axes_none_fits(file: h5py.File) -> None:
    del file.attrs["axes"]
    for side in "kv":
        replace(file, f"layers/0/{side}", values(100, HEADS, CHANNELS))


@case("attribute `axes` of /", "expected a comma list", 'found "seq,head,dim"')
def axes_unknown(file: h5py.File) -> None:
    file.attrs["axes"] = "seq,head,dim"


@case("attribute `axes` of /layers/0/k names 4 axes", "[256, 2, 8]", "correct the axes")
def axes_of_another_rank(file: h5py.File) -> None:
    file["layers/0/k"].attrs["axes"] = "batch,head,token,channel"


@case("/layers/0/k", "[512, 8]", "can't be told", "--axes")
def two_dimensions(file: h5py.File) -> None:
    del file.attrs["axes"]
    replace(file, "layers/0/k", values(TOKENS * HEADS, CHANNELS))


# Extents.
@case("/layers/0/v", "as many tokens as in /layers/0/k (256), found 300")
def unequal_tokens(file: h5py.File) -> None:
    replace(file, "layers/0/v", values(300, HEADS, CHANNELS))


@case("/layers/1/k", "as many tokens", "/layers/0/k (256 in 1), found 300 in 1")
def unequal_tokens_of_layers(file: h5py.File) -> None:
    for side in "kv":
        file[f"layers/1/{side}"] = values(300, HEADS, CHANNELS)


@case("/layers/0/v", "as many heads as in /layers/0/k (2), found 4")
def unequal_heads(file: h5py.File) -> None:
    replace(file, "layers/0/v", values(TOKENS, 4, CHANNELS))


@case("/layers/0/k", "multiple of 8", "found 6 channels")
def head_dim_6(file: h5py.File) -> None:
    replace(file, "layers/0/k", values(TOKENS, HEADS, 6))


@case("at least 256 tokens", "found 200", "--allow-few-tokens")
def tokens_200(file: h5py.File) -> None:
    for side in "kv":
        replace(file, f"layers/0/{side}", values(200, HEADS, CHANNELS))


@case("/layers/0/k", "expected tokens, found none", "[0, 2, 8]")
def tokens_0(file: h5py.File) -> None:
    for side in "kv":
        replace(file, f"layers/0/{side}", values(0, HEADS, CHANNELS), maxshape=(None, HEADS, CHANNELS))


@case("/layers/0/k", "at least one head", "[256, 0, 8]")
def heads_0(file: h5py.File) -> None:
    replace(file, "layers/0/k", values(TOKENS, 0, CHANNELS), chunks=None)


# Types and filters.
@case("/layers/0/k", "found uint16", 'dtype = "bfloat16"')
def bare_uint16(file: h5py.File) -> None:
    replace(file, "layers/0/k", values(TOKENS, HEADS, CHANNELS).view("u2"))


@case("/layers/0/k", "`dtype`", "expected bfloat16", "found float8")
def uint16_of_another_dtype(file: h5py.File) -> None:
    replace(file, "layers/0/k", values(TOKENS, HEADS, CHANNELS).view("u2")).attrs["dtype"] = "float8"


@case("/layers/0/k", "expected f16, bf16, f32 or f64", "found int8")
def int8(file: h5py.File) -> None:
    replace(file, "layers/0/k", values(TOKENS, HEADS, CHANNELS, dtype="i1"))


@case("/layers/0/k", "expected f16, bf16, f32 or f64", "1 opaque bytes")
def opaque_1_byte(file: h5py.File) -> None:
    replace(file, "layers/0/k", values(TOKENS, HEADS, CHANNELS, dtype="i1").view("V1"))


@case("/layers/0/k", "expected f16, bf16, f32 or f64", "another type")
def complex_numbers(file: h5py.File) -> None:
    replace(file, "layers/0/k", values(TOKENS, HEADS, CHANNELS, dtype="c8"))


@case("/layers/0/k", "filter lzf (32000)", "HDF5_PLUGIN_PATH", "GZIP")
def unknown_filter(file: h5py.File) -> None:
    replace(file, "layers/0/k", values(TOKENS, HEADS, CHANNELS), compression="lzf")


# Values.
@case("/layers/0/k", "found 2 that are NaN", "token 17, head 1, channel 3")
def nan(file: h5py.File) -> None:
    file["layers/0/k"][17, 1, 3] = np.nan
    file["layers/0/k"][200, 1, 0] = np.nan


@case("/layers/0/v", "found 1 that is NaN or infinite", "token 255, head 0, channel 7")
def inf(file: h5py.File) -> None:
    file["layers/0/v"][255, 0, 7] = -np.inf


@case("/layers/0/k", "f32's range", "token 3, head 0, channel 2")
def f64_too_large(file: h5py.File) -> None:
    data = values(TOKENS, HEADS, CHANNELS, dtype="f8")
    data[3, 0, 2] = 1e300
    replace(file, "layers/0/k", data)


@case("/layers/0/k", "head 1 to be all zero", "--allow-constant-heads")
def zero_head(file: h5py.File) -> None:
    file["layers/0/k"][:, 1, :] = 0


@case("/layers/0/v", "head 0 to be the same vector at every token", "--allow-constant-heads")
def constant_head(file: h5py.File) -> None:
    file["layers/0/v"][:, 0, :] = values(CHANNELS)


# Sequences, queries and the rest.
@case("/sequence_starts", "ascending", "found 100 after 200")
def sequence_starts_unordered(file: h5py.File) -> None:
    file["sequence_starts"] = np.array([0, 200, 100])


@case("/sequence_starts", "below 256", "found 256")
def sequence_starts_past_the_end(file: h5py.File) -> None:
    file["sequence_starts"] = np.array([0, 256])


@case("/sequence_starts", "from 0 on", "found 5 as the first")
def sequence_starts_not_from_0(file: h5py.File) -> None:
    file["sequence_starts"] = np.array([5, 100])


@case("/layers/0/q", "expected tokens, found none")
def queries_0(file: h5py.File) -> None:
    file["layers/0/q"] = values(0, HEADS, CHANNELS)
    file["layers/0/q_positions"] = np.zeros(0, "i8")


@case("/layers/0/q", "all 256 tokens", "q_positions", "[100, 2, 8]")
def queries_without_positions(file: h5py.File) -> None:
    file["layers/0/q"] = values(100, HEADS, CHANNELS)


@case("/layers/0/q_positions", "below 256", "found 256")
def query_position_past_the_end(file: h5py.File) -> None:
    file["layers/0/q"] = values(2, HEADS, CHANNELS)
    file["layers/0/q_positions"] = np.array([0, 256])


@case("/layers/0/q", "a multiple of k's 2 heads", "[256, 3, 8]")
def query_heads(file: h5py.File) -> None:
    file["layers/0/q"] = values(TOKENS, 3, CHANNELS)


@case("/layers/0/q_moment", "[2, 8, 8]", "found extents [2, 8, 4]")
def q_moment_extents(file: h5py.File) -> None:
    file["layers/0/q_moment"] = values(HEADS, CHANNELS, 4)


@case("/layers/0/w_o", "a multiple of 16 columns", "found extents [8, 20]")
def w_o_columns(file: h5py.File) -> None:
    file["layers/0/w_o"] = values(8, 20)


@case("`softmax_scale`", "expected a positive number", "found -1")
def softmax_scale(file: h5py.File) -> None:
    file["layers/0"].attrs["softmax_scale"] = -1.0


@case("`sliding_window`", "found 2.5")
def sliding_window(file: h5py.File) -> None:
    file["layers/0"].attrs["sliding_window"] = 2.5


@case("`softmax_scale`", "expected a number")
def softmax_scale_text(file: h5py.File) -> None:
    file["layers/0"].attrs["softmax_scale"] = "0.125"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.iterdir():
        old.unlink()
    for name, _, make in CASES:
        make(FOLDER / f"{name}.h5")
    expected = {f"{name}.h5": words for name, words, _ in CASES}
    (FOLDER / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
