"""Thousands of small random graphs of one padded shape, every labelling scored in numpy."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from typing import NamedTuple

import jax
import numpy as np

from jaxstruct.core.sizes import size_class
from jaxstruct.graphs.elimination import Elimination
from jaxstruct.graphs.factors import graph_potentials
from jaxstruct.graphs.potentials import PADDING, GraphPotentials, complete_edges, grid_edges
from tests.lib.enumeration import Listed, with_garbage
from tests.lib.thorough import repeats

KINDS = ("tree", "cycle", "complete", "any", "apart", "grid")
"""`any` has isolated nodes now and then, `apart` no edges at all, `grid` is 3 x 3 with 2 labels."""
quick_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
"""For programs that run once: compiling them takes longer than running them."""


def tree_edges(parents: np.ndarray) -> np.ndarray:
    """[E, 2] (parent, child) of every node but roots, whose parent is -1."""
    children = np.flatnonzero(parents >= 0)
    return np.stack([parents[children], children], axis=1)


def random_edges(rng: np.random.Generator, kind: str) -> tuple[int, np.ndarray]:
    """(V, edges) of one graph, its nodes in random order and its edges turned at random."""
    V = 9 if kind == "grid" else int(rng.integers(1, 7))
    edges = complete_edges(V)
    if kind == "tree":
        edges = tree_edges(np.array([-1, *(int(rng.integers(-1, i)) for i in range(1, V))]))
    elif kind == "cycle":
        edges = np.stack([np.arange(V), (np.arange(V) + 1) % V], axis=1)[: V if V > 2 else V - 1]
    elif kind == "any":
        edges = edges[rng.random(len(edges)) < 0.4]
    elif kind == "apart":
        edges = edges[:0]
    elif kind == "grid":
        edges = np.concatenate(grid_edges(3, 3))
    edges = rng.permutation(V)[edges].reshape(-1, 2)
    return V, np.where(rng.random(len(edges))[:, None] < 0.5, edges[:, ::-1], edges)


def random_potentials(rng: np.random.Generator, kind: str) -> GraphPotentials:
    """One graph; a third has integers (many ties), a fifth some labels and pairs forbidden."""
    V, edges = random_edges(rng, kind)
    S = 2 if kind == "grid" else int(rng.integers(1, 4))
    while True:
        nodes = rng.normal(size=(V, S))
        pairs = rng.choice([0.0, 0.3, 1.0, 3.0]) * rng.normal(size=(len(edges), S, S))
        if rng.random() < 0.3:
            nodes, pairs = np.round(nodes), np.round(pairs)
        if rng.random() < 0.1:
            nodes, pairs = 0 * nodes, 0 * pairs
        if rng.random() < 0.2:
            nodes[rng.random(nodes.shape) < 0.2] = -np.inf
            pairs[rng.random(pairs.shape) < 0.1] = -np.inf
        try:
            return graph_potentials(nodes, edges, pairs, dtype="float64")
        except ValueError as error:
            assert "leave no output" in str(error)


def every_labelling(V: int, S: int) -> np.ndarray:
    """[S^V, V] in lexicographic order."""
    return np.array(list(itertools.product(range(S), repeat=V)), np.int32).reshape(-1, V)


def scores_of(graph: GraphPotentials, labels: np.ndarray) -> np.ndarray:
    """[k] F of labellings [k, V]."""
    scores = graph.nodes[np.arange(labels.shape[1]), labels].sum(axis=1)
    for (a, b), table in zip(graph.edges, graph.pairs, strict=True):
        scores = scores + table[labels[:, a], labels[:, b]]
    return scores


class Case(NamedTuple):
    """A graph, its kind and the scores of all its labellings."""

    graph: GraphPotentials
    kind: str
    labels: np.ndarray
    scores: np.ndarray

    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        """([V, S], [E, S, S]) probabilities."""
        p = np.exp(self.scores - np.logaddexp.reduce(self.scores))
        hot = np.eye(self.graph.nodes.shape[1])[self.labels]
        first, second = (hot[:, self.graph.edges[:, side]] for side in (0, 1))
        nodes = np.einsum("k,kvs->vs", p, hot)
        return nodes, np.einsum("kes,ket->est", p[:, None, None] * first, second)


class Cases(NamedTuple):
    """Some graphs, and what is true of them.

    Fields:
      batch: padded to one shape, float64. best: [n] max F. log_partition: [n].
    """

    cases: tuple[Case, ...]
    batch: GraphPotentials
    best: np.ndarray
    log_partition: np.ndarray

    @property
    def kinds(self) -> np.ndarray:
        """[n] the kind of each."""
        return np.array([case.kind for case in self.cases])

    def cast(self, dtype: str) -> GraphPotentials:
        """The batch in a dtype."""
        nodes, pairs = (leaf.astype(dtype) for leaf in (self.batch.nodes, self.batch.pairs))
        return self.batch._replace(nodes=nodes, pairs=pairs)

    def take(self, which: np.ndarray) -> GraphPotentials:
        """Some of the batch."""
        return jax.tree.map(lambda leaf: leaf[which], self.batch)

    def check_labels(self, labels: np.ndarray, wanted: np.ndarray, tolerance: float) -> None:
        """Labels [n, V] are of the right form, and their scores are those wanted [n]."""
        labels, wanted = np.asarray(labels), np.asarray(wanted, float)
        nodes, edges, pairs, V, E, _ = self.batch
        real = np.arange(labels.shape[1]) < V[:, None]
        assert labels.dtype == np.int32 and len(wanted) == len(self.cases)
        assert (labels[~real] == -1).all() and (labels[real] >= 0).all()
        sizes = np.array([case.graph.nodes.shape[1] for case in self.cases])
        allowed = wanted > -np.inf
        assert (labels < sizes[:, None])[allowed].all()
        rows = np.arange(len(labels))[:, None]
        own = np.where(real, nodes[rows, np.arange(labels.shape[1]), labels], 0)
        ends = np.maximum(edges, 0)
        tables = pairs[rows, np.arange(edges.shape[1]), labels[rows, ends[..., 0]],
                       labels[rows, ends[..., 1]]]  # fmt: skip
        shared = np.where(np.arange(edges.shape[1]) < E[:, None], tables, 0)
        found = own.astype(float).sum(axis=1) + shared.astype(float).sum(axis=1)
        np.testing.assert_allclose(found[allowed], wanted[allowed], rtol=tolerance, atol=tolerance)

    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        """([n, V, S], [n, E, S, S]) probabilities, 0 on padding."""
        nodes, pairs = np.zeros(self.batch.nodes.shape), np.zeros(self.batch.pairs.shape)
        for i, case in enumerate(self.cases):
            (V, S), E = case.graph.nodes.shape, len(case.graph.edges)
            if self.best[i] > -np.inf:
                nodes[i, :V, :S], pairs[i, :E, :S, :S] = case.marginals()
        return nodes, pairs

    def check_sums(
        self, nodes: np.ndarray, pairs: np.ndarray, which: np.ndarray, tolerance: float
    ) -> None:
        """Of graphs `which`, tables [E, S, S] of edges sum up to the rows [V, S] of their ends."""
        nodes, pairs, (_, edges, _, _, E, _) = nodes[which], pairs[which], self.take(which)
        rows, real = np.arange(len(edges))[:, None], np.arange(edges.shape[1]) < E[:, None]
        assert real.any()
        for side, axis in ((0, 3), (1, 2)):
            ends = nodes[rows, np.maximum(edges[..., side], 0)]
            np.testing.assert_allclose(pairs.sum(axis=axis)[real], ends[real], atol=tolerance)


def listed(given: Cases, which: Iterable[int] | None = None) -> Listed:
    """The labellings of some of the graphs, padded as the batch is."""
    chosen = [given.cases[i] for i in (range(len(given.cases)) if which is None else which)]
    V = given.batch.nodes.shape[1]
    labels = [case.labels for case in chosen]
    padded = [np.pad(own, ((0, 0), (0, V - own.shape[1])), constant_values=-1) for own in labels]
    return Listed(padded, [case.scores for case in chosen], np.zeros(len(chosen), bool))


@functools.cache
def cases(count: int = len(repeats(200, 80)), seed: int = 0) -> Cases:
    """`count` graphs of each kind; V is padded to 12, E to 16."""
    rng, found = np.random.default_rng(seed), []
    for kind in KINDS:
        for _ in range(count):
            graph = random_potentials(rng, kind)
            labels = every_labelling(*graph.nodes.shape)
            found.append(Case(graph, kind, labels, scores_of(graph, labels)))
    best = np.array([case.scores.max() for case in found])
    log_partition = np.array([np.logaddexp.reduce(case.scores) for case in found])
    batch = stacked([case.graph for case in found])
    assert batch.nodes.shape[1:] == (12, 3) and batch.pairs.shape[1:] == (16, 3, 3)
    return Cases(tuple(found), batch, best, log_partition)


def padded(graph: GraphPotentials, nodes: int, edges: int, labels: int) -> GraphPotentials:
    """The same graph in more room that has garbage, one table an edge; labels to come are
    forbidden."""
    table, ends, pairs, V, E, kinds = graph
    V, E, S = int(V), int(E), np.shape(table)[1]
    pairs = np.asarray(pairs) if kinds is None else np.asarray(pairs)[np.asarray(kinds)]
    wide = [(0, 0), (0, labels - S)]
    table = np.pad(np.asarray(table)[:V], wide, constant_values=-np.inf)
    pairs = np.pad(pairs[:E], [*wide, (0, labels - S)], constant_values=-np.inf)
    more = [(0, edges - E), (0, 0)]
    ends = np.pad(np.asarray(ends)[:E], more, constant_values=PADDING)
    table, pairs = np.pad(table, [(0, nodes - V), (0, 0)]), np.pad(pairs, [*more, (0, 0)])
    table = with_garbage(table, (np.arange(nodes) < V)[:, None])
    pairs = with_garbage(pairs, (np.arange(edges) < E)[:, None, None])
    return GraphPotentials(table, ends, pairs, np.int32(V), np.int32(E))


def stacked(graphs):
    """A batch of graphs of any sizes, padded to common size classes."""
    V = size_class(max(int(one.number_of_nodes) for one in graphs))
    E = size_class(max(int(one.number_of_edges) for one in graphs))
    S = max(np.shape(one.nodes)[1] for one in graphs)
    rows = [padded(one, V, E, S) for one in graphs]
    return rows[0]._replace(
        **{name: np.stack([getattr(row, name) for row in rows]) for name in rows[0]._fields[:5]}
    )


def stacked_plans(plans, nodes, edges):
    """A batch of plans of one width, padded to V nodes and E edges."""

    def rows(leaves, size):
        return np.stack([np.pad(leaf, [(0, size - len(leaf)), (0, 0)]) for leaf in leaves])

    return Elimination(
        rows([plan.steps for plan in plans], nodes), rows([plan.edges for plan in plans], edges)
    )
