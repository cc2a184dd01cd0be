"""Planes of dependency trees by the words at which those of an example differ.

Elsewhere planes have equal scores, and combinations whose coefficients sum to 0 vanish. Everything
here is made for one kernel (`core.one_kernel`): loops that turn as often as an example needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from jaxstruct.core import contract
from jaxstruct.core.types import Array, PyTree
from jaxstruct.dependencies.features import (
    ArcFeatures,
    SentenceTables,
    arc_places,
    over_slots,
    sentence_tables,
)
from jaxstruct.dependencies.potentials import Parse


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


def _put(to: Array, at: Array, value: Array) -> Array:
    """to with entry (or row) number `at` replaced."""
    return jax.lax.dynamic_update_slice_in_dim(to, value[None].astype(to.dtype), at, 0)


def _find_of_one(y: Parse) -> Differences:
    """Of one example; leaves of y are [K, T]."""
    T = y.heads.shape[1]
    differs = jnp.any(y.heads != y.heads[:1], axis=0)
    if y.labels is not None:
        differs = differs | jnp.any(y.labels != y.labels[:1], axis=0)

    def append(word: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
        words, count = found
        return _put(words, count, jnp.asarray(word)), count + differs[word].astype(jnp.int32)

    words, count = jax.lax.fori_loop(0, T, append, (jnp.zeros(T, jnp.int32), jnp.int32(0)))
    return Differences(y.heads.T, None if y.labels is None else y.labels.T, words, count)


def find(y: Parse) -> Differences:
    """Where the planes y [B, K, T] of each example differ."""
    return jax.lax.map(_find_of_one, y)


class _Arcs(NamedTuple):
    """The arcs of K planes into one word of an example."""

    sentence: SentenceTables
    heads: Array
    children: Array
    labels: Array

    def over_slots(self, features: ArcFeatures, turn: Callable, start: Any) -> Any:
        """turn(state, places [K], active [K]) for every slot; places are in all weights."""

        def plain(state: Any, begin: Array, places: Array, active: Array) -> tuple[Any, None]:
            return turn(state, begin + places, active), None

        def labelled(state: Any, begin: Array, places: Array, active: Array) -> tuple[Any, None]:
            return turn(state, begin + places * features.labels + self.labels, active), None

        arcs = self.sentence, self.heads, self.children
        state = over_slots(features, False, arcs, plain, start)[0]
        if features.label_templates:
            state = over_slots(features, True, arcs, labelled, state)[0]
        return state


def _each(
    features: ArcFeatures, inputs: PyTree, d: Differences, index: Array, step: Callable,
    start: PyTree,
) -> PyTree:  # fmt: skip
    """step(number of the example, arcs of its planes into a word, state) for all that differ."""

    def example(number: Array, state: PyTree) -> PyTree:
        at = index[number]
        sentence = sentence_tables(features, inputs.tokens[at])

        def word(place: Array, state: PyTree) -> PyTree:
            t = d.words[at, place]
            heads = d.heads[at, t]
            labels = jnp.zeros_like(heads) if d.labels is None else d.labels[at, t]
            children = jnp.zeros_like(heads) + t
            return step(number, _Arcs(sentence, heads, children, labels), state)

        return jax.lax.fori_loop(0, d.count[at], word, state)

    return jax.lax.fori_loop(0, index.shape[0], example, start)


def values(features: ArcFeatures, w: PyTree, inputs: PyTree, d: Differences, index: Array) -> Array:
    """[B, K] F of the planes of some examples, up to a constant an example.

    Args:
      inputs, d: [n] a bucket and where its planes differ. index: [B] the examples.
    """
    weights = w["features"]

    def word(number: Array, arcs: _Arcs, found: Array) -> Array:
        def slot(total: Array, places: Array, active: Array) -> Array:
            return total + jnp.where(active, weights.at[places].get(mode="clip"), 0)

        return _put(found, number, arcs.over_slots(features, slot, found[number]))

    nothing = jnp.zeros((index.shape[0], d.heads.shape[2]), weights.dtype)
    return _each(features, inputs, d, index, word, nothing)


def add(
    features: ArcFeatures, w: PyTree, inputs: PyTree, d: Differences, index: Array, c: Array
) -> PyTree:
    """w + sum_b sum_k c_bk Psi(x_b, y_bk), where the c of an example sum to 0.

    Args:
      as `values`; c: [B, K].
    """

    def word(number: Array, arcs: _Arcs, weights: Array) -> Array:
        def slot(weights: Array, places: Array, active: Array) -> Array:
            def plane(k: Array, weights: Array) -> Array:
                amount = jnp.where(active[k], c[number, k], 0)

                def move(_: Array, weights: Array) -> Array:
                    return _put(weights, places[k], weights[places[k]] + amount)

                return jax.lax.fori_loop(0, (amount != 0).astype(jnp.int32), move, weights)

            return jax.lax.fori_loop(0, places.shape[0], plane, weights)

        return arcs.over_slots(features, slot, weights)

    return {"features": _each(features, inputs, d, index, word, w["features"])}


class _Pairs(NamedTuple):
    """Arcs of one tree that differ from the true ones. true, own: [T, S] the weights that both read
    at such a word, of which the first `count` are some."""

    true: Array
    own: Array
    count: Array


def _shared(a: Array, b: Array) -> Array:
    """How many weights two arcs [S] share."""
    return jnp.sum((a == b) & (a >= 0), dtype=jnp.int32)


def _product(pairs: _Pairs, true: Array, own: Array) -> Array:
    """<delta Psi, delta Psi'> of all pairs, and of one more pair of arcs [S]."""

    def add(at: Array, total: Array) -> Array:
        right, wrong = pairs.true[at], pairs.own[at]
        plus = _shared(true, right) + _shared(own, wrong)
        return total + plus - _shared(true, wrong) - _shared(own, right)

    return jax.lax.fori_loop(0, pairs.count, add, jnp.int32(0))


