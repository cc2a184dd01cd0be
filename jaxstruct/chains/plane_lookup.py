"""A new output of a chain against the planes at hand, label by label as far as the chain goes.

Without scatters, as `chains.differences` is.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.chains.inputs import ChainInput
from jaxstruct.chains.label_parts import ChainTheta
from jaxstruct.chains.token_features import Window, token_at
from jaxstruct.chains.token_steps import Moved, add_token, scores_of
from jaxstruct.core.contract import LookedUp
from jaxstruct.core.loops import for_each, put, when
from jaxstruct.core.types import Array, PyTree, SparseFeatures


def _score(theta: ChainTheta, y: Array) -> Array:
    """F of one labelling [T] of the length that theta has, part by part."""
    length = theta.length

    def add(t: Array, total: Array) -> Array:
        total = total + theta.emissions[t, y[t]]
        before = y[jnp.maximum(t - 1, 0)]
        total = total + jnp.where(t > 0, theta.transitions[before, y[t]], 0)
        if theta.triples is not None:
            triple = theta.triples[y[jnp.maximum(t - 2, 0)], before, y[t]]
            total = total + jnp.where(t > 1, triple, 0)
        return total

    total = jax.lax.fori_loop(0, length, add, jnp.zeros((), theta.emissions.dtype))
    ends = (theta.start, y[0]), (theta.stop, y[jnp.maximum(length - 1, 0)])
    for table, label in ends:
        if table is not None:
            total = total + jnp.where(length > 0, table[label], 0)
    return total


class _Tokens(NamedTuple):
    """The tokens of one of many inputs, whatever their window: inner products, or features."""

    inputs: ChainInput
    at: Array
    window: Window

    def entry(self, t: Array, s: Array) -> Array:
        """<Phi(x^t), Phi(x^s)>."""
        gram, length, r = self.inputs.gram, self.inputs.length[self.at], self.window.radius
        if r == 0:
            return gram[self.at, t, s]
        total = jnp.zeros((), jnp.int32 if jnp.issubdtype(gram.dtype, jnp.integer) else gram.dtype)
        for shift in range(-r, r + 1):
            low, high = jnp.minimum(t, s) + shift, jnp.maximum(t, s) + shift
            value = gram[self.at, jnp.maximum(t + shift, 0), jnp.maximum(s + shift, 0)]
            total = total + jnp.where((low >= 0) & (high < length), value, 0).astype(total.dtype)
        return total

    def features(self, t: Array) -> PyTree:
        """Phi(x^t)."""
        return token_at(self.inputs, self.at, t, self.window)


def _by_features(tokens: _Tokens, theta: ChainTheta, y_true: Array, y: Array) -> Array:
    """[T, S] <Phi(x^t), sum_s Phi(x^s)> of each label, without a Gram matrix."""
    (T, S), dtype = theta.emissions.shape, theta.emissions.dtype
    sparse = isinstance(tokens.inputs.features, SparseFeatures)
    d = tokens.window.blocks * tokens.window.number_of_features
    pair = Moved(jnp.arange(2), jnp.int32(2), jnp.array([1, -1], dtype))

    def add(s: Array, u: Array) -> Array:
        labels = jnp.stack([y_true[s], y[s]])
        differ = labels[0] != labels[1]
        return when(differ, lambda u: add_token(u, tokens.features(s), pair, labels), u)

    u = jax.lax.fori_loop(0, theta.length, add, jnp.zeros((d, S) if sparse else (S, d), dtype))

    def score(t: Array, emissions: Array) -> Array:
        return put(emissions, t, scores_of({"emissions": u}, tokens.features(t)))

    return jax.lax.fori_loop(0, theta.length, score, jnp.zeros((T, S), dtype))


def _sums_seen(
    eta: Array, tokens: _Tokens, theta: ChainTheta, y_true: Array, y: Array
) -> ChainTheta:
    """A_x delta Psi(y): theta-shaped, whose scores are inner products with delta Psi(y)."""
    length, zeros = theta.length, jax.tree.map(jnp.zeros_like, theta._replace(length=None))

    def seen_by(s: Array, emissions: Array) -> Array:
        def add(t: Array, emissions: Array) -> Array:
            value, row = tokens.entry(t, s).astype(emissions.dtype), emissions[t]
            row = put(row, y_true[s], row[y_true[s]] + value)
            return put(emissions, t, put(row, y[s], row[y[s]] - value))

        differs = (y[s] != y_true[s]).astype(jnp.int32)
        return jax.lax.fori_loop(0, differs * length, add, emissions)

    def count(order: int, table: Array) -> Array:
        """Parts of y_true less those of y, times eta^2, for label sequences of `order`."""

        def places(labels: Array, t: Array) -> Array:
            place = labels[t]
            for step in range(1, order):
                place = place * theta.emissions.shape[1] + labels[t + step]
            return place

        def add(t: Array, flat: Array) -> Array:
            for labels, sign in ((y_true, 1), (y, -1)):
                place = places(labels, t)
                flat = put(flat, place, flat[place] + sign * eta**2)
            return flat

        parts = jnp.maximum(length - order + 1, 0)
        return jax.lax.fori_loop(0, parts, add, table.reshape(-1)).reshape(table.shape)

    def end(table: Array, t: Array) -> Array:
        sign = jnp.where(length > 0, jnp.ones((), table.dtype), 0)
        table = put(table, y_true[t], table[y_true[t]] + sign)
        return put(table, y[t], table[y[t]] - sign)

    last = jnp.maximum(length - 1, 0)
    if tokens.inputs.gram is None:
        emissions = _by_features(tokens, theta, y_true, y)
    else:
        emissions = jax.lax.fori_loop(0, length, seen_by, zeros.emissions)
    return ChainTheta(
        emissions,
        count(2, zeros.transitions),
        None if theta.start is None else end(zeros.start, jnp.int32(0)),
        None if theta.stop is None else end(zeros.stop, last),
        None if theta.triples is None else count(3, zeros.triples),
        length,
    )


def look_up(
    eta: Array, window: Window, theta: ChainTheta, inputs: ChainInput, planes: Array, at: Array,
    y_true: Array, y: Array, occupied: Array,
) -> LookedUp:  # fmt: skip
    """See `contract.Differences`; planes: [n, K, T], y_true and y: [T]."""
    seen = _sums_seen(eta, _Tokens(inputs, at, window), theta, y_true, y)
    truth = _score(seen, y_true)

    def of_plane(k: Array, found: LookedUp) -> LookedUp:
        own = planes[at, k]
        return found._replace(
            scores=put(found.scores, k, _score(theta, own)),
            products=put(found.products, k, truth - _score(seen, own)),
            known=found.known | jnp.all(own == y),
        )

    zeros = jnp.zeros(planes.shape[1], theta.emissions.dtype)
    nothing = LookedUp(zeros, zeros, truth - _score(seen, y), jnp.array(False))
    return for_each(occupied, of_plane, nothing)
