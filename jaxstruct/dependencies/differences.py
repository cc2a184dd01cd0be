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
from jaxstruct.dependencies.features import (
    ArcFeatures,
    arc_places,
    over_places,
    sentence_tables,
)
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


class _Known(NamedTuple):
    """Products of delta Psi(y) with the features of arcs, each found once.

    Fields:
      values: [T + 1, T] of the arcs h -> m. labels: [T + 1, T] with which label, -1 where unknown.
    """

    values: Array
    labels: Array


class _Pairs(NamedTuple):
    """delta Psi(y): the arcs true, own [T, S] at words where y is wrong, the first `count` rows."""

    true: Array
    own: Array
    count: Array


def _shared(a: Array, b: Array) -> Array:
    """How many weights two arcs [S] share."""
    return jnp.sum((a == b) & (a >= 0), dtype=jnp.int32)


def _product(
    pairs: _Pairs, known: _Known, tree: Parse, arcs: Array, m: Array
) -> tuple[_Known, Array]:
    """<delta Psi(y), features of the arc of a tree into word m>; arcs: [T, S] of the tree."""
    head, label = tree.heads[m], jnp.int32(0) if tree.labels is None else tree.labels[m]

    def add(j: Array, total: Array) -> Array:
        return total + _shared(pairs.true[j], arcs[m]) - _shared(pairs.own[j], arcs[m])

    def find(known: _Known) -> _Known:
        found = jax.lax.fori_loop(0, pairs.count, add, jnp.int32(0))
        update = jax.lax.dynamic_update_slice
        values = update(known.values, found[None, None], (head, m))
        return _Known(values, update(known.labels, label[None, None], (head, m)))

    known = when(known.labels[head, m] != label, find, known)
    return known, known.values[head, m]


def look_up(
    features: ArcFeatures, theta: Any, inputs: PyTree, outputs: Parse, at: Array, y_true: Parse,
    y: Parse, occupied: Array,
) -> contract.LookedUp:  # fmt: skip
    """See `contract.Differences`; leaves of outputs: [n, K, T], of y_true and y: [T].

    Most arcs of the planes of an example are the same few: what an arc shares with delta Psi(y) is
    counted once.
    """
    sentence = sentence_tables(features, inputs.tokens[at])
    T, K = y.heads.shape[0], outputs.heads.shape[1]

    def places(tree: Parse) -> Array:
        """[T, S] the weights of its arcs."""
        return arc_places(features, sentence, tree.heads, jnp.arange(T), tree.labels).T

    of_true, of_y = places(y_true), places(y)
    wrong, count = listed(arcs_differ(y, y_true))
    pairs = _Pairs(of_true[wrong], of_y[wrong], count)

    def with_tree(known: _Known, tree: Parse, arcs: Array) -> tuple[_Known, Array]:
        """<delta Psi(y), delta Psi(tree)>."""
        words, count = listed(arcs_differ(tree, y_true))

        def add(n: Array, state: tuple[_Known, Array]) -> tuple[_Known, Array]:
            known, right = _product(pairs, state[0], y_true, of_true, words[n])
            known, own = _product(pairs, known, tree, arcs, words[n])
            return known, state[1] + right - own

        return jax.lax.fori_loop(0, count, add, (known, jnp.int32(0)))

    def of_plane(k: Array, state: tuple) -> tuple:
        found, known = state
        plane = jax.tree.map(lambda leaf: leaf[at, k], outputs)
        labels = jnp.zeros_like(plane.heads) if plane.labels is None else plane.labels
        score = score_tree(theta.potentials, plane.heads, labels, theta.length)
        known, shared = with_tree(known, plane, places(plane))
        found = found._replace(
            scores=put(found.scores, k, score), products=put(found.products, k, shared),
            known=found.known | ~jnp.any(arcs_differ(plane, y)),
        )  # fmt: skip
        return found, known

    nothing = jnp.zeros((T + 1, T), jnp.int32)
    known, squared = with_tree(_Known(nothing, nothing - 1), y, of_y)
    zeros = jnp.zeros(K, theta.potentials.dtype)
    found = contract.LookedUp(zeros, zeros, squared.astype(zeros.dtype), jnp.array(False))
    return for_each(occupied, of_plane, (found, known))[0]


def tree_differences(features: ArcFeatures) -> contract.Differences:
    """The functions above, bound to the features of arcs."""
    return contract.Differences(
        Partial(find), None, Partial(values, features), Partial(add, features), None,
        Partial(look_up, features),
    )  # fmt: skip
