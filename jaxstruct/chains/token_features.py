"""Features of the tokens of a sequence: dense, sparse, or kernel values against anchors.

Three linear maps and one inner product are all that a chain needs of them:

    token_scores   [T, S] <u_s, Phi(x^t)>
    add_tokens     u_s + sum_b sum_t c_bts Phi(x_b^t)
    token_gram     [T, T] <Phi(x^t), Phi(x^s)>
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.types import Array, PyTree, SparseFeatures


class KernelTokens(NamedTuple):
    """Tokens by their kernel values: u_s = sum_j B[j, s] Phi(anchor_j).

    Fields:
      rows: [T, m] K(x^t, anchor_j); 0 on padding.
      anchors: [T] int32, the place of each token among the anchors; m (out of range) where it is
        none and on padding.
    """

    rows: Array
    anchors: Array


def token_scores(u: Array, features: PyTree) -> Array:
    """<u_s, Phi(x^t)>.

    Args:
      u: [d, S] weights, or [m, S] coefficients of the anchors.
      features: of one sequence (or of a batch, all leaves with a leading axis).

    Returns:
      [.., T, S].
    """
    if isinstance(features, SparseFeatures):
        rows = u.at[features.indices].get(mode="clip")  # padding has the value 0
        return jnp.einsum("...tm,...tms->...ts", features.values, rows)
    rows = features.rows if isinstance(features, KernelTokens) else features
    return rows @ u


def add_tokens(u: Array, features: PyTree, c: Array) -> Array:
    """u + sum_b sum_t Phi(x_b^t) (x) c_bt.

    Args:
      u: [d, S] or [m, S]. features: of a batch. c: [B, T, S], 0 on padding.
    """
    if isinstance(features, SparseFeatures):
        return u.at[features.indices].add(
            features.values[..., None] * c[:, :, None, :], mode="drop"
        )
    if isinstance(features, KernelTokens):
        return u.at[features.anchors].add(c, mode="drop")
    flat = features.reshape(-1, features.shape[-1])
    # XLA would turn this product around and transpose the features, which takes twice as long
    change = jax.lax.optimization_barrier(c.reshape(-1, c.shape[-1]).T @ flat)
    return u + change.T


def _host_dtype(values: np.ndarray) -> type:
    """float64 of float64 features; float32 of all others, integers too."""
    return np.float64 if np.asarray(values).dtype == np.float64 else np.float32


def _sparse_gram(indices: np.ndarray, values: np.ndarray) -> np.ndarray:
    """[T, T] of one sequence, through the few features that occur in it."""
    _, local = np.unique(indices, return_inverse=True)
    dense = np.zeros((indices.shape[0], int(local.max(initial=0)) + 1), _host_dtype(values))
    np.add.at(dense, (np.arange(indices.shape[0])[:, None], local.reshape(indices.shape)), values)
    return dense @ dense.T


def token_gram(features: PyTree) -> np.ndarray:
    """Inner products of the tokens of each sequence, on the host.

    Args:
      features: [n, T, d], or SparseFeatures of [n, T, m] leaves.

    Returns:
      [n, T, T] float32 (float64 of float64 features; int8 where every product is an integer that
      fits), 0 where a token is padding.

    Raises:
      TypeError: kernel rows, which do not tell the inner products of tokens that are no anchors.
    """
    if isinstance(features, KernelTokens):
        raise TypeError(
            "token_gram needs dense or sparse features: of KernelTokens give the kernel values "
            "among the tokens of a sequence yourself, see kernel_token_inputs"
        )
    if isinstance(features, SparseFeatures):
        pairs = zip(np.asarray(features.indices), np.asarray(features.values), strict=True)
        return np.stack([small_integers(_sparse_gram(*pair)) for pair in pairs])
    features = np.asarray(features, _host_dtype(features))
    return small_integers(features @ np.swapaxes(features, 1, 2))


def small_integers(gram: np.ndarray) -> np.ndarray:
    """The same values, in int8 where all are integers that fit, as counts of binary features.

    The Gram matrices of sequences are most of the memory of a corpus of sparse tokens.
    """
    if gram.size and not np.abs(gram).max() <= 127:  # nan is for the checks at the door
        return gram
    small = gram.astype(np.int8)
    return small if np.array_equal(small, gram) else gram


def windowed(features: PyTree, length: np.ndarray, radius: int, number_of_features: int) -> PyTree:
    """Phi(x^{t-r}, .., x^{t+r}): the features of the neighbours side by side.

    The first of the three extensions of thesis 4.4.1 ("overlapping features"). Block o of the
    result, o = 0..2r, holds the features of token t - r + o, so that d becomes (2 r + 1) d; a
    neighbour beyond the ends of the sequence has none.

    Args:
      features: [n, T, d], or SparseFeatures of [n, T, m] leaves.
      length: [n] lengths. radius: r >= 0. number_of_features: d.

    Returns:
      Features of the same kind (numpy); pass (2 r + 1) d to `chain`.

    Raises:
      ValueError: radius is negative.
      TypeError: features are kernel rows: window the tokens before the kernel is taken.
    """
    if radius < 0:
        raise ValueError(f"radius must be at least 0, got {radius}")
    if isinstance(features, KernelTokens):
        raise TypeError("features are KernelTokens: window the tokens before taking the kernel")
    sparse = isinstance(features, SparseFeatures)
    first = np.asarray(features.indices if sparse else features)
    positions = np.arange(first.shape[1])
    blocks = []
    for block, offset in enumerate(range(-radius, radius + 1)):
        source = positions + offset
        inside = (source >= 0) & (source < np.asarray(length)[:, None])
        inside &= positions < np.asarray(length)[:, None]
        source = np.clip(source, 0, first.shape[1] - 1)
        if not sparse:
            blocks.append(np.where(inside[:, :, None], first[:, source], 0))
            continue
        indices, values = first[:, source], np.asarray(features.values)[:, source]
        real = inside[:, :, None] & (indices < number_of_features)
        padding = (2 * radius + 1) * number_of_features
        moved = np.where(real, indices + block * number_of_features, padding)
        blocks.append((moved, np.where(real, values, 0)))
    if not sparse:
        return np.concatenate(blocks, axis=2)
    indices, values = (np.concatenate(parts, axis=2) for parts in zip(*blocks, strict=True))
    return SparseFeatures(indices.astype(np.int32), values)


def kernel_token_inputs(
    kernel: Callable[[Array, Array], Array], tokens: Array, anchors: Array, places: Array
) -> tuple[KernelTokens, Array]:
    """Kernel rows and the token Gram matrices of some sequences.

    Args:
      kernel: (a [p, d], b [q, d]) -> [p, q] kernel values of token vectors.
      tokens: [n, T, d] token vectors. anchors: [m, d].
      places: [n, T] int32 the anchor that each token is; m where it is none; -1 on padding.

    Returns:
      (KernelTokens of [n, T, m] and [n, T], gram [n, T, T]); 0 on padding.
    """
    n, T, d = np.shape(tokens)
    m = np.shape(anchors)[0]
    real = np.asarray(places) >= 0
    rows = np.asarray(kernel(jnp.asarray(tokens).reshape(n * T, d), jnp.asarray(anchors)))
    rows = np.where(real[:, :, None], rows.reshape(n, T, m), 0)
    own = np.asarray(jax.vmap(kernel)(jnp.asarray(tokens), jnp.asarray(tokens)))
    gram = np.where(real[:, :, None] & real[:, None, :], own, 0)
    return KernelTokens(rows, np.where(real, places, m).astype(np.int32)), gram
