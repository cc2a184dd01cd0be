"""The best tree of one sentence, with labels, and the k best, of either kind of trees.

The k best follow by branching on the best (E. Lawler 1972; K. Murty 1968). Trees but the best one
differ from it at a first word: so they fall into sets, one a word t, that share with it the arcs
into the words before t and have another one into t. The best of a set is one more argmax, of
potentials that forbid the rest. Whatever the argmax, the k best come out distinct and in order, for
k T of its calls.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.branching import k_best_by_parts
from jaxstruct.core.checks import checked_size
from jaxstruct.core.semiring import Best, Levels, argmax_first
from jaxstruct.core.types import Array
from jaxstruct.dependencies.oracles import projective as spans
from jaxstruct.dependencies.oracles.arborescence import best_arborescence, columns_of
from jaxstruct.dependencies.potentials import (
    PADDING,
    Decoded,
    checked_potentials,
    decoded,
    is_word,
    score_tree,
)

CELLS, FEWEST = 2**15, 4
"""Numbers of one chart of a block of columns, so that all its charts stay in the caches, and how
many columns a block has at least."""
LEVELS = 2**19
"""Numbers of one chart of all levels of a block: ten of them are 20 MB."""


def _best(arcs: Array, length: Array) -> Array:
    """[T, B] heads of the best projective trees; arcs [T + 1, T, B], length [B]."""
    rule, given = Best(), spans.of_arcs(arcs)
    charts = spans.fill(rule, given, places=True)
    _, whole = spans.whole_sentences(rule, charts, given, length)
    way = spans.Way(rule, charts, given, jnp.arange(len(length)))
    return spans.trace_back(way, whole, length, jnp.zeros_like(length))[0]


def _best_of_levels(
    arcs: Array, length: Array, offsets: Array, slopes: Array
) -> tuple[Array, Array, Array]:
    """[T, B] heads and whether arcs are wrong, [B] the score of the best tree of the best level.

    Args:
      arcs: [2, T + 1, T, B], right ones and wrong ones. length: [B]. offsets, slopes: [L, B].
    """
    levels = len(offsets)
    rule, given = Levels(np.arange(levels)[None]), spans.of_arcs(arcs)
    charts = spans.fill(rule, given)
    scores, whole = spans.whole_sentences(rule, charts, given, length)
    some = scores > -jnp.inf
    values = jnp.where(some, offsets + slopes * jnp.where(some, scores, 0), -jnp.inf)
    value, level = argmax_first(levels, lambda level: values[level])
    way = spans.Way(rule, charts, given, jnp.arange(len(length)))
    heads, wrong = spans.trace_back(way, whole, length, level)
    score = jnp.take_along_axis(scores, level[None], 0)[0]
    return heads, wrong, jnp.where(value > -jnp.inf, score, -jnp.inf)


_projective = of_one_example(spans.in_blocks(_best, lambda T: max(FEWEST, CELLS // (T * T))))
_levels = of_one_example(
    spans.in_blocks(_best_of_levels, lambda T: max(1, min(FEWEST, LEVELS // T**3)), of_memory=True)
)
_any_tree = of_one_example(spans.in_blocks(best_arborescence, columns_of))


def _decoded(potentials: Array, length: Array, projective: bool) -> Decoded:
    _, T, R = potentials.shape
    arcs = jnp.max(potentials, axis=2)
    heads = (_projective if projective else _any_tree)(arcs, length)
    chosen = potentials[jnp.maximum(heads, 0), jnp.arange(T)]
    labels = jnp.argmax(chosen, axis=1)
    one_root = jnp.sum(heads == 0) == 1
    score = jnp.where(one_root, score_tree(potentials, heads, labels, length), -jnp.inf)
    return decoded(heads, labels, score, length)


def best_tree(potentials: Array, length: Array, *, projective: bool) -> Decoded:
    """argmax_y F(y) over the trees of one sentence with one word on the root.

    Args:
      potentials: [T + 1, T, R] of one sentence, finite or -inf, which forbids an arc with a label;
        see `jaxstruct.dependencies.potentials`. A score that holds the loss is a score, too.
      length: int32 scalar, 1 <= length <= T.
      projective: whether crossing arcs are none: Eisner's algorithm, O(T^3); otherwise a maximum
        spanning arborescence (Chu and Liu, Edmonds), O(T^2) for each circle that is closed.

    Returns:
      Decoded: heads and labels [T] int32, PADDING beyond the length, and their F. Ties go to the
      lowest label, and among trees to one by a fixed rule. If every tree is forbidden they are
      PADDING throughout, and the score is -inf. Under `vmap`, nested or not, one batched program
      runs for all sentences. The derivative of the score counts the arcs of the tree; heads have
      none.

    Raises:
      ValueError: shapes do not fit together, or a dtype is not what it should be.
    """
    return _decoded(*checked_potentials(potentials, length), projective)


def best_of_errors(
    potentials: Array, wrong: Array, length: Array, offsets: Array, slopes: Array
) -> Decoded:
    """The projective tree of the number of wrong arcs l that maximises offsets[l] + slopes[l] F_l.

        F_l = max F(y) over projective trees y with sum_m wrong[y_m, m, r_m] = l,    l = 0 .. T

    Args:
      potentials, length: as `best_tree`.
      wrong: [T + 1, T, R] bool, or [T + 1, T, 1] for all labels: which arcs count.
      offsets: [T + 1]; -inf excludes a number. slopes: [T + 1], >= 0.

    Returns:
      Decoded: of the best number the best tree; PADDING and -inf where all are excluded or have no
      tree. O(T^5). Ties go to the lowest number, then as in `best_tree`, after those of levels to
      the lower one in the left part. There is no derivative.

    Raises:
      ValueError: shapes do not fit together, or a dtype is not what it should be.
    """
    potentials, length = checked_potentials(potentials, length)
    T = potentials.shape[1]
    kinds = jnp.stack([~wrong, wrong])
    tables = jnp.where(kinds, jax.lax.stop_gradient(potentials)[None], -jnp.inf)
    heads, kind, score = _levels(jnp.max(tables, axis=3), length, offsets, slopes)
    labels = jnp.argmax(tables, axis=3)
    chosen = labels[jnp.maximum(kind, 0), jnp.maximum(heads, 0), jnp.arange(T)]
    return decoded(heads, chosen, score, length)


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
