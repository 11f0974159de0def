# SPDX-License-Identifier: Apache-2.0
"""Every figure of the report on real data against plain numpy in double: stored values from `encode` and `decode`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from conftest import ROOT

BINARY = Path(os.environ.get("SO4CAL_BINARY", ROOT / "build/dev/so4cal"))
SAMPLE = ROOT / "data/smollm2_sample.h5"
LAYERS = [0, 15]
SINKS = 4


def so4cal(*args: object) -> None:
    subprocess.run([str(BINARY), *map(str, args)], check=True, capture_output=True, timeout=600)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Report, split and decoded dump of one fit. Refined keys, so that queries take part."""
    folder = tmp_path_factory.mktemp("metrics")
    table, rows, decoded, report = (folder / name for name in ["t.so4.h5", "rows.h5", "decoded.h5", "r.json"])
    so4cal("fit", SAMPLE, "-o", table, "--max-iterations", 10)
    so4cal("encode", SAMPLE, "--table", table, "-o", rows)
    so4cal("decode", rows, "--table", table, "-o", decoded)
    so4cal("report", table, SAMPLE, "-o", report)
    with h5py.File(table) as f:
        fit, (test,) = f["dumps/0/fit"][...], f["dumps/0/test"][...]
    return {"report": json.loads(report.read_text()), "fit": fit, "test": test, "decoded": decoded}


class Layer:
    """One layer of the sample: exact and stored tensors in double, sinks exact."""

    def __init__(self, run: dict[str, Any], layer: int) -> None:
        self.fit = np.concatenate([np.arange(*r) for r in run["fit"].astype(int)])
        self.test = slice(*run["test"].astype(int))
        with h5py.File(SAMPLE) as f, h5py.File(run["decoded"]) as g:
            group = f[f"layers/{layer}"]
            self.exact = {side: group[side][...].astype(np.float64) for side in "kv"}
            decoded = {side: g[f"layers/{layer}/{side}"][...].astype(np.float64) for side in "kv"}
            self.stored = {side: values.transpose(1, 0, 2) for side, values in decoded.items()}
            self.w_o = group["w_o"][...].astype(np.float64)
            positions = group["q_positions"][...]
            self.rows = np.flatnonzero((positions >= self.test.start) & (positions < self.test.stop))
            self.positions = positions[self.rows]
            self.q = group["q"][...].astype(np.float64)[self.rows]
            self.scale = float(group.attrs["softmax_scale"])
            self.starts = f["sequence_starts"][...]
        for side in "kv":
            for start in self.starts:
                self.stored[side][start:start + SINKS] = self.exact[side][start:start + SINKS]
        self.group = self.q.shape[1] // self.exact["k"].shape[1]

    def reconstruction(self, side: str, head: int) -> dict[str, float]:
        x = self.exact[side][self.test, head]
        e = self.stored[side][self.test, head] - x
        mean = self.exact[side][self.fit, head].mean(axis=0)
        return {"nmse": (e**2).sum() / (x**2).sum(), "nmse_centred": (e**2).sum() / ((x - mean) ** 2).sum(),
                "sqnr_db": -10 * np.log10((e**2).sum() / (x**2).sum()), "max_abs": np.abs(e).max()}

    def attention(self, heads: list[int], stored: str) -> dict[str, float]:
        """Of these KV heads with the sides in `stored` stored; errors are summed before they are divided."""
        names = ["logit", "logit_energy", "kl", "top1", "rows", "head", "head_energy", "wo", "wo_energy"]
        sums = dict.fromkeys(names, 0.0)
        for kv in heads:
            k, v = self.exact["k"][:, kv], self.exact["v"][:, kv]
            k2 = self.stored["k"][:, kv] if "k" in stored else k
            v2 = self.stored["v"][:, kv] if "v" in stored else v
            for row, t in enumerate(self.positions):
                first = self.starts[self.starts <= t].max()
                seen, mine = slice(first, t + 1), slice(max(first, self.test.start), t + 1)
                change, exact = [], []
                for j in range(kv * self.group, (kv + 1) * self.group):
                    q = self.q[row, j]
                    logits, logits2 = self.scale * (k[seen] @ q), self.scale * (k2[seen] @ q)
                    delta, energy = (k2[mine] - k[mine]) @ q, k[mine] @ q
                    sums["logit"] += ((delta - delta.mean()) ** 2).sum()
                    sums["logit_energy"] += ((energy - energy.mean()) ** 2).sum()
                    p, p2 = softmax(logits), softmax(logits2)
                    sums["kl"] += (p * (np.log(p) - np.log(p2))).sum()
                    sums["top1"] += logits.argmax() == logits2.argmax()
                    sums["rows"] += 1
                    exact.append(p @ v[seen])
                    change.append(p2 @ v2[seen] - exact[-1])
                columns = self.w_o[:, kv * self.group * 64:(kv + 1) * self.group * 64]
                o, d = np.concatenate(exact), np.concatenate(change)
                sums["head"] += (d**2).sum()
                sums["head_energy"] += (o**2).sum()
                sums["wo"] += ((columns @ d) ** 2).sum()
                sums["wo_energy"] += ((columns @ o) ** 2).sum()
        return {"logit_nmse": sums["logit"] / sums["logit_energy"], "logit_error": sums["logit"],
                "attention_kl": sums["kl"] / sums["rows"], "attention_top1": sums["top1"] / sums["rows"],
                "output_nmse_head": sums["head"] / sums["head_energy"],
                "output_nmse_wo": sums["wo"] / sums["wo_energy"]}


