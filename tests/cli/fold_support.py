# SPDX-License-Identifier: Apache-2.0
"""What the tests of `fold` share: a table of the sample, and the formulas in plain Python."""
from __future__ import annotations

import math
from pathlib import Path

from fold_models import DIM, KV_HEADS, QUERY_HEADS, WIDTH, Numbers, Tensor, read_safetensors, unpack
from support import SAMPLE, CliTest

Matrix = list[Numbers]
ROUNDING = {"F64": 0, "F32": 2**-24, "F16": 2**-11, "BF16": 2**-8}  # half a unit in the last place of numbers from 1 to 2


def product(a: Matrix, b: Matrix) -> Matrix:
    columns = list(zip(*b))
    return [[math.fsum(x * y for x, y in zip(row, column)) for column in columns] for row in a]


def transposed(a: Matrix) -> Matrix:
    return [list(row) for row in zip(*a)]


def as_matrix(values: Numbers, columns: int) -> Matrix:
    return [values[i : i + columns] for i in range(0, len(values), columns)]


def hadamard(n: int, block: int) -> Matrix:
    return [[(-1) ** (i & j & (block - 1)).bit_count() / math.sqrt(block) if i // block == j // block else 0
             for j in range(n)] for i in range(n)]


class FoldTest(CliTest):
    """With a table of the sample dump, layers 0 and 15, fitted for one step: any rotations will do."""

    tables: dict[str, bytes] = {}

    def table(self, offset: str = "none") -> Path:
        path = self.folder / f"{offset}.so4.h5"
        if offset not in self.tables:
            self.assert_done("fit", SAMPLE, "-o", path, "--preset", "seed", "--max-iterations", 1, "--offset",
                             f"k=none,v={offset}")
            FoldTest.tables[offset] = path.read_bytes()
        path.write_bytes(self.tables[offset])
        return path

    def rotations(self, table: Path) -> dict[int, tuple[list[Matrix], list[Numbers]]]:
        """U and mu per KV head of each layer. U in float."""
        exported = self.folder / "table.safetensors"
        self.assert_done("export", table, "-o", exported, "--force")
        tensors = read_safetensors(exported)
        exported.unlink()
        found = {}
        for layer in (0, 15):
            r = as_matrix(unpack(tensors[f"layers.{layer}.v_rotation"]), DIM)
            offset = tensors.get(f"layers.{layer}.v_offset")
            mu = as_matrix(unpack(offset), DIM) if offset else [[0.0] * DIM] * KV_HEADS
            found[layer] = ([transposed(r[h * DIM : (h + 1) * DIM]) for h in range(KV_HEADS)], mu)
        return found

    def assert_folded(self, before: dict[str, Tensor], after: dict[str, Tensor], table: Path,
                      f: Matrix | None = None, naming: str = "model.layers.{}.self_attn.{}_proj") -> None:
        """By the formulas of formats/FORMATS.md. Sums of 64 products of a rotation (error 2^-25 in float) and a weight
        below 1, then rounding of numbers that stay below 8 (in biases below 64)."""
        rotations = self.rotations(table)
        f = f or hadamard(DIM, 1)
        for name, tensor in before.items():
            self.assertEqual(after[name][:2], tensor[:2])
        expected = {}
        for layer, (us, mus) in rotations.items():
            v, o = (naming.format(layer, role) for role in "vo")
            v, o = v.replace("attn_o", "attn_output"), o.replace("attn_o", "attn_output")
            into = [product(transposed(f), u) for u in us]
            rows = as_matrix(unpack(before[v + ".weight"]), WIDTH)
            expected[v + ".weight"] = [x for h in range(KV_HEADS) for row in
                                       product(into[h], rows[h * DIM : (h + 1) * DIM]) for x in row]
            rows = as_matrix(unpack(before[o + ".weight"]), QUERY_HEADS * DIM)
            parts = [product([row[j * DIM : (j + 1) * DIM] for row in rows], transposed(into[j // 3]))
                     for j in range(QUERY_HEADS)]
            expected[o + ".weight"] = [x for i in range(WIDTH) for j in range(QUERY_HEADS) for x in parts[j][i]]
            if v + ".bias" in before:
                bias = as_matrix(unpack(before[v + ".bias"]), DIM)
                expected[v + ".bias"] = [x for h in range(KV_HEADS) for (x,) in
                                         product(into[h], [[b - m] for b, m in zip(bias[h], mus[h])])]
            if o + ".bias" in before:
                mu = [m for j in range(QUERY_HEADS) for m in mus[j // 3]]
                expected[o + ".bias"] = [b + math.fsum(w * m for w, m in zip(row, mu))
                                         for b, row in zip(unpack(before[o + ".bias"]), rows)]
        for name, tensor in before.items():
            if name not in expected:
                self.assertEqual(after[name], tensor, name)
                continue
            self.assertNotEqual(after[name], tensor, name)
            tolerance = (64 if name.endswith("bias") else 4) * ROUNDING[tensor[0]] + 64 * 2**-25 * 8
            worst = max(abs(a - b) for a, b in zip(unpack(after[name]), expected[name], strict=True))
            self.assertLess(worst, tolerance, name)

    def fold(self, model: Path, table: Path, *more: object) -> tuple[Path, str]:
        out = self.folder / f"folded{model.suffix}"
        return out, self.assert_done("fold", table, "--model", model, "-o", out, *more)
