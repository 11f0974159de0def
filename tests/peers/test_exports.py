# SPDX-License-Identifier: Apache-2.0
"""Exported rotations as the libraries of their engines read them. Tables: write_sample_table.cc's."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import gguf
import h5py
import numpy as np
import onnx
import onnx.numpy_helper
import pytest
import torch
from table_math import map_of_head

SAMPLES = Path(os.environ["SO4CAL_SAMPLES"])
BINARY = os.environ["SO4CAL_BINARY"]
SIDES = ("k", "v")


def so4cal(*arguments: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, check=False)


def rotations(table: Path) -> dict[tuple[int, str], np.ndarray]:
    """U^T of every head in f32 from the native table's numbers, [H, d, d] by layer and side."""
    result = {}
    with h5py.File(table) as file:
        for layer, group in file["layers"].items():
            for s in SIDES:
                side = group[s]

                def take(name: str, h: int) -> np.ndarray | None:
                    return side[name][h] if name in side else None

                result[int(layer), s] = np.stack([
                    map_of_head(int(side.attrs["head_dim"]), int(side["chosen"][h]), bool(side.attrs["hadamard"]),
                                list(side.attrs["strides"]), take("quaternions", h), take("signs", h), take("dense", h)).T
                    for h in range(int(side.attrs["num_heads"]))
                ])  # fmt: skip
    return result


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    # Entries are below 1 and rounded to float once; the order of products moves the double by less than 1e-12.
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 2**-25 + 1e-12


def load_oscar_rotations(path: Path, layer_ids: list[int], head_dims: dict[int, int]) -> dict[int, torch.Tensor]:
    """The checks of SGLang's OSCAR loader, as its documentation states them: global layer ids, int or text, shapes
    [d, d] or [H, d, d], finite, orthogonal within 5e-3 as stored, companions in all layers or in none."""
    state = torch.load(path, weights_only=True)
    layers = state["layers"]
    loaded = {}
    for layer in layer_ids:
        entry = layers.get(layer, layers.get(str(layer)))
        if entry is None:
            raise ValueError(f"layer {layer} is missing")
        rotation, d = entry["rotation"], head_dims[layer]
        if rotation.shape[-2:] != (d, d) or rotation.dim() not in (2, 3):
            raise ValueError(f"layer {layer}: shape {tuple(rotation.shape)}")
        if not (rotation @ rotation.transpose(-1, -2) - torch.eye(d)).abs().max() <= 5e-3:
            raise ValueError(f"layer {layer}: not orthogonal")
        loaded[layer] = rotation
    if len({("k_mean" in layers[layer]) for layer in layers}) > 1:
        raise ValueError("k_mean in some layers only")
    return loaded


def test_oscar_files_are_what_torch_and_the_loader_expect(tmp_path: Path) -> None:
    expected = rotations(SAMPLES / "per_head.h5")
    layer_ids = sorted({layer for layer, _ in expected})
    for s in SIDES:
        path = SAMPLES / "per_head.oscar" / f"{s}_rotation.pt"
        dims = {layer: expected[layer, s].shape[-1] for layer in layer_ids}
        loaded = load_oscar_rotations(path, layer_ids, dims)
        state = torch.load(path, weights_only=True)
        assert list(state["layers"]) == layer_ids and all(type(key) is int for key in state["layers"])
        assert state["format_version"] == 2 and state["calibration"]["post_rope"] is True
        for layer in layer_ids:
            assert_same(loaded[layer].numpy(), expected[layer, s])
            assert torch.equal(loaded[layer], torch.load(path, weights_only=False, mmap=True)["layers"][layer]["rotation"])
            in_bf16 = loaded[layer].to(torch.bfloat16).float()  # as the engine uses it
            assert (in_bf16 @ in_bf16.transpose(1, 2) - torch.eye(dims[layer])).abs().max() < 5e-3
        wrong = torch.load(path, weights_only=True)
        wrong["layers"][layer_ids[0]]["rotation"][1, 0, 0] += 0.1
        torch.save(wrong, tmp_path / "wrong.pt")
        with pytest.raises(ValueError, match="not orthogonal"):
            load_oscar_rotations(tmp_path / "wrong.pt", layer_ids, dims)
        with pytest.raises(ValueError, match="missing"):
            load_oscar_rotations(path, [*layer_ids, 99], {**dims, 99: dims[layer_ids[0]]})
        with pytest.raises(ValueError, match="shape"):
            load_oscar_rotations(path, layer_ids, {layer: 8 for layer in layer_ids})


