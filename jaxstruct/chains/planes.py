"""Values and sums of the planes of a batch of chains, straight between weights and labels.

The tables that all sequences share (transitions, triples, start, stop) are read and written as one,
never repeated by example.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct.chains.label_parts import entries_at, flat_parts, summed_at
from jaxstruct.chains.token_features import add_tokens, token_scores
from jaxstruct.core.types import Array, PyTree


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
