"""Exact samples of trees from P(y | x) = exp(F(x, y)) / Z(x), in logarithms.

Projective trees from the inside sums: the word on the root, then of every span its split. Trees of
any shape by the eliminations of `sums`, backward. An arc (h, m) over the words that remain stands
for itself and for the way through the word k that was taken out,

    a'(h, m) = a(h, m) + a(h, k) a(k, m) / d,    d = sum_h a(h, k),

and so draws which of both it is. The words whose arcs went through k hang on k. Without these arcs
the tree falls into components, and k hangs on a word h of the one that holds the word on the root,
with a probability in proportion to a(h, k); on the root where this word itself hangs on k. By the
count of trees over components the probabilities are those of P, and what comes out is a tree
whatever the rounding. No probability is found by a subtraction, none is cut off.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.draws import drawn, noise
from jaxstruct.core.semiring import Sums
from jaxstruct.core.types import Array
from jaxstruct.dependencies.oracles.projective import Way, in_blocks, trace_back
from jaxstruct.dependencies.oracles.sums import Eliminated, eliminated, inside
from jaxstruct.dependencies.potentials import PADDING, checked_potentials


def _drawn_back(arcs: Array, length: Array, key: Array) -> Array:
    """[T] heads of a tree of any shape, PADDING of other words."""
    T = arcs.shape[1]
    last, some, left = eliminated(arcs, length)
    words = jnp.arange(T)

    def put_back(heads: Array, row: tuple[Array, Eliminated, Array]) -> tuple[Array, None]:
        step, (k, goes, into, out), own = row
        there, at = heads != PADDING, jnp.maximum(heads, 0)
        ways = left.into[:, at] + left.out
        ways = jnp.where((left.goes & (words[:-1] < step))[:, None], ways, -jnp.inf)
        without = Sums().reduce(jnp.concatenate([arcs[at, words][None], ways]))
        through = there & (drawn(jnp.stack([without, into[at] + out]), own[:2]) == 1)
        cut, above = jnp.append(through, False), jnp.where(there & (heads > 0), heads - 1, T)
        above = jnp.append(above, T)
        for _ in range(max(T, 2).bit_length()):  # words whose way to the root goes through k
            cut, above = cut | cut[above], above[above]
        head = drawn(jnp.where(there & ~cut[:T], into[1:], -jnp.inf), own[2]) + 1
        head = jnp.where(jnp.any(through & (heads == 0)), 0, head)
        new = jnp.where(words == k, head, jnp.where(through, k + 1, heads))
        return jnp.where(goes, new, heads).astype(jnp.int32), None

    start = jnp.where((words == last) & some, 0, PADDING).astype(jnp.int32)
    rows = words[:-1], left, noise(key, (T - 1, 3, T), arcs.dtype)
    return jax.lax.scan(put_back, start, rows, reverse=True)[0]


def _projective_kernel(arcs: Array, length: Array, noise: Array) -> Array:
    """[T, N] heads; arcs [T + 1, T, B], length [B], noise [2 T, T, N], N a multiple of B."""
    N, B = noise.shape[-1], arcs.shape[-1]
    given, charts, total, whole = inside(arcs, length)
    columns = jnp.arange(N) % B
    way = Way(Sums(), charts, given, columns)
    heads, _ = trace_back(way, whole, length[columns], jnp.zeros_like(columns), noise)
    return jnp.where((total > -jnp.inf)[columns], heads, PADDING)


_in_blocks = in_blocks(_projective_kernel)


def _projective(arcs: Array, length: Array, noise: Array) -> Array:
    """Draws of one sentence share its charts; sentences go block by block."""
    alone = arcs.shape[-1] == length.shape[-1] == 1
    return (_projective_kernel if alone else _in_blocks)(arcs, length, noise)


_projective_of_one = of_one_example(_projective)


def sample_tree(
    potentials: Array, length: Array, key: Array, *, projective: bool
) -> tuple[Array, Array]:
    """One tree drawn from P(y) = exp(F(y)) / Z, exact but for the rounding of sums.

    Args:
      potentials, length, projective: as `best_tree`.
      key: of `jax.random`, one of its own for every tree; `vmap` over keys alone takes the sums
        over all trees once. A draw is O(T^2) where projective, else O(T^3).

    Returns:
      (heads, labels), [T] int32 with PADDING beyond the length, and throughout where all trees are
      forbidden. Heads are a tree with one word on the root at any length.

    Raises:
      ValueError: as `best_tree`.
    """
    potentials, length = checked_potentials(potentials, length)
    _, T, R = potentials.shape
    arcs, dtype = Sums().reduce(jnp.moveaxis(potentials, 2, 0)), potentials.dtype
    of_heads, of_labels = jax.random.split(key)
    if projective:
        heads = _projective_of_one(arcs, length, noise(of_heads, (2 * T, T), dtype))
    else:
        heads = _drawn_back(arcs, length, of_heads)
    logs = potentials[jnp.maximum(heads, 0), jnp.arange(T)].T
    labels = drawn(logs, noise(of_labels, (R, T), dtype))
    return heads, jnp.where(heads == PADDING, PADDING, labels)
