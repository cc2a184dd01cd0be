"""Features of the tokens of a sequence: dense, sparse, or kernel values against anchors.

Three linear maps and one inner product are all that a chain needs of them:

    token_scores   [T, S] <u_s, Phi(x^t)>; sequence_scores where there are many tokens
    add_tokens     u_s + sum_b sum_t c_bts Phi(x_b^t)
    token_gram     [T, T] <Phi(x^t), Phi(x^s)>
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.chains.potentials import ChainInput
from jaxstruct.core.types import AnyArray, Array, PyTree, SparseFeatures, static

POSITIONS = 128
"""Up to so many positions Gram matrices of tokens are made. Warm fits with and without, 20 features
of 20,000 a token: 1.5 and 1.6 s at 64 positions, 3.4 and 2.0 at 192, 6.6 and 2.1 at 1,024; 128
dense ones: 1.0 and .8 at 128."""
UNROLLED = 32
"""So many features of a token are added in one loop over the tokens."""


class KernelTokens(NamedTuple):
    """Tokens by their kernel values: u_s = sum_j B[j, s] Phi(anchor_j).

    Fields:
      rows: [T, m] K(x^t, anchor_j); 0 on padding.
      anchors: [T] int32, the place of each token among the anchors; m (out of range) where it is
        none and on padding.
    """

    rows: AnyArray
    anchors: AnyArray


def token_scores(u: Array, features: PyTree) -> Array:
    """<u_s, Phi(x^t)>.

    Args:
      u: [d, S] weights, or [m, S] coefficients of the anchors.
      features: of one sequence (or of a batch, all leaves with a leading axis).

    Returns:
      [.., T, S].
    """
    if isinstance(features, SparseFeatures):
        return jnp.einsum("...tm,...tms->...ts", features.values, _rows(u, features.indices))
    rows = features.rows if isinstance(features, KernelTokens) else features
    return rows @ u


def _rows(u: Array, indices: Array) -> Array:
    """[.., S] the weights of some features; of padding any, since its value is 0."""
    return u.at[indices].get(mode="clip")


def sequence_scores(u: Array, features: PyTree) -> Array:
    """`token_scores` of whole sequences, where a batch of them must not take a row an entry.

    Sparse ones are added feature by feature in one loop over the tokens. The rows [.., T, m, S] of
    a batch of long sentences take tens of megabytes, whose pages the system hands out anew at every
    call. For a few tokens, as visits see them, rows are faster.
    """
    if isinstance(features, SparseFeatures):
        return _looped_scores(u, features.indices, features.values)
    return token_scores(u, features)


@jax.custom_jvp
def _looped_scores(u: Array, indices: Array, values: Array) -> Array:
    """sum_m values[.., t, m] u[indices[.., t, m]]."""

    def add(total: Array, entry: tuple[Array, Array]) -> tuple[Array, None]:
        index, value = entry
        return total + value[..., None] * _rows(u, index), None

    zeros = jnp.zeros((*indices.shape[:-1], u.shape[1]), jnp.result_type(u, values))
    entries = jnp.moveaxis(indices, -1, 0), jnp.moveaxis(values, -1, 0)
    return jax.lax.scan(add, zeros, entries, unroll=UNROLLED)[0]


@_looped_scores.defjvp
def _(given: tuple, moved: tuple) -> tuple[Array, Array]:
    """Derivatives go the way of whole rows: transposed, a loop would add up all of u each time."""
    (u, indices, values), (du, _, dvalues) = given, moved
    of_u = jnp.einsum("...tm,...tms->...ts", values, _rows(du, indices))
    of_values = jnp.einsum("...tm,...tms->...ts", dvalues, _rows(u, indices))
    return _looped_scores(u, indices, values), of_u + of_values


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
      ValueError: kernel rows, which lack the inner products of tokens that are no anchors.
    """
    if isinstance(features, KernelTokens):
        raise ValueError(
            "token_gram needs dense or sparse features: of KernelTokens give the kernel values "
            "among the tokens of a sequence yourself"
        )
    if isinstance(features, SparseFeatures):
        pairs = zip(np.asarray(features.indices), np.asarray(features.values), strict=True)
        return np.stack([small_integers(_sparse_gram(*pair)) for pair in pairs])
    features = np.asarray(features, _host_dtype(features))
    return small_integers(features @ np.swapaxes(features, 1, 2))


def wants_gram(features: PyTree) -> bool:
    """Whether products of planes come from a Gram matrix of tokens; always of kernel rows.

    Args:
      features: of n sequences, as in `token_gram`.
    """
    if isinstance(features, KernelTokens):
        return True
    leaf = features.values if isinstance(features, SparseFeatures) else features
    return np.shape(leaf)[1] <= POSITIONS


def anchor_gram(features: KernelTokens) -> np.ndarray:
    """Inner products of the tokens of each sequence, read off the kernel rows of their anchors.

    Args:
      features: [n, T, m] rows and [n, T] anchors.

    Returns:
      [n, T, T], 0 in the columns of tokens that are no anchors and of padding.
    """
    rows, anchors = np.asarray(features.rows), np.asarray(features.anchors)
    (n, T), m = anchors.shape, rows.shape[2]
    if not m:
        return np.zeros((n, T, T), rows.dtype)
    known = ((anchors >= 0) & (anchors < m))[:, None, :]
    places = np.broadcast_to(np.where(known, anchors[:, None, :], 0), (n, T, T))
    return np.where(known, np.take_along_axis(rows, places, axis=2), 0)


