"""Small random label sequences, and their joint features written down in numpy."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jax.tree_util import Partial

from jaxstruct import Problem, kernels
from jaxstruct.chains.structure import ChainInput, Constraints, chain, chain_inputs
from jaxstruct.chains.token_features import KernelTokens
from jaxstruct.core.types import SparseFeatures

quick_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
"""For programs that run once: compiling them takes longer than running them."""
POLYNOMIAL = kernels.polynomial(c=1.0, degree=2)


class Model(NamedTuple):
    """The options of `chain` that change Psi."""

    order: int = 1
    start_stop: bool = False
    pair_features: bool = False
    eta: float = 0.7

    @property
    def name(self) -> str:
        return f"order{self.order}{'-ends' * self.start_stop}{'-pairs' * self.pair_features}"


PLAIN, RICH = Model(), Model(2, True, True)


class Sequences(NamedTuple):
    """n sequences whose tokens are drawn from a pool, so that some are equal.

    Fields:
      pool: [m, d] float64. places: [n, T] the member of the pool that each token is, -1 on padding.
      length: [n]. y: [n, T] int32 labels, -1 on padding. S: how many labels there are.
    """

    pool: np.ndarray
    places: np.ndarray
    length: np.ndarray
    y: np.ndarray
    S: int

    @property
    def tokens(self) -> np.ndarray:
        """[n, T, d], zeros on padding."""
        return np.where(self.places[:, :, None] >= 0, self.pool[self.places], 0)

    def features(self, way: str) -> np.ndarray:
        """[n, T, D] Phi(x^t) written down: degree-2 monomials for the kernel."""
        if way != "kernel":
            return self.tokens
        return np.where(self.places[:, :, None] >= 0, monomials(self.tokens), 0)

    def inputs(self, way: str) -> ChainInput:
        """The same as `chain` takes them."""
        if way == "dense":
            return chain_inputs(self.tokens, self.length)
        if way == "sparse":
            return chain_inputs(sparse_tokens(self.tokens), self.length)
        return kernel_token_inputs(POLYNOMIAL, self.tokens, self.length, self.pool, self.places)

    def problem(self, model: Model, way: str = "dense", **options: object) -> Problem:
        """`chain` in float64 unless given otherwise."""
        size = len(self.pool) if way == "kernel" else self.pool.shape[1]
        return chain(size, self.S, **model._asdict(), **{"dtype": "float64"} | options)


def kernel_token_inputs(
    kernel: Partial, tokens: np.ndarray, length: np.ndarray, anchors: np.ndarray, places: np.ndarray
) -> ChainInput:
    """Sequences [n, T, d] by their kernel values; places: of each token among the anchors [m, d],
    m where it is none, -1 on padding."""
    (n, T, d), m = tokens.shape, len(anchors)
    real = places >= 0
    rows = np.asarray(kernels.gram_matrix(kernel, tokens.reshape(-1, d), anchors))
    rows = np.where(real[:, :, None], rows.reshape(n, T, m), 0)
    own = np.array([kernels.gram_matrix(kernel, one, one) for one in tokens])
    gram = np.where(real[:, :, None] & real[:, None], own, 0)
    features = KernelTokens(rows, np.where(real, places, m).astype(np.int32))
    return chain_inputs(features, length, gram)


def monomials(x: np.ndarray) -> np.ndarray:
    """Phi with <Phi(a), Phi(b)> = (1 + <a, b>)^2, along the last axis."""
    ones = np.ones((*x.shape[:-1], 1))
    squares = (x[..., :, None] * x[..., None, :]).reshape(*x.shape[:-1], -1)
    return np.concatenate([ones, np.sqrt(2) * x, squares], axis=-1)


def sparse_tokens(tokens: np.ndarray) -> SparseFeatures:
    """The non-zero features of dense tokens [n, T, d], one column of padding at least."""
    n, T, d = tokens.shape
    width = int((tokens != 0).sum(axis=2).max(initial=0)) + 1
    indices, values = np.full((n, T, width), d, np.int32), np.zeros((n, T, width))
    for i, t in np.ndindex(n, T):
        found = np.flatnonzero(tokens[i, t])
        indices[i, t, : len(found)] = found
        values[i, t, : len(found)] = tokens[i, t, found]
    return SparseFeatures(indices, values)


def random_sequences(
    seed: int, n: int, T: int, d: int, S: int, *, shortest: int = 1, pool: int = 7
) -> Sequences:
    """Gaussian tokens with holes; lengths run through shortest..T."""
    random = np.random.default_rng([seed, n, T, d, S])
    members = random.normal(size=(pool, d)) * (random.random((pool, d)) < 0.7)
    length = shortest + np.arange(n) % (T + 1 - shortest)
    real = np.arange(T) < length[:, None]
    places = np.where(real, random.integers(0, pool, (n, T)), -1).astype(np.int32)
    y = np.where(real, random.integers(0, S, (n, T)), -1).astype(np.int32)
    return Sequences(members, places, length.astype(np.int32), y, S)


def psi(model: Model, S: int, x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """Psi(x, y) of (4.21) and of the extensions of 4.4.1, tensor product by tensor product.

    Args:
      x: [T, D] explicit features. y: [T] labels, -1 on padding.
    """
    x, unit = x[y >= 0], np.eye(S)[y[y >= 0]]
    parts = {
        "emissions": np.einsum("td,ts->ds", x, unit),
        "transitions": model.eta * np.einsum("ta,tb->ab", unit[:-1], unit[1:]),
    }
    if model.start_stop:
        parts["start"], parts["stop"] = unit[:1].sum(axis=0), unit[-1:].sum(axis=0)
    if model.order == 2:
        triples = np.einsum("ta,tb,tc->abc", unit[:-2], unit[1:-1], unit[2:])
        parts["triples"] = model.eta * triples
    if model.pair_features:
        pairs = np.einsum("td,ta,tb->dab", x[:-1], unit[:-1], unit[1:])
        parts["pairs"] = pairs.reshape(x.shape[1], S * S)
    return parts


def flat_psi(model: Model, S: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Psi as one vector, in the order in which jax flattens the weights."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(psi(model, S, x, y))])


def iob_constraints(S: int) -> Constraints:
    """As IOB2 has them: the last label only after one of the last two, and never first.

    One label more is barred at the end, so that `stop` has something to do.
    """
    transitions = np.zeros((S, S), bool)
    transitions[: S - 2, S - 1] = True
    start, stop = np.zeros(S, bool), np.zeros(S, bool)
    start[S - 1] = stop[0] = True
    return Constraints(transitions, start, stop)


def allowed(constraints: Constraints | None, labels: np.ndarray) -> np.ndarray:
    """[N] bool: which label sequences [N, T] the constraints allow."""
    good = np.ones(len(labels), bool)
    if constraints is None:
        return good
    for i, y in enumerate(labels):
        y = y[y >= 0]
        if y.size:
            good[i] = not (
                constraints.start[y[0]]
                or constraints.stop[y[-1]]
                or any(constraints.transitions[a, b] for a, b in itertools.pairwise(y))
            )
    return good


@quick_jit
def evaluated(problem, w, x, planes, c):
    """Every hook on a batch."""
    y = planes[:, 0]
    theta = jax.vmap(problem.model.potentials, (None, 0))(w, x)
    u = jax.vmap(problem.space.combine)(theta, planes, c)
    return {
        "scores": jax.vmap(jax.vmap(problem.model.score, (None, 0)))(theta, planes),
        "decode": jax.vmap(problem.model.decode)(theta),
        "plane_scores": jax.vmap(problem.space.plane_scores)(theta, planes),
        "combine": u,
        "add": problem.space.add(w, x, u),
        "gram_action": jax.vmap(problem.space.gram_action)(x, u),
        "plane_values": problem.space.plane_values(w, x, planes),
        "add_planes": problem.space.add_planes(w, x, planes, c),
        "plane_gram": jax.vmap(problem.space.plane_gram)(x, y, planes, planes[:, 1]),
        "plane_norms": jax.vmap(problem.space.plane_norms)(x, y, planes),
    }


def differences(planes):
    """Values up to a constant an example."""
    return planes - planes[:, :1]


def check_hooks(
    found: dict, psi: np.ndarray, v: np.ndarray, c: np.ndarray, explicit: Callable, atol: float
) -> None:
    """What `evaluated` found, against Psi [n, K, D] of the planes, the true one first.

    Args:
      v: [D] w in the space of Psi. explicit: weights -> the same of them.
    """
    delta, close = psi[:, :1] - psi, dict(rtol=0, atol=atol)
    for name in ("scores", "plane_scores"):
        np.testing.assert_allclose(found[name], psi @ v, **close)
    values = np.asarray(found["plane_values"])
    np.testing.assert_allclose(differences(values), differences(psi @ v), **close)
    moved = v + np.einsum("nk,nkd->d", c, psi)
    for name in ("add", "add_planes"):
        np.testing.assert_allclose(explicit(found[name]), moved, **close)
    gram = np.einsum("nkd,nd->nk", delta, delta[:, 1])
    np.testing.assert_allclose(found["plane_gram"], gram, **close)
    np.testing.assert_allclose(found["plane_norms"], (delta**2).sum(axis=2), **close)
    assert np.abs(gram).max() > 1 and np.abs(values).max() > 1


@quick_jit
def by_differences(problem, w, x, planes, index, c):
    """(values, moved weights, where planes differ) by the parts at which they do."""
    own = problem.space.differences
    apart, v = own.find(planes), own.unpack(w, x)
    moved = own.add(v, x, apart, index, c)
    return own.values(v, x, apart, index), own.pack(moved, x), apart
