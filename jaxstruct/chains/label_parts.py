"""The parts of label sequences, gathered and scattered: scores of planes and their combinations.

y are [.., T] labels with -1 on padding; a batch of planes is [.., K, T]. Everything is one flat
gather or scatter, since comparing labels with all S of them is several times slower on a CPU.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxstruct.core.types import Array


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
    """Where the parts of planes lie in the flattened tables; [K, T], [K, T - 1], [K], [K, T - 2].

    A part that a plane does not have (padding) lies just beyond its table.
    """

    emissions: Array
    transitions: Array
    start: Array
    stop: Array
    triples: Array


def flat_parts(theta: ChainTheta, y: Array) -> FlatParts:
    """The places of the parts of the planes y [K, T] of one chain."""
    T, S = theta.emissions.shape
    steps, real = jnp.arange(T)[None], y >= 0
    pairs = y[:, :-1] * S + y[:, 1:]
    if theta.transitions.ndim == 3:
        pairs = pairs + steps[:, : T - 1] * S * S
    triples = (y[:, :-2] * S + y[:, 1:-1]) * S + y[:, 2:]
    ends = jnp.sum(real, axis=1) - 1
    last = jnp.take_along_axis(y, jnp.maximum(ends, 0)[:, None], axis=1)[:, 0]
    return FlatParts(
        jnp.where(real, steps * S + y, T * S),
        jnp.where(real[:, 1:], pairs, theta.transitions.size),
        jnp.where(real[:, 0], y[:, 0], S),
        jnp.where(ends >= 0, last, S),
        jnp.where(real[:, 2:], triples, S**3),
    )


def _tables(theta: ChainTheta, parts: FlatParts) -> list[tuple[Array | None, Array]]:
    return [
        (theta.emissions, parts.emissions),
        (theta.transitions, parts.transitions),
        (theta.start, parts.start[:, None]),
        (theta.stop, parts.stop[:, None]),
        (theta.triples, parts.triples),
    ]


def plane_scores(theta: ChainTheta, y: Array) -> Array:
    """[K] F of the planes y [K, T]."""
    parts = flat_parts(theta, y)
    total = jnp.zeros(y.shape[0], theta.emissions.dtype)
    for table, places in _tables(theta, parts):
        if table is not None:
            values = table.reshape(-1).at[places].get(mode="fill", fill_value=0)
            total = total + jnp.sum(values, axis=1)
    return total


def combine(theta: ChainTheta, y: Array, c: Array) -> ChainTheta:
    """sum_k c_k d score(., y_k) / d theta of the planes y [K, T], c [K]."""
    parts = flat_parts(theta, y)
    sums: list[Any] = []
    for table, places in _tables(theta, parts):
        if table is None:
            sums.append(None)
            continue
        flat = jnp.zeros(table.size, c.dtype)
        weights = jnp.broadcast_to(c[:, None], places.shape)
        sums.append(flat.at[places].add(weights, mode="drop").reshape(table.shape))
    return ChainTheta._make([*sums, theta.length])
