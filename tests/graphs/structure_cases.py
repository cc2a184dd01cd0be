"""Small random graphs to label, and their joint features written down in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

import jaxstruct as js
from jaxstruct.core.types import SparseFeatures
from jaxstruct.graphs.inputs import GraphInput, graph_inputs
from jaxstruct.graphs.structure import graph_labelling
from tests.graphs.random_graphs import every_labelling, random_edges
from tests.truth.quadratic_program import solve_primal

COSTS = np.array([[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
"""Asymmetric; nodes of label 2 are left out."""


Loss: TypeAlias = str | np.ndarray | Callable[[int, np.ndarray], np.ndarray]
"""A name, costs [S, S], or (i, every labelling [k, V]) -> Delta(y_i, .) [k]."""


class Options(NamedTuple):
    """What changes Psi: edge features p, kinds K, symmetric tables."""

    p: int = 2
    K: int = 1
    symmetric: bool = False


class Graphs(NamedTuple):
    """n labelled graphs, lists of arrays.

    Fields:
      nodes: [V, d]. edges: [E, 2]. edge_features: [E, p]. kinds: [E]. y: [V]. S: labels.
    """

    nodes: list[np.ndarray]
    edges: list[np.ndarray]
    edge_features: list[np.ndarray]
    kinds: list[np.ndarray]
    y: list[np.ndarray]
    S: int
    options: Options

    def inputs(self, plans: bool = False, sparse: bool = False) -> GraphInput:
        """As `graph_labelling` takes them."""
        p, K, _ = self.options
        return graph_inputs(
            sparse_rows(self.nodes) if sparse else self.nodes,
            self.edges,
            edge_features=None if not p else self.edge_features,
            kinds=self.kinds if K > 1 else None,
            plans=plans,
        )

    @property
    def outputs(self) -> js.Ragged:
        """As a store."""
        return js.ragged([y.astype(np.int32) for y in self.y])

    def problem(self, **options: object) -> js.Problem:
        """`graph_labelling` in float64 unless given otherwise."""
        p, K, symmetric = self.options
        return graph_labelling(
            self.nodes[0].shape[1],
            self.S,
            number_of_edge_features=p,
            edge_kinds=K,
            symmetric=symmetric,
            **{"dtype": "float64"} | options,
        )

    def psi(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """([k, V] every labelling of graph i, [k, D] its Psi as the weights are laid out)."""
        labels, hot = every_labelling(len(self.nodes[i]), self.S), np.eye(self.S)
        ends = (labels[:, self.edges[i][:, side]] for side in (0, 1))
        first, second = (hot[own] for own in ends)
        return labels, self.psi_of(i, hot[labels], first[..., :, None] * second[..., None, :])

    def psi_of(self, i: int, nodes: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        """[k, D] Psi of marginals [k, V, S] and [k, E, S, S] of graph i, linear in both."""
        (p, K, symmetric), k = self.options, len(nodes)
        if symmetric:
            pairs = (pairs + np.swapaxes(pairs, 2, 3)) / 2
        of_nodes = np.einsum("vd,kvs->kds", self.nodes[i], nodes)
        of_edges = np.einsum("ep,kest->kpst", self.edge_features[i][:, :p], pairs)
        kinds = self.kinds[i][:, None] == np.arange(K)
        of_kinds = np.einsum("eq,kest->kqst", kinds.astype(float), pairs)
        parts = [of_edges] * bool(p) + [of_nodes] + [of_kinds] * bool(K)  # in order of the names
        return np.concatenate([part.reshape(k, -1) for part in parts], axis=1)

    def losses(self, i: int, loss: Loss) -> np.ndarray:
        """[k] Delta(y_i, .)."""
        labels = every_labelling(len(self.nodes[i]), self.S)
        if callable(loss):
            return loss(i, labels)
        if not isinstance(loss, str):
            return loss[self.y[i][None], labels].sum(axis=1)
        wrong = (labels != self.y[i]).sum(axis=1)
        scale = {"hamming": wrong, "zero_one": wrong > 0,
                 "normalised_hamming": wrong / len(self.nodes[i])}  # fmt: skip
        return np.asarray(scale[loss], float)

    def place(self, i: int) -> int:
        """Where the true output stands among all labellings."""
        labels = every_labelling(len(self.nodes[i]), self.S)
        return int(np.flatnonzero((labels == self.y[i]).all(axis=1))[0])

    def enumerated(self, loss: Loss) -> Written:
        """All labellings as `tests.truth` takes them."""
        rows = [(self.psi(i)[1], self.losses(i, loss)) for i in range(len(self.y))]
        return filled_up(rows, [self.place(i) for i in range(len(self.y))])


class Written(NamedTuple):
    """A training problem with every constraint: see `tests.truth.formulations`."""

    features: np.ndarray
    losses: np.ndarray
    truths: list[int]


def filled_up(rows: list[tuple[np.ndarray, np.ndarray]], truths: list[int]) -> Written:
    """Examples of fewer outputs repeat one of them that is not the true one."""
    most, features, losses = max(len(psi) for psi, _ in rows), [], []
    for (psi, costs), place in zip(rows, truths, strict=True):
        other = (place + 1) % len(psi)
        fill = np.r_[np.arange(len(psi)), np.full(most - len(psi), other)]
        features.append(psi[fill])
        losses.append(costs[fill])
    return Written(np.stack(features), np.stack(losses), truths)


def check_optimum(data: tuple, formulation: str, C: float, written: Written | tuple) -> None:
    """`fit` converges to the optimum of an independent solver; full steps would take minutes."""
    settings = js.Settings(variant="subspace")
    found = js.fit(*data, formulation, C, tolerance=1e-6, max_passes=3000, settings=settings)
    assert found.status is js.Status.CONVERGED, found.message
    objective = solve_primal(formulation, *written, C).objective
    np.testing.assert_allclose([found.primal, found.dual], objective, rtol=2e-6)


def flat(weights: dict[str, np.ndarray]) -> np.ndarray:
    """The weights in the order of their names."""
    return np.concatenate([np.asarray(weights[name]).ravel() for name in sorted(weights)])


def sparse_rows(rows: list[np.ndarray]) -> SparseFeatures:
    """The non-zero features of dense rows."""
    d = rows[0].shape[1]
    indices = [np.where(one != 0, np.arange(d, dtype=np.int32), d) for one in rows]
    return SparseFeatures(js.ragged(indices, d), js.ragged(rows))


PLAIN = Options()
MOST = 4
"""Nodes of a graph: the independent solver has every labelling as a constraint."""


def random_graphs(
    seed: int, n: int, kind: str, options: Options = PLAIN, *, d: int = 2, S: int = 2
) -> Graphs:  # fmt: skip
    """Gaussian features with holes; labels of a random machine with noise."""
    rng = np.random.default_rng(seed)
    found = Graphs([], [], [], [], [], S, options)
    for _ in range(n):
        V, edges = random_edges(rng, kind)
        while V > MOST:
            V, edges = random_edges(rng, kind)
        x = rng.normal(size=(V, d)) * (rng.random((V, d)) < 0.8)
        found.nodes.append(x.round(2))
        found.edges.append(edges.astype(np.int32))
        found.edge_features.append(rng.normal(size=(len(edges), max(options.p, 1))).round(2))
        found.kinds.append(rng.integers(0, max(options.K, 1), len(edges)))
        found.y.append(np.zeros(V, np.int32))
    w = rng.normal(size=found.psi(0)[1].shape[1])
    for i in range(n):
        labels, psi = found.psi(i)
        found.y[i] = labels[np.argmax(psi @ w + 0.7 * rng.gumbel(size=len(psi)))]
    return found
