"""Small random label sequences with every output and its joint feature written down in numpy."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from jaxstruct import Problem
from jaxstruct.chains.structure import ChainInput, chain, chain_inputs
from jaxstruct.core.buckets import Buckets
from tests.chains import structure_cases
from tests.chains.oracles.truth import all_labelings

PLAIN = structure_cases.PLAIN._asdict()


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

    def in_buckets(self) -> tuple[Buckets, Buckets]:
        """Sequences of at most two tokens in a bucket of their own, without their padding."""
        short = self.length <= 2
        index = np.flatnonzero(short), np.flatnonzero(~short)
        ends = 2, self.y.shape[1]
        pairs = list(zip(index, ends, strict=True))
        x = tuple(chain_inputs(self.tokens[own, :end], self.length[own]) for own, end in pairs)
        return Buckets(x, index), Buckets(tuple(self.y[own, :end] for own, end in pairs), index)

    def outputs(self, i: int) -> np.ndarray:
        """[k, T] the label sequences of example i."""
        return all_labelings(self.S, int(self.length[i]), self.y.shape[1])

    def psi(self, model: dict, i: int, outputs: np.ndarray) -> np.ndarray:
        """[k, D] joint features of example i, in the order in which jax flattens the weights."""
        own, x = structure_cases.Model(**model), self.tokens[i]
        return np.stack([structure_cases.flat_psi(own, self.S, x, y) for y in outputs])


def random_sequences(seed: int, n: int, T: int, d: int, S: int, shortest: int = 1) -> Sequences:
    """Gaussian tokens; lengths run through shortest..T."""
    random = np.random.default_rng([seed, n, T, d, S])
    length = shortest + np.arange(n) % (T + 1 - shortest)
    real = np.arange(T) < length[:, None]
    tokens = np.where(real[:, :, None], random.normal(size=(n, T, d)), 0)
    y = np.where(real, random.integers(0, S, (n, T)), -1).astype(np.int32)
    return Sequences(tokens, length.astype(np.int32), y, S)


def flat(tree: object) -> np.ndarray:
    """A pytree of weights as one float64 vector."""
    return np.concatenate([np.ravel(np.asarray(leaf, float)) for leaf in jax.tree.leaves(tree)])


def like(vector: np.ndarray, tree: object) -> object:
    """A vector in the shape of the weights."""
    leaves, structure = jax.tree.flatten(tree)
    ends = np.cumsum([leaf.size for leaf in leaves])[:-1]
    parts = zip(np.split(vector, ends), leaves, strict=True)
    return jax.tree.unflatten(structure, [part.reshape(leaf.shape) for part, leaf in parts])