def test_oscar_files_of_torch_are_imported(tmp_path: Path) -> None:
    """Files by torch.save as OSCAR's tools write them: per layer, per head, transposed views, bf16, k_mean."""
    generator = torch.Generator().manual_seed(3)
    dense = {layer: torch.linalg.qr(torch.randn(2, 64, 64, generator=generator, dtype=torch.float64))[0] for layer in (3, 7)}
    for s in SIDES:
        layers = {
            layer: {"layer_id": layer, "rotation": r.float() if s == "k" else r.transpose(1, 2).float().transpose(1, 2),
                    "eigenvalues": torch.ones(64), **({"k_mean": torch.full((2, 64), 0.5)} if s == "k" else {})}
            for layer, r in dense.items()
        }  # fmt: skip
        state = {"format_version": 1, "objective": "qqt_r_h_pbr", "layers": layers, "calibration": {"tokens": 30000}}
        torch.save(state, tmp_path / f"{s}_rotation_qqt_r_h_pbr.pt")
    done = so4cal("import", tmp_path, "-o", tmp_path / "t.h5", "--bits", "2", "--block", "k=16,v=32")
    assert done.returncode == 0, done.stderr
    with h5py.File(tmp_path / "t.h5") as file:
        for layer, r in dense.items():
            for s in SIDES:
                side = file["layers"][str(layer)][s]
                assert np.array_equal(side["dense"][...], r.float().double().transpose(1, 2).numpy())
                assert side.attrs["bits"] == 2 and side.attrs["block"] == (16 if s == "k" else 32)
            assert np.array_equal(file["layers"][str(layer)]["k"]["offset"][...], np.full((2, 64), 0.5, np.float32))
    assert so4cal("verify", tmp_path / "t.h5").returncode == 0


def test_pickles_that_call_are_refused(tmp_path: Path) -> None:
    class Calls:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (f"touch {tmp_path / 'called'}",)

    for s in SIDES:
        torch.save({"layers": {0: {"rotation": Calls()}}}, tmp_path / f"{s}_rotation.pt")
    done = so4cal("import", tmp_path, "-o", tmp_path / "t.h5")
    assert done.returncode == 1 and "system" in done.stderr
    assert not (tmp_path / "called").exists() and not (tmp_path / "t.h5").exists()


def gguf_tensors(path: Path) -> dict[str, np.ndarray]:
    return {tensor.name: np.array(tensor.data) for tensor in gguf.GGUFReader(path).tensors}


def test_gguf_sidecar() -> None:
    reader = gguf.GGUFReader(SAMPLES / "per_layer.gguf")
    assert reader.get_field("general.type").contents() == "kv_rotation"
    assert json.loads(reader.get_field("so4cal.table").contents())["tool_version"]
    tensors = gguf_tensors(SAMPLES / "per_layer.gguf")
    expected = rotations(SAMPLES / "per_layer.h5")
    assert len(tensors) == len(expected)
    for (layer, s), r in expected.items():
        assert_same(tensors[f"blk.{layer}.attn_{s}_rot.weight"], r[0].T)  # numpy's view is row-major: U


def test_merged_model_keeps_every_other_key_and_tensor(smollm2_gguf: Path, smollm2_table: Path, tmp_path: Path) -> None:
    merged = tmp_path / "merged.gguf"
    done = so4cal("export", smollm2_table, "-o", merged, "--merge", smollm2_gguf)
    assert done.returncode == 0, done.stderr
    before, after = gguf.GGUFReader(smollm2_gguf), gguf.GGUFReader(merged)
    for name, field in before.fields.items():
        if not name.startswith("GGUF."):
            assert bytes(np.concatenate(field.parts).tobytes()) == bytes(np.concatenate(after.fields[name].parts).tobytes()), name
    added = after.tensors[len(before.tensors) :]
    for old, new in zip(before.tensors, after.tensors):
        assert (old.name, old.tensor_type, list(old.shape)) == (new.name, new.tensor_type, list(new.shape))
        assert old.data.tobytes() == new.data.tobytes(), old.name
    expected = rotations(smollm2_table)
    assert {tensor.name for tensor in added} == {f"blk.{layer}.attn_{s}_rot.weight" for layer, s in expected}
    for tensor in added:
        layer, s = int(tensor.name.split(".")[1]), tensor.name.split("_")[1]
        assert_same(np.array(tensor.data), expected[layer, s][0].T)
    assert so4cal("verify", merged, "--against", smollm2_table).returncode == 0


def test_onnx_initializers() -> None:
    model = onnx.load(SAMPLES / "per_head.onnx")
    onnx.checker.check_model(model)
    expected = rotations(SAMPLES / "per_head.h5")
    found = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert len(found) == len(expected)
    for (layer, s), r in expected.items():
        assert_same(found[f"layers.{layer}.oscar_rotation_{s}"], r)
    properties = {entry.key: entry.value for entry in model.metadata_props}
    assert json.loads(properties["so4cal"])["tool_version"]


@pytest.mark.parametrize("name", ["per_head.oscar", "per_layer.gguf", "per_head.onnx", "per_head.safetensors", "per_head.json"])
def test_import_of_an_export_has_the_same_rotations(name: str, tmp_path: Path) -> None:
    done = so4cal("import", SAMPLES / name, "-o", tmp_path / "t.h5")
    assert done.returncode == 0, done.stderr
    before, after = rotations(SAMPLES / f"{name.split('.')[0]}.h5"), rotations(tmp_path / "t.h5")
    assert before.keys() == after.keys()
    for key in before:
        assert np.abs(before[key] - after[key]).max() < 1e-6  # through f32 twice
    assert so4cal("verify", SAMPLES / name, "--against", SAMPLES / f"{name.split('.')[0]}.h5").returncode == 0