def look_up(
    features: ArcFeatures, theta: Any, inputs: PyTree, outputs: Parse, at: Array, y_true: Parse,
    y: Parse, occupied: Array,
) -> contract.LookedUp:  # fmt: skip
    """See `contract.Differences`; leaves of outputs: [n, K, T], of y_true and y: [T]."""
    sentence, length = sentence_tables(features, inputs.tokens[at]), theta.length
    T, K = y.heads.shape[0], outputs.heads.shape[1]

    def label(tree: Parse, word: Array) -> Array:
        return jnp.int32(0) if tree.labels is None else jnp.maximum(tree.labels[word], 0)

    def differs(a: Parse, b: Parse, word: Array) -> Array:
        return (a.heads[word] != b.heads[word]) | (label(a, word) != label(b, word))

    def places(tree: Parse, word: Array) -> Array:
        head = jnp.maximum(tree.heads[word], 0)
        return arc_places(features, sentence, head, word, label(tree, word))

    def at_differing(tree: Parse, step: Callable, start: Any) -> Any:
        """step(word, state) for the words at which a tree differs from the true one."""

        def turn(word: Array, state: Any) -> Any:
            word = jnp.asarray(word, jnp.int32)
            some = differs(tree, y_true, word).astype(jnp.int32)
            return jax.lax.fori_loop(0, some, lambda _, state: step(word, state), state)

        return jax.lax.fori_loop(0, length, turn, start)

    def append(word: Array, pairs: _Pairs) -> _Pairs:
        return _Pairs(
            _put(pairs.true, pairs.count, places(y_true, word)),
            _put(pairs.own, pairs.count, places(y, word)),
            pairs.count + 1,
        )

    none = jnp.full((T, len(features.slots)), -1, jnp.int32)
    pairs = at_differing(y, append, _Pairs(none, none, jnp.int32(0)))

    def with_own(number: Array, total: Array) -> Array:
        return total + _product(pairs, pairs.true[number], pairs.own[number])

    def of_plane(k: Array, found: contract.LookedUp) -> contract.LookedUp:
        own = jax.tree.map(lambda leaf: leaf[at, k], outputs)

        def product(word: Array, total: Array) -> Array:
            return total + _product(pairs, places(y_true, word), places(own, word))

        def read(word: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            score, same = state
            head = jnp.maximum(own.heads[word], 0)
            score = score + theta.potentials[head, word, label(own, word)]
            return score, same & ~differs(own, y, word)

        dtype = theta.potentials.dtype
        score, same = jax.lax.fori_loop(0, length, read, (jnp.zeros((), dtype), jnp.array(True)))
        return found._replace(
            scores=_put(found.scores, k, score),
            products=_put(found.products, k, at_differing(own, product, jnp.int32(0))),
            known=found.known | same,
        )

    def of_slot(k: Array, found: contract.LookedUp) -> contract.LookedUp:
        held = occupied[k].astype(jnp.int32)
        return jax.lax.fori_loop(0, held, lambda _, found: of_plane(k, found), found)

    zeros = jnp.zeros(K, theta.potentials.dtype)
    squared = jax.lax.fori_loop(0, pairs.count, with_own, jnp.int32(0)).astype(zeros.dtype)
    nothing = contract.LookedUp(zeros, zeros, squared, jnp.array(False))
    return jax.lax.fori_loop(0, K, of_slot, nothing)


def tree_differences(features: ArcFeatures) -> contract.Differences:
    """The functions above, bound to the features of arcs."""
    return contract.Differences(
        Partial(find), None, Partial(values, features), Partial(add, features), None,
        Partial(look_up, features),
    )  # fmt: skip
