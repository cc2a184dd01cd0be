"""The k best trees, by branching on the best (E. Lawler 1972; K. Murty 1968).

Trees but the best one differ from it at a first word: so they fall into sets, one a word t, that
share with it the arcs into the words before t and have another one into t. The best of a set is one
more argmax, of potentials that forbid the rest. Whatever the argmax, the k best come out distinct
and in order, for k T of its calls.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.branching import k_best_by_branching
from jaxstruct.core.checks import checked_size
from jaxstruct.core.types import Array
from jaxstruct.dependencies.oracles.decoding import best_tree
from jaxstruct.dependencies.potentials import PADDING, Decoded, checked_potentials, is_word


class _Set(NamedTuple):
    """Sets of trees with their best ones [m].

    Fields:
      best: of each set. first: the word up to which the arcs of the best are fixed.
      forbidden: [m, T + 1, R] the arcs into word `first` that are none.
    """

    best: Decoded
    first: Array
    forbidden: Array


def _restricted(potentials: Array, tree: Decoded, first: Array, forbidden: Array) -> Array:
    """Potentials that allow the arcs of a tree into words before `first`, and there others."""
    T1, T, R = potentials.shape
    head, word, label = (
        jnp.arange(T1)[:, None, None], jnp.arange(T)[None, :, None], jnp.arange(R)[None, None]
    )  # fmt: skip
    same = (head == tree.heads[None, :, None]) & (label == tree.labels[None, :, None])
    allowed = jnp.where(word < first, same, (word > first) | ~forbidden[:, None])
    return jnp.where(allowed, potentials, -jnp.inf)


def _branches(potentials: Array, length: Array, projective: bool, one: _Set) -> _Set:
    """The sets into which a set falls without its best tree, one a word; their best ones."""
    T1, T, R = potentials.shape
    words = jnp.arange(T)

    def branch(word: Array) -> _Set:
        head, label = jnp.maximum(one.best.heads[word], 0), jnp.maximum(one.best.labels[word], 0)
        forbidden = (one.forbidden & (word == one.first)).at[head, label].set(True)
        allowed = _restricted(potentials, one.best, word, forbidden)
        best = best_tree(allowed, length, projective=projective)
        inside = (word >= one.first) & (word < length)
        return _Set(best._replace(score=jnp.where(inside, best.score, -jnp.inf)), word, forbidden)

    return jax.lax.map(branch, words)


def k_best_trees(
    potentials: Array, length: Array, k: int, above: Array | float = -jnp.inf, *, projective: bool
) -> Decoded:
    """The k trees of the largest scores, the best first.

    Args:
      potentials, length, projective: as `best_tree`.
      k: at least 1, static.
      above: scalar; trees whose score is not above it do not count.

    Returns:
      Decoded: heads and labels [k, T], all different, with scores [k] that do not rise. Where there
      are fewer trees, PADDING throughout and -inf.

    Raises:
      ValueError: as `best_tree`, or k is no integer of at least 1.
    """
    potentials, length = checked_potentials(potentials, length)
    k = checked_size("k", k)
    T1, T, R = potentials.shape
    best = best_tree(potentials, length, projective=projective)
    whole = _Set(best, jnp.int32(0), jnp.zeros((T1, R), bool))

    def branches(one: _Set) -> _Set:
        return _branches(potentials, length, projective, one)

    found = k_best_by_branching(whole, branches, k, above)
    real = (found.score > -jnp.inf)[:, None] & is_word(length, T)[None]
    heads, labels = (jnp.where(real, leaf, PADDING) for leaf in (found.heads, found.labels))
    return Decoded(heads, labels, found.score)


def best_wrong_tree(
    potentials: Array, y: tuple[Array, Array], length: Array, *, projective: bool
) -> Decoded:
    """The best tree that is not the given one, (heads, labels) [T]; its score is -inf where it
    is the only one."""
    two = k_best_trees(potentials, length, 2, projective=projective)
    given = jnp.where(is_word(length, len(y[0]))[None], jnp.stack(y), PADDING)
    same = jnp.all(jnp.stack([two.heads[0], two.labels[0]]) == given)
    return jax.tree.map(lambda leaf: jnp.where(same, leaf[1], leaf[0]), two)