def small_integers(gram: np.ndarray) -> np.ndarray:
    """The same values; as int8 where all are integers that fit, such as counts.

    The Gram matrices of sequences are most of the memory of a corpus of sparse tokens.
    """
    if gram.size and not np.abs(gram).max() <= 127:  # nan is for the validation
        return gram
    small = gram.astype(np.int8)
    return small if np.array_equal(small, gram) else gram


@static
class Window:
    """How many neighbours on either side of a token count with it, of how many features each.

    Fields:
      radius: r >= 0; 0 leaves the features as they are.
      number_of_features: d of a token by itself.
    """

    radius: int
    number_of_features: int

    @property
    def blocks(self) -> int:
        """2 r + 1."""
        return 2 * self.radius + 1


def windowed(features: PyTree, length: Array, window: Window) -> PyTree:
    """Phi(x^{t-r}, .., x^{t+r}): the features of the neighbours side by side.

    The first of the three extensions of thesis 4.4.1 ("overlapping features"). Block o of the
    result, o = 0..2r, holds the features of token t - r + o, so that d becomes (2 r + 1) d; a
    neighbour beyond the ends of the sequence has none, and a token beyond the length neither.

    Args:
      features: [.., T, d], or SparseFeatures of [.., T, m] leaves (padding has index d).
      length: [..] int32.
      window: r and d.

    Returns:
      Features of the same kind, of (2 r + 1) d; sparse padding has the index (2 r + 1) d.

    Raises:
      ValueError: features are kernel rows: window the tokens before the kernel is taken.
    """
    if isinstance(features, KernelTokens):
        raise ValueError("features are KernelTokens: window the tokens before taking the kernel")
    sparse = isinstance(features, SparseFeatures)
    T = jnp.asarray(features.indices if sparse else features).shape[-2]

    def fetch(source: Array) -> PyTree:
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[..., source, :], features)

    return _neighbours(fetch, jnp.arange(T), jnp.asarray(length)[..., None], T, window)


def in_windows(x: Any, window: Window) -> Any:
    """An input with windows in place of tokens, or a batch of them.

    Args:
      x: a record with features, length and gram, which may be None.
    """
    if window.radius == 0:
        return x
    gram = None if x.gram is None else windowed_gram(x.gram, x.length, window)
    return x._replace(features=windowed(x.features, x.length, window), gram=gram)


def _neighbours(fetch: Callable, positions: Array, length: Array, T: int, window: Window) -> PyTree:
    """Windows around some positions [.., M] of sequences of these lengths [.., 1].

    Args:
      fetch: source [.., M], in 0..T-1, -> features [.., M, ..] there.
    """
    blocks, d = [], window.number_of_features
    for block, offset in enumerate(range(-window.radius, window.radius + 1)):
        source = jnp.clip(positions + offset, 0, T - 1)
        shape = (*length.shape[:-1], positions.shape[-1])
        at, meant, found = (
            jnp.broadcast_to(each, shape) for each in (positions, positions + offset, source)
        )
        inside = (at < length) & (found < length) & (found == meant)
        real, moved = inside[..., None], fetch(source)
        if not isinstance(moved, SparseFeatures):
            blocks.append(jnp.where(real, moved, 0))
            continue
        places = moved.indices.astype(jnp.int32)  # narrow integers would wrap around
        real = real & (places < d)
        indices = jnp.where(real, places + block * d, window.blocks * d)
        blocks.append(SparseFeatures(indices, jnp.where(real, moved.values, 0)))
    return jax.tree.map(lambda *parts: jnp.concatenate(parts, axis=-1), *blocks)


def token_at(inputs: ChainInput, at: Array, position: Array, window: Window) -> PyTree:
    """Features of the token at a position of sequence `at` of n, with its window, no leading axes.

    Beyond the last position they are those of some token.
    """

    def fetch(source: Array) -> PyTree:
        return jax.tree.map(lambda leaf: leaf[at, source], inputs.features)

    T = jax.tree.leaves(inputs.features)[0].shape[1]
    if window.radius == 0:
        return fetch(jnp.minimum(position, T - 1))
    found = _neighbours(fetch, position[None], inputs.length[at][None], T, window)
    return jax.tree.map(lambda leaf: leaf[0], found)


def windowed_gram(gram: Array, length: Array, window: Window) -> Array:
    """Inner products [.., T, T] of windowed tokens from those of tokens: sums along diagonals.

    Args:
      gram: [.., T, T] inner products of the tokens by themselves.
      length: [..] int32. window: r, of which d is not read.

    Returns:
      [.., T, T], 0 beyond the length, in the dtype of gram, or int32 of integers.
    """
    gram = jnp.asarray(gram)
    if jnp.issubdtype(gram.dtype, jnp.integer):
        gram = gram.astype(jnp.int32)
    T, r = gram.shape[-1], window.radius
    length = jnp.asarray(length)
    real = jnp.broadcast_to(jnp.arange(T), (*length.shape, T)) < length[..., None]
    pairs = real[..., :, None] & real[..., None, :]
    gram = jnp.where(pairs, gram, 0)
    wide = jnp.pad(gram, [(0, 0)] * (gram.ndim - 2) + [(r, r)] * 2)
    total = sum(wide[..., o : o + T, o : o + T] for o in range(window.blocks))
    return jnp.where(pairs, total, 0)
