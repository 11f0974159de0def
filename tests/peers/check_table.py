#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads native tables with h5py and, beside each, the same table as JSON; checks maps and that both agree.

usage: check_table.py TABLE.h5 ...        (TABLE.json must be beside each)
"""

import json
import pathlib
import sys
from typing import Any

import h5py
import numpy as np
from table_math import check_map, map_of_head, require

ARRAYS = ["quaternions", "dense", "signs", "offset", "metric", "damping", "rounds", "shrink", "iterations", "converged"]
CODES = ["chosen", "rounding", "loss", "objective"]


def text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def array(group: h5py.Group, name: str) -> np.ndarray | None:
    return group[name][()] if name in group else None


def check_side(h5: h5py.Group, js: dict[str, Any], what: str) -> int:
    attributes = {name: text(value) for name, value in h5.attrs.items()}
    d, heads = int(attributes["head_dim"]), int(attributes["num_heads"])
    strides = [int(s) for s in attributes["strides"]]
    for name, value in attributes.items():
        same = strides == js[name] if name == "strides" else value == js[name]
        require(same, f"{what}/{name} is {value}, in JSON {js[name]}")
    for name in ARRAYS:
        require((name in h5) == (name in js), f"{what}/{name} is in one of the two files only")
        if name in h5:
            exact = np.asarray(js[name], dtype=h5[name].dtype)
            require(np.array_equal(h5[name][()], exact), f"{what}/{name} differs from JSON")
    require(np.array_equal(h5["errors"][()], np.asarray(js["errors"]["rows"])), f"{what}/errors differ")
    for name in CODES:
        names = dict(reversed(row.split(" ", 1)) for row in text(h5[name].attrs["codes"]).split(", "))
        require([int(names[n]) for n in js[name]] == h5[name][()].tolist(), f"{what}/{name} differ")
    quaternions, signs, dense = array(h5, "quaternions"), array(h5, "signs"), array(h5, "dense")
    offset = array(h5, "offset")
    for h in range(heads):
        u = map_of_head(
            d,
            int(h5["chosen"][h]),
            bool(attributes["hadamard"]),
            strides,
            None if quaternions is None else quaternions[h],
            None if signs is None else signs[h],
            None if dense is None else dense[h],
        )
        check_map(u, None if offset is None else offset[h], f"{what}, head {h}")
    return heads


def check_table(path: pathlib.Path) -> None:
    js = json.loads(path.with_suffix(".json").read_text())
    with h5py.File(path) as h5:
        for name, value in h5.attrs.items():
            require(text(value) == js[name], f"{path}: /{name} differs from JSON")
        require(text(h5.attrs["format"]) == "so4cal-table" and h5.attrs["format_version"] == 1, f"{path}: format")
        require(list(h5["layers"]) == list(js["layers"]), f"{path}: other layers, or in another order, than JSON")
        for dump, group in h5["dumps"].items():
            for name in ("fit", "validation", "test"):
                require(group[name][()].tolist() == js["dumps"][dump][name], f"{path}: /dumps/{dump}/{name} differ")
        heads = 0
        for layer, group in h5["layers"].items():
            for side in "kv":
                heads += check_side(group[side], js["layers"][layer][side], f"{path}: /layers/{layer}/{side}")
    print(f"{path}: {heads} heads orthogonal, planted vectors come back, HDF5 and JSON agree")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    for argument in sys.argv[1:]:
        check_table(pathlib.Path(argument))
