# SPDX-License-Identifier: Apache-2.0
"""The maps of a rotation table from its numbers, written from formats/FORMATS.md and calib/MATH.md alone."""

import numpy as np

IDENTITY, HADAMARD, FITTED, DENSE = range(4)  # codes of `chosen`


def hadamard_matrix(d: int) -> np.ndarray:
    """Normalized Sylvester matrix of the largest power of two p that divides d, on d / p sections."""
    p = d & -d
    h = np.ones((1, 1))
    while len(h) < p:
        h = np.block([[h, h], [h, -h]])
    return np.kron(np.eye(d // p), h / np.sqrt(p))


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Hamilton product, scalar first."""
    w, v = a[0] * b[0] - a[1:] @ b[1:], a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:])
    return np.concatenate([[w], v])


def block_matrix(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """v -> left v conj(right) as a matrix."""
    conjugate = right * [1, -1, -1, -1]
    return np.stack([multiply(multiply(left, e), conjugate) for e in np.eye(4)], axis=1)


def stage_matrix(stride: int, quaternions: np.ndarray) -> np.ndarray:
    """quaternions [d/4, 2, 4]."""
    d = 4 * len(quaternions)
    matrix = np.zeros((d, d))
    for i, (left, right) in enumerate(quaternions):
        channels = 4 * stride * (i // stride) + i % stride + stride * np.arange(4)
        matrix[np.ix_(channels, channels)] = block_matrix(left, right)
    return matrix


def map_of_head(
    d: int,
    chosen: int,
    hadamard: bool,
    strides: list[int],
    quaternions: np.ndarray | None,
    signs: np.ndarray | None,
    dense: np.ndarray | None,
) -> np.ndarray:
    """U with z = U (x - offset) of the map that `chosen` selects; arrays of this head, None where there are none."""
    if chosen == IDENTITY:
        return np.eye(d)
    if chosen == DENSE:
        return np.asarray(dense)
    u = np.eye(d)
    if signs is not None and np.any(signs):
        u = np.diag(signs.astype(float))
    if hadamard:
        u = hadamard_matrix(d) @ u
    for stage, stride in enumerate(strides):
        u = stage_matrix(int(stride), quaternions[stage]) @ u
    return u


def require(condition: bool, what: str) -> None:
    if not condition:
        raise SystemExit(f"FAILED: {what}")


def check_map(u: np.ndarray, offset: np.ndarray | None, what: str) -> None:
    """Orthogonal, and a planted vector comes back through both sides."""
    d = len(u)
    # 1e-12: products of a handful of matrices in double. An imported dense matrix may be off by 1e-4.
    require(np.abs(u @ u.T - np.eye(d)).max() < 1e-12, f"{what}: U is not orthogonal")
    mu = np.zeros(d) if offset is None else offset.astype(float)
    x = 1 / (1 + np.arange(d)) + mu
    z = u @ (x - mu)
    require(np.abs(u.T @ z + mu - x).max() < 1e-12, f"{what}: the planted vector does not come back")
    require(abs(np.linalg.norm(z) - np.linalg.norm(x - mu)) < 1e-12, f"{what}: the norm changes")
