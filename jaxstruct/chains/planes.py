"""Values and sums of the planes of a batch of chains, straight between weights and labels.

The tables that all sequences share (transitions, triples, start, stop) are read and written as one,
never repeated by example. `Differences` name the tokens, label pairs and triples at which the
planes of an example differ: elsewhere planes have equal scores, and combinations whose
coefficients sum to 0 vanish. A sentence of 30 tokens with few doubtful ones then costs a fraction
of its length.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.chains.label_parts import ChainTheta, FlatParts, flat_parts
from jaxstruct.chains.token_features import Window, add_tokens, token_scores, tokens_at
from jaxstruct.core.types import Array, PyTree

SHARED = ("transitions", "triples", "start", "stop")
TILE = 8
"""Differing tokens that one turn of a loop reads; it turns as often as an example needs."""

SHORT = 20
"""Sequences of fewer positions are read whole: their product with the weights is one call. Of 300
Spanish sentences padded to 92 positions tiles took a quarter off the time of sweeps; words of 14
letters took as long or longer by tiles of 4, 6 or 8 (4.8 to 5.6 s for 5.0 to 5.3)."""


class Differences(NamedTuple):
    """Where K planes of an example differ, the first parts first; the rest is empty.

    Integers are as narrow as their places fit, since all examples hold them at a time.

    Fields:
      positions: [M] tokens, M a multiple of `TILE`; T, out of range, where there is none.
      labels: [M, K] the labels of the planes there, -1 where there is none.
      transitions: [2 M, K] places of differing label pairs in the flat table, or beyond it.
      triples: [3 M, K] the same of label triples, or None in a chain of first order.
      start, stop: [K] first and last labels, S where there is none.
      tiles: int32 scalar, how many tiles hold them all.
    """

    positions: Array
    labels: Array
    transitions: Array
    triples: Array | None
    start: Array
    stop: Array
    tiles: Array


def _shapes(w: PyTree, T: int) -> ChainTheta:
    """Tables of the shapes of one theta; only their shapes are read."""
    S, dtype = w["transitions"].shape[0], w["transitions"].dtype
    start, stop, triples = w.get("start"), w.get("stop"), w.get("triples")
    emissions = jnp.zeros((T, S), dtype)
    return ChainTheta(emissions, w["transitions"], start, stop, triples, jnp.int32(0))


def _narrow(values: Array, largest: int) -> Array:
    """Integers from -1 to `largest` in the narrowest signed dtype that holds them."""
    fits = (kind for kind in (jnp.int8, jnp.int16) if largest <= jnp.iinfo(kind).max)
    return values.astype(next(fits, jnp.int32))


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


def _gather_differing(values: Array, most: int, empty: int) -> Array:
    """[B, most, K] the columns of values [B, K, P] that differ among the K, in order, then empty.

    No more than `most` of them may differ.
    """
    B, _, P = values.shape
    differs = jnp.any(values != values[:, :1], axis=1)
    place = jnp.where(differs, jnp.cumsum(differs, axis=1) - 1, most)
    rows = jnp.full((B, most, values.shape[1]), empty, values.dtype)
    return rows.at[jnp.arange(B)[:, None], place].set(jnp.swapaxes(values, 1, 2), mode="drop")


def plane_differences(w: PyTree, y: Array) -> Differences | None:
    """Where the planes y [B, K, T] of each example differ; None of `SHORT` sequences.

    Args:
      w: weights, of which only the shapes are read. y: [B, K, T] labels, -1 on padding.
    """
    B, K, T = y.shape
    if T < SHORT:
        return None
    most = -(-T // TILE) * TILE
    parts, S = _shared_places(w, y), w["transitions"].shape[0]
    steps = jnp.broadcast_to(jnp.arange(T, dtype=jnp.int32), (B, 1, T))
    differs = jnp.any(y != y[:, :1], axis=1)
    placed = jnp.concatenate([y, steps], axis=1)  # positions beside the labels, gathered alike
    place = jnp.where(differs, jnp.cumsum(differs, axis=1) - 1, most)
    rows = jnp.full((B, most, K + 1), -1, y.dtype).at[jnp.arange(B)[:, None], place]
    gathered = rows.set(jnp.swapaxes(placed, 1, 2), mode="drop")
    labels, positions = gathered[..., :K], gathered[..., K]
    triples = None
    if "triples" in w:
        triples = _narrow(_gather_differing(parts.triples, 3 * most, S**3), S**3)
    return Differences(
        _narrow(jnp.where(positions < 0, T, positions), T),
        _narrow(labels, S),
        _narrow(_gather_differing(parts.transitions, 2 * most, S * S), S * S),
        triples,
        parts.start,
        parts.stop,
        -(-jnp.sum(differs, axis=1, dtype=jnp.int32) // TILE),
    )


class _Tile(NamedTuple):
    """Some differing parts: token features [B, TILE, ..]; places in the flat tables [B, ., K]."""

    features: PyTree
    emissions: Array
    transitions: Array
    triples: Array | None


def _tile(
    w: PyTree, inputs: PyTree, d: Differences, index: Array, window: Window, at: Array
) -> _Tile:
    """Tile number `at` of the examples `index`."""

    def part(leaf: Array, size: int) -> Array:
        return leaf[index[:, None], at * size + jnp.arange(size)].astype(jnp.int32)

    S, labels = w["transitions"].shape[0], part(d.labels, TILE)
    B = index.shape[0]
    cells = jnp.arange(B * TILE, dtype=jnp.int32).reshape(B, TILE, 1) * S + labels
    features = tokens_at(inputs, index, part(d.positions, TILE), window)
    return _Tile(
        features,
        jnp.where(labels >= 0, cells, B * TILE * S),
        part(d.transitions, 2 * TILE),
        None if d.triples is None else part(d.triples, 3 * TILE),
    )


def _read_along(table: Array, places: Array) -> Array:
    """[B, K] sums over axis 1 of the entries of a flattened table; those out of range count 0."""
    return jnp.sum(table.reshape(-1).at[places].get(mode="fill", fill_value=0), axis=1)


def difference_values(
    eta: Array, window: Window, w: PyTree, inputs: PyTree, d: Differences, index: Array
) -> Array:
    """[B, K] F of the planes of some examples, up to a constant an example.

    Args:
      inputs, d: [n] a bucket and where its planes differ. index: [B] the examples.
    """

    def add_tile(at: Array, total: Array) -> Array:
        tile = _tile(w, inputs, d, index, window, at)
        scores = token_scores(w["emissions"], tile.features)
        total = total + _read_along(scores, tile.emissions)
        total = total + eta * _read_along(w["transitions"], tile.transitions)
        if tile.triples is None:
            return total
        return total + eta * _read_along(w["triples"], tile.triples)

    total = jnp.zeros((index.shape[0], d.start.shape[1]), w["emissions"].dtype)
    for name in ("start", "stop"):
        if name in w:
            total = total + w[name].at[getattr(d, name)[index]].get(mode="fill", fill_value=0)
    return jax.lax.fori_loop(0, jnp.max(d.tiles[index]), add_tile, total)


def add_differences(
    eta: Array, window: Window, w: PyTree, inputs: PyTree, d: Differences, index: Array, c: Array
) -> PyTree:
    """w + sum_b sum_k c_bk Psi(x_b, y_bk), where the c of an example sum to 0.

    Args:
      as `difference_values`; c: [B, K].
    """
    S = w["transitions"].shape[0]

    def scatter(table: Array, places: Array, factor: Array | int) -> Array:
        weights = jnp.broadcast_to(factor * c[:, None], places.shape)
        return table.reshape(-1).at[places].add(weights, mode="drop").reshape(table.shape)

    def add_tile(at: Array, w: PyTree) -> PyTree:
        tile = _tile(w, inputs, d, index, window, at)
        zeros = jnp.zeros((*tile.emissions.shape[:2], S), c.dtype)
        tokens = scatter(zeros, tile.emissions, 1)
        new = {**w, "emissions": add_tokens(w["emissions"], tile.features, tokens)}
        new["transitions"] = scatter(w["transitions"], tile.transitions, eta)
        if tile.triples is not None:
            new["triples"] = scatter(w["triples"], tile.triples, eta)
        return new

    ends = {
        name: w[name].at[getattr(d, name)[index]].add(c, mode="drop")
        for name in ("start", "stop")
        if name in w
    }
    return jax.lax.fori_loop(0, jnp.max(d.tiles[index]), add_tile, {**w, **ends})
