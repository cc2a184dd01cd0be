"""The k best trees, by branching on the best (E. Lawler 1972; K. Murty 1968).

Trees but the best one differ from it at a first word: so they fall into sets, one a word t, that
share with it the arcs into the words before t and have another one into t. The best of a set is one
more argmax, of potentials that forbid the rest. Whatever the argmax, the k best come out distinct
and in order, for k T of its calls.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct.core.branching import k_best_by_parts
from jaxstruct.core.checks import checked_size
from jaxstruct.core.types import Array
from jaxstruct.dependencies.oracles.decoding import best_tree
from jaxstruct.dependencies.potentials import PADDING, Decoded, checked_potentials, decoded, is_word


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
    T1, _, R = potentials.shape
    head, label = jnp.arange(T1)[:, None, None], jnp.arange(R)[None, None]

    def best_of(allowed: Array | bool) -> Decoded:
        return best_tree(jnp.where(allowed, potentials, -jnp.inf), length, projective=projective)

    def same(tree: Decoded) -> Array:
        return (head == tree.heads[None, :, None]) & (label == tree.labels[None, :, None])

    found = k_best_by_parts(best_of, same, potentials, length, k, above, axis=1)
    return decoded(found.heads, found.labels, found.score, length)


def best_wrong_tree(
    potentials: Array, y: tuple[Array, Array], length: Array, *, projective: bool
) -> Decoded:
    """The best tree that is not the given one, (heads, labels) [T]; its score is -inf where it
    is the only one."""
    two = k_best_trees(potentials, length, 2, projective=projective)
    given = jnp.where(is_word(length, len(y[0]))[None], jnp.stack(y), PADDING)
    same = jnp.all(jnp.stack([two.heads[0], two.labels[0]]) == given)
    return jax.tree.map(lambda leaf: jnp.where(same, leaf[1], leaf[0]), two)
