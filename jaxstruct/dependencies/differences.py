"""Planes of dependency trees by the words at which those of an example differ.

Elsewhere planes have equal scores, and combinations whose coefficients sum to 0 vanish. Everything
here is made of loops that turn as often as an example needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from jaxstruct.core import contract
from jaxstruct.core.loops import for_each, listed, put, when
from jaxstruct.core.types import Array, PyTree
from jaxstruct.dependencies.features import ArcFeatures, arc_places, over_places, sentence_tables
from jaxstruct.dependencies.potentials import Parse, arcs_differ, score_tree


class Differences(NamedTuple):
    """Where K planes of an example differ.

    Fields:
      heads, labels: [T, K] of the planes by word; labels are None where arcs have none.
      words: [T] int32, of which the first `count` are the words at which they differ.
      count: int32 scalar.
    """

    heads: Array
    labels: Array | None
    words: Array
    count: Array


def _find_of_one(y: Parse) -> Differences:
    """Of one example; leaves of y are [K, T]."""
    differs = jnp.any(arcs_differ(y, jax.tree.map(lambda leaf: leaf[:1], y)), axis=0)
    heads, labels = jax.tree.map(jnp.transpose, y)
    return Differences(heads, labels, *listed(differs))


def find(y: Parse) -> Differences:
    """Where the planes y [B, K, T] of each example differ."""
    return jax.lax.map(_find_of_one, y)


def _each(
    features: ArcFeatures, inputs: PyTree, d: Differences, index: Array, step: Callable,
    start: PyTree,
) -> PyTree:  # fmt: skip
    """step(number of the example, loop, state) for every word into which its planes differ.

    loop: (turn, state) -> state; turn(state, places [K], active [K]) -> (state, None) for every
    slot of the arcs of the planes into the word, see `over_places`.
    """

    def example(number: Array, state: PyTree) -> PyTree:
        at = index[number]
        sentence = sentence_tables(features, inputs.tokens[at])

        def word(place: Array, state: PyTree) -> PyTree:
            t = d.words[at, place]
            heads = d.heads[at, t]
            labels = None if d.labels is None else d.labels[at, t]
            arcs = sentence, heads, jnp.zeros_like(heads) + t

            def loop(turn: Callable, state: PyTree) -> PyTree:
                return over_places(features, arcs, labels, turn, state)[0]

            return step(number, loop, state)

        return jax.lax.fori_loop(0, d.count[at], word, state)

    return jax.lax.fori_loop(0, index.shape[0], example, start)


def values(features: ArcFeatures, w: PyTree, inputs: PyTree, d: Differences, index: Array) -> Array:
    """[B, K] F of the planes of some examples, up to a constant an example.

    Args:
      inputs, d: [n] a bucket and where its planes differ. index: [B] the examples.
    """
    weights = w["features"]

    def word(number: Array, loop: Callable, found: Array) -> Array:
        def slot(total: Array, places: Array, active: Array) -> tuple[Array, None]:
            return total + jnp.where(active, weights.at[places].get(mode="clip"), 0), None

        return put(found, number, loop(slot, found[number]))

    nothing = jnp.zeros((index.shape[0], d.heads.shape[2]), weights.dtype)
    return _each(features, inputs, d, index, word, nothing)


def add(
    features: ArcFeatures, w: PyTree, inputs: PyTree, d: Differences, index: Array, c: Array
) -> PyTree:
    """w + sum_b sum_k c_bk Psi(x_b, y_bk), where the c of an example sum to 0.

    Args:
      as `values`; c: [B, K].
    """

    def word(number: Array, loop: Callable, weights: Array) -> Array:
        def slot(weights: Array, places: Array, active: Array) -> tuple[Array, None]:
            def plane(k: Array, weights: Array) -> Array:
                amount = jnp.where(active[k], c[number, k], 0)

                def move(weights: Array) -> Array:
                    return put(weights, places[k], weights[places[k]] + amount)

                return when(amount != 0, move, weights)

            return jax.lax.fori_loop(0, places.shape[0], plane, weights), None

        return loop(slot, weights)

    return {"features": _each(features, inputs, d, index, word, w["features"])}


def _shared(pairs: tuple[Array, Array], arc: Array) -> Array:
    """[S] how many weights an arc [S] shares with the first arc of a pair, less with the second."""
    first, second = ((own == arc).astype(jnp.int32) for own in pairs)
    return jnp.where(arc >= 0, first - second, 0)


def look_up(
    features: ArcFeatures, theta: Any, inputs: PyTree, outputs: Parse, at: Array, y_true: Parse,
    y: Parse, occupied: Array,
) -> contract.LookedUp:  # fmt: skip
    """See `contract.Differences`; leaves of outputs: [n, K, T], of y_true and y: [T].

    delta Psi(y) is counted by the words at which y is wrong, and so are those of the planes.
    """
    sentence = sentence_tables(features, inputs.tokens[at])
    T, K = y.heads.shape[0], outputs.heads.shape[1]

    def places(tree: Parse) -> Array:
        """[T, S] the weights of its arcs."""
        return arc_places(features, sentence, tree.heads, jnp.arange(T), tree.labels).T

    of_true, of_y = places(y_true), places(y)
    wrong, count = listed(arcs_differ(y, y_true))

    def product(tree: Parse) -> Array:
        """<delta Psi(y), delta Psi(tree)>."""
        words, wrong_of_tree = listed(arcs_differ(tree, y_true))
        arcs = places(tree)

        def with_word(n: Array, total: Array) -> Array:
            def with_pair(j: Array, total: Array) -> Array:
                pair = of_true[wrong[j]], of_y[wrong[j]]
                return total + _shared(pair, of_true[words[n]]) - _shared(pair, arcs[words[n]])

            return jax.lax.fori_loop(0, count, with_pair, total)

        nothing = jnp.zeros(arcs.shape[1], jnp.int32)
        return jnp.sum(jax.lax.fori_loop(0, wrong_of_tree, with_word, nothing), dtype=jnp.int32)

    def of_plane(k: Array, found: contract.LookedUp) -> contract.LookedUp:
        plane = jax.tree.map(lambda leaf: leaf[at, k], outputs)
        score = score_tree(theta.potentials, plane.heads, plane.labels, theta.length)
        return found._replace(
            scores=put(found.scores, k, score), products=put(found.products, k, product(plane)),
            known=found.known | ~jnp.any(arcs_differ(plane, y)),
        )  # fmt: skip

    zeros = jnp.zeros(K, theta.potentials.dtype)
    found = contract.LookedUp(zeros, zeros, product(y).astype(zeros.dtype), jnp.array(False))
    return for_each(occupied, of_plane, found)


def tree_differences(features: ArcFeatures) -> contract.Differences:
    """The functions above, bound to the features of arcs."""
    return contract.Differences(
        Partial(find), None, Partial(values, features), Partial(add, features), None,
        Partial(look_up, features),
    )  # fmt: skip
