"""Values and sums of the planes of a batch of chains, straight between weights and labels.

The tables that all sequences share (transitions, triples, start, stop) are read and written as one,
never repeated by example.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct.chains.label_parts import ChainTheta, FlatParts, flat_parts
from jaxstruct.chains.token_features import add_tokens, token_scores
from jaxstruct.core.types import Array, PyTree

SHARED = ("transitions", "triples", "start", "stop")


def _shapes(w: PyTree, T: int) -> ChainTheta:
    """Tables of the shapes of one theta; only their shapes are read."""
    S, dtype = w["transitions"].shape[0], w["transitions"].dtype
    start, stop, triples = w.get("start"), w.get("stop"), w.get("triples")
    emissions = jnp.zeros((T, S), dtype)
    return ChainTheta(emissions, w["transitions"], start, stop, triples, jnp.int32(0))


def _emission_places(labels: Array, S: int) -> Array:
    """[B, K, M] places in the flat scores [B, M, S] of tokens; out of range on padding."""
    B, _, M = labels.shape
    cell = jnp.arange(B * M).reshape(B, 1, M) * S + labels
    return jnp.where(labels >= 0, cell, B * M * S)


def _shared_places(w: PyTree, y: Array) -> FlatParts:
    return jax.vmap(flat_parts, (None, 0))(_shapes(w, y.shape[2]), y)


def _places_of(parts: FlatParts, name: str) -> Array:
    places = getattr(parts, name)
    return places[:, :, None] if places.ndim == 2 else places


def _factor(name: str, eta: Array) -> Array | int:
    return eta if name in ("transitions", "triples") else 1


def _read(table: Array, places: Array) -> Array:
    """[B, K] sums of the entries of a flattened table; those out of range count 0."""
    return jnp.sum(table.reshape(-1).at[places].get(mode="fill", fill_value=0), axis=2)


def _summed_at(shape: tuple[int, ...], places: Array, c: Array) -> Array:
    """Zeros with c [B, K] added at flat places [B, K, ..]; those out of range are dropped."""
    flat = jnp.zeros(shape, c.dtype).reshape(-1)
    weights = jnp.broadcast_to(c[:, :, None], places.shape)
    return flat.at[places.reshape(-1)].add(weights.reshape(-1), mode="drop").reshape(shape)


def plane_values(eta: Array, w: PyTree, x: PyTree, y: Array) -> Array:
    """[B, K] F of the planes y [B, K, T]."""
    scores = token_scores(w["emissions"], x.features)
    places = _emission_places(y, scores.shape[2])
    total = _read(scores, places)
    parts = _shared_places(w, y)
    for name in SHARED:
        if name in w:
            total = total + _factor(name, eta) * _read(w[name], _places_of(parts, name))
    return total


def add_planes(eta: Array, w: PyTree, x: PyTree, y: Array, c: Array) -> PyTree:
    """w + sum_b sum_k c_bk Psi(x_b, y_bk)."""
    S = w["transitions"].shape[0]
    tokens = _summed_at((y.shape[0], y.shape[2], S), _emission_places(y, S), c)
    new = {"emissions": add_tokens(w["emissions"], x.features, tokens)}
    parts = _shared_places(w, y)
    for name in SHARED:
        if name in w:
            change = _summed_at(w[name].shape, _places_of(parts, name), c)
            new[name] = w[name] + _factor(name, eta) * change
    return new
