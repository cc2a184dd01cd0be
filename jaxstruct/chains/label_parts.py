"""The parts of label sequences, gathered and scattered: scores of planes and their combinations.

y are [.., T] labels with -1 on padding; a batch of planes is [.., K, T]. Everything is one flat
gather or scatter, since comparing labels with all S of them is several times slower on a CPU.

Of a batch of planes the tables that all sequences share (transitions, triples, start, stop) are
read and written as one, never repeated by example.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.chains.token_features import add_tokens, token_scores
from jaxstruct.core.types import Array, PyTree


class ChainTheta(NamedTuple):
    """Potentials of one chain as the structure makes them, linear in w but for the length.

    Fields:
      emissions: [T, S]. transitions: [S, S], or [T - 1, S, S] with features of label pairs.
      start, stop: [S] or None. triples: [S, S, S] or None.
      length: int32 scalar.
    """

    emissions: Array
    transitions: Array
    start: Array | None
    stop: Array | None
    triples: Array | None
    length: Array


class FlatParts(NamedTuple):
    """Where the parts of planes lie in the flattened tables of `ChainTheta`.

    [K, T], [K, T - 1], [K, 1], [K, 1], [K, T - 2]; a part that a plane does not have (padding) lies
    just beyond its table.
    """

    emissions: Array
    transitions: Array
    start: Array
    stop: Array
    triples: Array


def flat_parts(transitions: Array, y: Array) -> FlatParts:
    """The places of the parts of the planes y [K, T] of one chain; of its table of transitions the
    shape alone is read."""
    T, S = y.shape[1], transitions.shape[-1]
    steps, real = jnp.arange(T)[None], y >= 0
    pairs = y[:, :-1] * S + y[:, 1:]
    if transitions.ndim == 3:
        pairs = pairs + steps[:, : T - 1] * S * S
    triples = (y[:, :-2] * S + y[:, 1:-1]) * S + y[:, 2:]
    ends = jnp.sum(real, axis=1, keepdims=True) - 1
    last = jnp.take_along_axis(y, jnp.maximum(ends, 0), axis=1)
    return FlatParts(
        jnp.where(real, steps * S + y, T * S),
        jnp.where(real[:, 1:], pairs, transitions.size),
        jnp.where(real[:, :1], y[:, :1], S),
        jnp.where(ends >= 0, last, S),
        jnp.where(real[:, 2:], triples, S**3),
    )


def entries_at(table: Array, places: Array) -> Array:
    """[.., K] sums of the entries of a flattened table at places [.., K, ..]; 0 of those beyond."""
    return jnp.sum(table.reshape(-1).at[places].get(mode="fill", fill_value=0), axis=-1)


def summed_at(shape: tuple[int, ...], places: Array, c: Array) -> Array:
    """Zeros with c [.., K] added at flat places [.., K, ..]; those beyond are dropped."""
    flat = jnp.zeros(shape, c.dtype).reshape(-1)
    weights = jnp.broadcast_to(c[..., None], places.shape)
    return flat.at[places.reshape(-1)].add(weights.reshape(-1), mode="drop").reshape(shape)


def plane_scores(theta: ChainTheta, y: Array) -> Array:
    """[K] F of the planes y [K, T]."""
    total = jnp.zeros(y.shape[0], theta.emissions.dtype)
    for table, places in zip(theta[:-1], flat_parts(theta.transitions, y), strict=True):
        if table is not None:
            total = total + entries_at(table, places)
    return total


def combine(theta: ChainTheta, y: Array, c: Array) -> ChainTheta:
    """sum_k c_k d score(., y_k) / d theta of the planes y [K, T], c [K]."""
    pairs = zip(theta[:-1], flat_parts(theta.transitions, y), strict=True)
    sums = (table if table is None else summed_at(table.shape, at, c) for table, at in pairs)
    return ChainTheta._make([*sums, theta.length])


def _emission_places(labels: Array, S: int) -> Array:
    """[B, K, M] places in the flat scores [B, M, S] of tokens; out of range on padding."""
    B, _, M = labels.shape
    cell = jnp.arange(B * M).reshape(B, 1, M) * S + labels
    return jnp.where(labels >= 0, cell, B * M * S)


def _shared(eta: Array, w: PyTree, y: Array) -> list[tuple[str, Array, Array | int]]:
    """(name, places [B, K, ..] of its parts, its factor) of the tables that all sequences share."""
    parts = jax.vmap(flat_parts, (None, 0))(w["transitions"], y)
    factors = {"transitions": eta, "triples": eta, "start": 1, "stop": 1}
    return [(name, getattr(parts, name), own) for name, own in factors.items() if name in w]


def plane_values(eta: Array, w: PyTree, x: PyTree, y: Array) -> Array:
    """[B, K] F of the planes y [B, K, T]."""
    scores = token_scores(w["emissions"], x.features)
    total = entries_at(scores, _emission_places(y, scores.shape[2]))
    for name, places, factor in _shared(eta, w, y):
        total = total + factor * entries_at(w[name], places)
    return total


def add_planes(eta: Array, w: PyTree, x: PyTree, y: Array, c: Array) -> PyTree:
    """w + sum_b sum_k c_bk Psi(x_b, y_bk)."""
    S = w["transitions"].shape[0]
    tokens = summed_at((y.shape[0], y.shape[2], S), _emission_places(y, S), c)
    new = {"emissions": add_tokens(w["emissions"], x.features, tokens)}
    for name, places, factor in _shared(eta, w, y):
        new[name] = w[name] + factor * summed_at(w[name].shape, places, c)
    return new
