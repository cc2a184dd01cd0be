"""Small random label sequences with every output and its joint feature written down in numpy."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import jax
import numpy as np

from jaxstruct import Problem
from jaxstruct.chains.structure import ChainInput, Constraints, chain, chain_inputs
from jaxstruct.core.buckets import Buckets
from jaxstruct.core.types import SparseFeatures
from tests.chains.oracles.truth import all_labelings

PLAIN: dict = dict(eta=0.7)
RICH: dict = dict(eta=0.7, order=2, start_stop=True, pair_features=True)
BARRED = Constraints(
    np.array([[False, True, False], [False, False, False], [True, False, False]]),
    np.array([False, False, True]),
    np.array([True, False, False]),
)
"""0 1 and 2 0 are forbidden, 2 is never first, 0 never last."""


class Sequences(NamedTuple):
    """tokens [n, T, d] (0 on padding), length [n], y [n, T] int32 (-1 on padding), S labels."""

    tokens: np.ndarray
    length: np.ndarray
    y: np.ndarray
    S: int

    def problem(self, model: dict, **options: object) -> Problem:
        return chain(self.tokens.shape[2], self.S, **model, **options)

    def inputs(self) -> ChainInput:
        return chain_inputs(self.tokens, self.length)

    def sparse_inputs(self) -> ChainInput:
        """Every feature listed, and a column of padding."""
        n, T, d = self.tokens.shape
        indices = np.tile(np.arange(d + 1, dtype=np.int32), (n, T, 1))
        indices[np.arange(T) >= self.length[:, None]] = d
        values = np.pad(self.tokens, ((0, 0), (0, 0), (0, 1)))
        return chain_inputs(SparseFeatures(indices, values), self.length)

    def in_buckets(self) -> tuple[Buckets, Buckets]:
        """Sequences of at most two tokens in a bucket of their own, without their padding."""
        short = self.length <= 2
        index = np.flatnonzero(short), np.flatnonzero(~short)
        ends = 2, self.y.shape[1]
        pairs = list(zip(index, ends, strict=True))
        x = tuple(chain_inputs(self.tokens[own, :end], self.length[own]) for own, end in pairs)
        return Buckets(x, index), Buckets(tuple(self.y[own, :end] for own, end in pairs), index)

    def outputs(self, i: int, constraints: Constraints | None = None) -> np.ndarray:
        """[k, T] the label sequences of example i that are allowed."""
        every = all_labelings(self.S, int(self.length[i]), self.y.shape[1])
        return every if constraints is None else every[allowed(constraints, every)]

    def psi(self, model: dict, i: int, outputs: np.ndarray) -> np.ndarray:
        """[k, D] joint features of example i, in the order in which jax flattens the weights."""
        return np.stack([joint(model, self.S, self.tokens[i], y) for y in outputs])


def random_sequences(seed: int, n: int, T: int, d: int, S: int, shortest: int = 1) -> Sequences:
    """Gaussian tokens; lengths run through shortest..T."""
    random = np.random.default_rng([seed, n, T, d, S])
    length = shortest + np.arange(n) % (T + 1 - shortest)
    real = np.arange(T) < length[:, None]
    tokens = np.where(real[:, :, None], random.normal(size=(n, T, d)), 0)
    y = np.where(real, random.integers(0, S, (n, T)), -1).astype(np.int32)
    return Sequences(tokens, length.astype(np.int32), y, S)


def joint(model: dict, S: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Psi(x, y) as one vector: counts of the parts, (4.21) and 4.4.1."""
    length, d, eta = int(np.sum(y >= 0)), x.shape[1], model["eta"]
    parts = {"emissions": np.zeros((d, S)), "transitions": np.zeros((S, S))}
    if model.get("start_stop"):
        parts |= {"start": np.zeros(S), "stop": np.zeros(S)}
    if model.get("order") == 2:
        parts["triples"] = np.zeros((S, S, S))
    if model.get("pair_features"):
        parts["pairs"] = np.zeros((d, S * S))
    for t in range(length):
        parts["emissions"][:, y[t]] += x[t]
        if t + 1 < length:
            parts["transitions"][y[t], y[t + 1]] += eta
            if "pairs" in parts:
                parts["pairs"][:, y[t] * S + y[t + 1]] += x[t]
        if t + 2 < length and "triples" in parts:
            parts["triples"][y[t], y[t + 1], y[t + 2]] += eta
    if length and "start" in parts:
        parts["start"][y[0]] += 1
        parts["stop"][y[length - 1]] += 1
    return flat(parts)


def allowed(constraints: Constraints, labels: np.ndarray) -> np.ndarray:
    """[k] bool: which label sequences [k, T] the constraints allow."""

    def good(y: np.ndarray) -> bool:
        y = y[y >= 0]
        if not y.size:
            return True
        pairs = any(constraints.transitions[a, b] for a, b in itertools.pairwise(y))
        return not (pairs or constraints.start[y[0]] or constraints.stop[y[-1]])

    return np.array([good(y) for y in labels], bool)


def flat(tree: object) -> np.ndarray:
    """A pytree of weights as one float64 vector."""
    return np.concatenate([np.ravel(np.asarray(leaf, float)) for leaf in jax.tree.leaves(tree)])


def like(vector: np.ndarray, tree: object) -> object:
    """A vector in the shape of the weights."""
    leaves, structure = jax.tree.flatten(tree)
    ends = np.cumsum([leaf.size for leaf in leaves])[:-1]
    parts = zip(np.split(vector, ends), leaves, strict=True)
    return jax.tree.unflatten(structure, [part.reshape(leaf.shape) for part, leaf in parts])
