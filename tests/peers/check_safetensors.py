#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads exported tables with the safetensors package and holds their dense rotations to the quaternions.

usage: check_safetensors.py TABLE.safetensors ...        (TABLE.h5 beside one is compared too)
"""

import json
import pathlib
import sys

import h5py
import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save
from table_math import check_map, map_of_head, require


def check_side(tensors: dict[str, np.ndarray], side: dict, prefix: str) -> int:
    def take(name: str, h: int) -> np.ndarray | None:
        tensor = tensors.get(f"{prefix}_{name}")
        return None if tensor is None else tensor[h]

    d, heads = side["head_dim"], side["num_heads"]
    rotation, chosen = tensors[f"{prefix}_rotation"], tensors[f"{prefix}_chosen"]
    require(rotation.shape == (heads, d, d) and rotation.dtype == np.float32, f"{prefix}_rotation: shape or dtype")
    for h in range(heads):
        u = map_of_head(
            d, int(chosen[h]), bool(side["hadamard"]), side["strides"], take("quaternions", h), take("signs", h), take("dense", h)
        )
        offset = take("offset", h)
        check_map(u, offset, f"{prefix}, head {h}")
        # Entries are below 1: rounding to float moves them by 2^-25 at most.
        require(np.abs(rotation[h] - u.T).max() < 2**-24, f"{prefix}_rotation, head {h} is not the transpose of U")
        x = np.sin(1 + np.arange(d))
        mu = np.zeros(d) if offset is None else offset
        y = (x - mu) @ rotation[h].astype(float)  # the row convention that the metadata states
        require(np.abs(y - u @ (x - mu)).max() < 1e-5, f"{prefix}_rotation, head {h}: a planted row goes elsewhere")
        require(np.abs(y @ rotation[h].T + mu - x).max() < 1e-5, f"{prefix}_rotation, head {h}: it does not come back")
    return heads


def check_against_native(tensors: dict[str, np.ndarray], path: pathlib.Path) -> None:
    with h5py.File(path) as h5:
        for layer, group in h5["layers"].items():
            for side in "kv":
                for name in ("quaternions", "dense", "offset", "signs", "metric", "chosen"):
                    tensor = tensors.get(f"layers.{layer}.{side}_{name}")
                    require((tensor is not None) == (name in group[side]), f"{path}: {layer}/{side}/{name} in one only")
                    if tensor is not None:
                        same = tensor.dtype == group[side][name].dtype and np.array_equal(tensor, group[side][name])
                        require(same, f"{path}: /layers/{layer}/{side}/{name} differs")


def header_of(raw: bytes) -> dict:
    return json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])


def check_file(path: pathlib.Path) -> None:
    tensors = load_file(path)
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    require(metadata["format"] == "so4cal-safetensors", f"{path}: format")
    require("y = (x - offset) @ rotation" in metadata["convention"], f"{path}: the convention is not stated")
    layers = json.loads(metadata["table"])["layers"]
    heads = sum(check_side(tensors, layers[n][s], f"layers.{n}.{s}") for n in layers for s in "kv")
    raw = path.read_bytes()
    ours, theirs = header_of(raw), header_of(save(tensors))
    ours.pop("__metadata__")
    require(list(ours.items()) == list(theirs.items()), f"{path}: order or offsets differ from the reference writer's")
    require(int.from_bytes(raw[:8], "little") % 8 == 0, f"{path}: the header is not padded to 8 bytes")
    native = path.with_suffix(".h5")
    if native.exists():
        check_against_native(tensors, native)
    print(f"{path}: {heads} heads, rotation = U^T of the quaternions, planted rows both ways, layout as the reference writer")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    for argument in sys.argv[1:]:
        check_file(pathlib.Path(argument))