def softmax(x: np.ndarray) -> np.ndarray:
    p = np.exp(x - x.max())
    return p / p.sum()


def check(found: dict[str, float], wanted: dict[str, float]) -> None:
    """1e-3: the report multiplies in f32, and differences of nearly equal outputs lose three digits."""
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, rel=1e-3), name


@pytest.mark.parametrize("layer", LAYERS)
def test_figures_of_heads(run: dict[str, Any], layer: int) -> None:
    data = Layer(run, layer)
    heads = [h for h in run["report"]["heads"] if h["layer"] == layer]
    assert len(heads) == 6
    for head in heads:
        errors, side = head["errors"]["calibrated"], head["side"]
        check(errors, data.reconstruction(side, head["kv_head"]))
        attention = data.attention([head["kv_head"]], side)
        if side == "v":  # values change no logit
            attention = {name: value for name, value in attention.items() if name.startswith("output")}
        check(errors, attention)
        caused = {"k": "output_nmse_wo_keys", "v": "output_nmse_wo_values"}[side]
        assert errors[caused] == errors["output_nmse_wo"]


@pytest.mark.parametrize("layer", LAYERS)
def test_figures_of_layers_pool_their_heads(run: dict[str, Any], layer: int) -> None:
    data = Layer(run, layer)
    for row in run["report"]["layers"]:
        if row["layer"] != layer:
            continue
        wanted = data.attention([0, 1, 2], row["side"])
        if row["side"] == "v":
            wanted = {name: value for name, value in wanted.items() if name.startswith("output")}
        check(row["errors"]["calibrated"], wanted)


def test_a_plan_needs_queries_at_validation_tokens(tmp_path: Path) -> None:
    dump = tmp_path / "early_queries.h5"
    dump.write_bytes(SAMPLE.read_bytes())
    with h5py.File(dump, "r+") as f:
        for layer in LAYERS:
            group = f[f"layers/{layer}"]
            rows = {name: group[name][:20] for name in ["q", "q_positions"]}  # all of them fit tokens
            for name, values in rows.items():
                attributes = dict(group[name].attrs)
                del group[name]
                group[name] = values
                group[name].attrs.update(attributes)
    result = subprocess.run([str(BINARY), "plan", str(dump)], capture_output=True, text=True, timeout=600)
    assert (result.returncode, result.stdout) == (1, "")
    assert "none of the dump's queries belongs to a validation token" in result.stderr
