"""Every labelling of a small graph, scored: S^V of them, node 0 the slowest to change.

F splits into the labels of the first half of the nodes, those of the second half, and the edges
between: two short lists and one product of matrices of one-hot labels make all scores.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.batch_last import batch_size, of_one_example
from jaxstruct.core.scores import finite_or_zero
from jaxstruct.core.types import Array
from jaxstruct.graphs.oracles.layout import Layout, first_argmax, laid_out, summed_at
from jaxstruct.graphs.potentials import (
    PADDING,
    GraphPotentials,
    Labelled,
    checked_potentials,
    score_labels,
)

MOST_LABELLINGS = 1 << 17
"""The labellings of a graph, padding included, that its enumeration lists at most."""


def number_of_labellings(V: int, S: int) -> int:
    """S^V, padding included.

    Raises:
      ValueError: they are more than `MOST_LABELLINGS`.
    """
    if S**V > MOST_LABELLINGS:
        raise ValueError(
            f"{V} nodes (with padding) of {S} labels have {S**V} labellings, at most "
            f"{MOST_LABELLINGS} are enumerated: take best_labelling or reweighted"
        )
    return S**V


def labelling(number: Array, V: int, S: int) -> Array:
    """[.., V] int32 the labels of labellings by their number [..], padding not yet marked."""
    shape = (1,) * number.ndim + (V,)
    powers = jnp.asarray(S ** np.arange(V - 1, -1, -1), jnp.int32).reshape(shape)
    return number.astype(jnp.int32)[..., None] // powers % S


def numbered(nodes: Array, count: Array, number: Array) -> Array:
    """[.., V] int32 labels of labellings by their number [..], PADDING beyond the last node.

    Args:
      nodes: [V, S] potentials. count: how many nodes there are.
    """
    real = (jnp.arange(len(nodes)) < count).reshape((1,) * number.ndim + (-1,))
    return jnp.where(real, labelling(number, *nodes.shape), PADDING)


def _one_hot(nodes: int, S: int) -> np.ndarray:
    """[S^nodes, nodes S] the labels of every labelling of some nodes."""
    every = np.arange(S**nodes)[:, None] // S ** np.arange(nodes - 1, -1, -1) % S
    return (every[:, :, None] == np.arange(S)).reshape(len(every), nodes * S).astype(np.float32)


def _sums(layout: Layout, nodes: Array, pairs: Array) -> Array:
    """[S^V, B] the sums of all labellings over tables of finite numbers in the place of theirs."""
    V, S, B = nodes.shape
    first = V // 2
    hot_a, hot_b = (jnp.asarray(_one_hot(n, S), nodes.dtype) for n in (first, V - first))
    flat, cut = nodes.reshape(V * S, B), first * S
    product = partial(jnp.einsum, precision="highest")
    if not len(pairs):
        a, b = product("aj,jb->ab", hot_a, flat[:cut]), product("aj,jb->ab", hot_b, flat[cut:])
        return (a[:, None] + b[None]).reshape(S**V, B)
    place = jnp.where(layout.low < V, layout.low * V + layout.high, V * V)
    dense = summed_at(V * V, place, pairs).reshape(V, V, S, S, B)
    tables = jnp.swapaxes(dense, 1, 2).reshape(V * S, V * S, B)  # above the diagonal of nodes

    def within(hot: Array, part: slice) -> Array:
        met = product("ai,ijb->ajb", hot, tables[part, part])
        return product("aj,ajb->ab", hot, met + flat[part][None])

    between = product("ai,ijb->ajb", hot_a, tables[:cut, cut:])
    between = product("ajb,cj->acb", between, hot_b)
    a, b = within(hot_a, slice(0, cut)), within(hot_b, slice(cut, V * S))
    return (a[:, None] + b[None] + between).reshape(S**V, B)


def _scores_kernel(potentials: GraphPotentials) -> Array:
    layout = laid_out(potentials, batch_size(potentials))
    beyond = ~layout.real[:, None] & (jnp.arange(layout.nodes.shape[1])[None, :, None] > 0)
    nodes, pairs = jnp.where(beyond, -jnp.inf, layout.nodes), layout.pairs
    scores = _sums(layout, finite_or_zero(nodes), finite_or_zero(pairs))
    barred = [(table == -jnp.inf).astype(table.dtype) for table in (nodes, pairs)]

    def cut_down() -> Array:
        return jnp.where(_sums(layout, *barred) > 0.5, -jnp.inf, scores)

    some = jnp.any(barred[0] > 0) | jnp.any(barred[1] > 0)
    return jax.lax.cond(some, cut_down, lambda: scores)


def _scores_once_more(_: Array, potentials: GraphPotentials) -> Array:
    """Of one example, for derivatives: those of scores that are -inf are 0."""
    layout = laid_out(jax.tree.map(lambda leaf: leaf[..., None], potentials), 1)
    return _sums(layout, finite_or_zero(layout.nodes), finite_or_zero(layout.pairs))[:, 0]


_scores_of_one = of_one_example(_scores_kernel, _scores_once_more)


def _checked(potentials: GraphPotentials) -> GraphPotentials:
    potentials = checked_potentials(potentials)
    number_of_labellings(*potentials.nodes.shape)
    return potentials


def all_scores(potentials: GraphPotentials) -> Array:
    """[S^V] F of every labelling of one graph, -inf where forbidden or where padding is not 0.

    `labelling(k, V, S)` are the labels of number k.

    Raises:
      ValueError: as `graph_potentials`; too many labellings.
    """
    return _scores_of_one(_checked(potentials))


def _best_kernel(potentials: GraphPotentials) -> Labelled:
    scores = _scores_kernel(potentials)
    V, S, _ = potentials.nodes.shape
    best = first_argmax(scores, 0)
    real = jnp.arange(V)[:, None] < potentials.number_of_nodes[None]
    labels = jnp.where(real, labelling(best, V, S).T, PADDING)
    return Labelled(labels, jnp.max(scores, axis=0))


def _score(found: Labelled, potentials: GraphPotentials) -> Array:
    return score_labels(potentials, found.labels)


_best_of_one = of_one_example(_best_kernel, _score)


def best_of_all(potentials: GraphPotentials) -> Labelled:
    """argmax_y F(y) of one small graph by enumeration, exact.

    Args:
      potentials: of one graph of at most `MOST_LABELLINGS` labellings, padding included.

    Returns:
      `Labelled`. Ties go to the lexicographically lowest labelling. If every labelling is forbidden
      the score is -inf and the labels are some labels. Under `vmap`, nested or not, one batched
      program runs for all graphs. The derivative of the score counts what the labels use.

    Raises:
      ValueError: as `all_scores`.
    """
    return _best_of_one(_checked(potentials))


def enumerated_log_partition(potentials: GraphPotentials) -> Array:
    """log Z = log sum_y exp F(y) of one small graph by enumeration, differentiable.

    Raises:
      ValueError: as `all_scores`.
    """
    return jax.nn.logsumexp(all_scores(potentials))
