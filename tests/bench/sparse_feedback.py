# SPDX-License-Identifier: Apache-2.0
"""What feedback rounding of keys keeps when an engine can't afford d^2/2 multiply-adds per vector.

    sparse_feedback.py SO4CAL DUMP...

Shift-free quadratic logit error e^T C_Q e (e less its mean over keys) of the last 15 % of the keys under the C_Q of
the last 15 % of the queries, against nearest rounding after a Hadamard transform; geometric mean over all key heads
of the dumps so far. U, offset and factors come from the first 70 %; 3 bits, `lloyd`, `mse` scales, blocks of 32, damping
.01. The row of a factor that may only use the channels B is the least-squares one, -(M_BB)^-1 M_Bi.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))
from table_math import hadamard_matrix, map_of_head

LEVELS = np.array([-2.1518, -1.34376, -0.75588, -0.24505, 0.24505, 0.75588, 1.34376, 2.1518])
MIDPOINTS = (LEVELS[1:] + LEVELS[:-1]) / 2
BLOCK, SINKS, DAMPING = 32, 4, 0.01


def nearest(u: np.ndarray) -> np.ndarray:
    return LEVELS[np.searchsorted(MIDPOINTS, u, side="right")]


def mse_scales(z: np.ndarray) -> np.ndarray:
    """One fp16 scale per block, repeated for its channels."""
    blocks = z.reshape(len(z), -1, BLOCK)
    absmax = np.abs(blocks).max(axis=2, keepdims=True) / LEVELS[-1]
    best, scale = np.full(absmax.shape, np.inf), np.zeros(absmax.shape)
    for ratio in 0.6 + 0.05 * np.arange(13):
        g = nearest(blocks / (ratio * absmax))
        zg, gg = (blocks * g).sum(axis=2, keepdims=True), (g * g).sum(axis=2, keepdims=True)
        scale = np.where(-zg * zg / gg < best, zg / gg, scale)
        best = np.minimum(-zg * zg / gg, best)
    return np.repeat(scale.astype(np.float16).astype(float), BLOCK, axis=2).reshape(z.shape)


def rounded(z: np.ndarray, factor: np.ndarray, order: np.ndarray) -> np.ndarray:
    """z_hat; factor: unit upper triangular in the given order of channels."""
    scale, target, out = mse_scales(z), z.copy(), np.empty_like(z)
    for at, i in enumerate(order):
        out[:, i] = scale[:, i] * nearest(target[:, i] / scale[:, i])
        error = target[:, i] - out[:, i]
        target[:, order[at + 1 :]] -= np.outer(error, factor[at, at + 1 :])
    return out


def row_of(m: np.ndarray, i: int, others: np.ndarray) -> np.ndarray:
    row = np.zeros(len(m))
    row[i] = 1
    if len(others):
        row[others] = -np.linalg.solve(m[np.ix_(others, others)], m[others, i])
    return row


def banded(m: np.ndarray, width: int) -> np.ndarray:
    d = len(m)
    return np.stack([row_of(m, i, np.arange(i + 1, min(d, i + 1 + width))) for i in range(d)])


def sparse(m: np.ndarray, widths: tuple[int, ...]) -> dict[int, np.ndarray]:
    """The later channels that help channel i most, chosen one after the other."""
    d = len(m)
    factors = {width: np.eye(d) for width in widths}
    for i in range(d):
        chosen: list[int] = []
        row = np.eye(d)[i]
        while len(chosen) < d - 1 - i and len(chosen) < max(widths):
            gain = (m @ row) ** 2 / np.diag(m)  # what channel j alone could still take away
            gain[: i + 1] = -1
            gain[chosen] = -1
            chosen.append(int(np.argmax(gain)))
            row = row_of(m, i, np.array(chosen))
            for width in widths:
                if len(chosen) <= width:
                    factors[width][i] = row
    return factors


def full(m: np.ndarray) -> np.ndarray:
    """P_ij / P_ii of the upper Cholesky factor P of m^-1."""
    p = np.linalg.cholesky(np.linalg.inv(m)).T
    return p / np.diag(p)[:, None]


def low_rank(m: np.ndarray, rank: int) -> np.ndarray:
    """Exact for m = diagonal + L L^T (principal factors): F_ij = -(L_j / D_j) . K_i L_i, 2 d rank multiply-adds."""
    diagonal = np.diag(m) / 2
    for _ in range(100):
        values, vectors = np.linalg.eigh(m - np.diag(diagonal))
        l = vectors[:, -rank:] * np.sqrt(np.maximum(values[-rank:], 0))
        diagonal = np.maximum(np.diag(m) - (l * l).sum(axis=1), 1e-3 * np.diag(m))
    rows, k = np.eye(len(m)), np.eye(rank)  # k: I + sum over later channels of l l^T / d
    for i in reversed(range(len(m))):
        rows[i, i + 1 :] = -(l[i + 1 :] / diagonal[i + 1 :, None]) @ np.linalg.solve(k, l[i])
        k = k + np.outer(l[i], l[i]) / diagonal[i]
    return rows


def greedy(m: np.ndarray, largest: bool) -> np.ndarray:
    """First the channel with the largest (or smallest) pivot, given that all others may answer for it."""
    inverse, left, order = np.linalg.inv(m), np.ones(len(m), dtype=bool), []
    for _ in range(len(m)):
        diagonal = np.where(left, np.diag(inverse), np.inf if largest else -np.inf)  # 1 / pivot
        i = int(np.argmin(diagonal) if largest else np.argmax(diagonal))
        order.append(i)
        left[i] = False
        inverse = inverse - np.outer(inverse[i], inverse[i]) / inverse[i, i]  # of the channels that are left
    return np.array(order)


def variants(m: np.ndarray) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    d = len(m)
    natural = np.arange(d)
    yield "nearest", np.eye(d), natural
    for width in (4, 8, 16, 32):
        yield f"banded, w = {width}", banded(m, width), natural
    for width, factor in sparse(m, (4, 8, 16, 32)).items():
        yield f"sparse, w = {width}", factor, natural
    for rank in (1, 2, 4, 8):
        yield f"low rank, r = {rank}", low_rank(m, rank), natural
    yield "full", full(m), natural
    orders = {"diagonal, largest first": np.argsort(-np.diag(m)), "diagonal, smallest first": np.argsort(np.diag(m))}
    orders |= {"pivot, largest first": greedy(m, True), "pivot, smallest first": greedy(m, False)}
    for name, order in orders.items():
        yield f"full, {name}", full(m[np.ix_(order, order)]), order


def maps(so4cal: str, dump: str) -> dict[str, dict[tuple[str, int], np.ndarray]]:
    """U of every key head: Hadamard, and butterflies fitted for both rules."""
    result: dict[str, dict[tuple[str, int], np.ndarray]] = {"Hadamard": {}}
    for rule in ("nearest", "feedback"):
        fitted: dict[tuple[str, int], np.ndarray] = {}
        with tempfile.TemporaryDirectory() as folder:
            table = str(Path(folder, "t.so4.h5"))
            options = ["--rounding", f"k={rule},v=nearest", "--objective", "k=logit,v=mse"]
            if rule == "feedback":
                options += ["--damping", f"k={DAMPING}"]
            subprocess.run([so4cal, "fit", dump, "-o", table, *options], check=True, capture_output=True)
            with h5py.File(table) as h5:
                for layer, group in h5["layers"].items():
                    k = group["k"]
                    d, strides = int(k.attrs["head_dim"]), [int(s) for s in k.attrs["strides"]]
                    for head in range(int(k.attrs["num_heads"])):
                        u = map_of_head(d, int(k["chosen"][head]), False, strides, k["quaternions"][head], None, None)
                        fitted[layer, head] = u
                        result["Hadamard"][layer, head] = hadamard_matrix(d)
        result[f"butterfly fitted for {rule}"] = fitted
    return result


def heads(dump: str) -> Iterator[tuple[tuple[str, int], np.ndarray, np.ndarray]]:
    """Keys [token, channel] and queries [token, query head, channel] of every KV head, sinks dropped."""
    with h5py.File(dump) as h5:
        for layer, group in h5["layers"].items():
            k, q = (group[name][SINKS:].astype(float) for name in "kq")
            per_head = q.shape[1] // k.shape[1]
            for head in range(k.shape[1]):
                yield (layer, head), k[:, head], q[:, head * per_head : (head + 1) * per_head]


def show(logs: dict[str, dict[str, list[float]]], last: str) -> None:
    families = list(next(iter(logs.values())))
    print(f"\nup to {last}\n\n| factor | " + " | ".join(families) + " |\n|---" + "|---" * len(families) + "|")
    for variant, row in logs.items():
        print(f"| {variant} | " + " | ".join(f"{np.exp(np.mean(row[f])):.3f}" for f in families) + " |", flush=True)


def main() -> None:
    so4cal, *dumps = sys.argv[1:]
    logs: dict[str, dict[str, list[float]]] = {}
    for dump in dumps:
        all_maps = maps(so4cal, dump)
        for name, k, q in heads(dump):
            fit, test = len(k) * 70 // 100, len(k) * 85 // 100
            moments = [np.einsum("thi,thj->ij", part, part) / part.shape[0] for part in (q[:fit], q[test:])]
            base = None
            for family, u_of in all_maps.items():
                u = u_of[name]
                mz, test_mz = (u @ c @ u.T for c in moments)
                mz += DAMPING * np.trace(mz) / len(mz) * np.eye(len(mz))
                z = (k[test:] - k[:fit].mean(axis=0)) @ u.T
                for variant, factor, order in variants(mz):
                    e = rounded(z, factor, order) - z
                    e -= e.mean(axis=0)
                    error = np.einsum("ti,ij,tj", e, test_mz, e)
                    base = error if base is None else base
                    logs.setdefault(variant, {}).setdefault(family, []).append(np.log(error / base))
        show(logs, dump)


if __name__ == "__main__":
    main()
