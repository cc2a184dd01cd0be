"""Hidden Markov models and logistic regression as factor graphs, instances of the slides.

Marginals, argmax and likelihood are those of `chains` and of the formula, to 1e-6 and better;
random fields on chains are those of `test_inference`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.machines.hidden_markov import HiddenMarkov, fit_hidden_markov, sentence_potentials
from jaxstruct.chains.oracles import sums as chain_sums
from jaxstruct.chains.oracles.decoding import viterbi
from jaxstruct.graphs.elimination import Elimination, elimination
from jaxstruct.graphs.factors import factor_graph
from jaxstruct.graphs.oracles import variable_elimination as exact
from jaxstruct.graphs.potentials import GraphPotentials
from tests.graphs.random_graphs import padded, quick_jit, stacked_plans

CLOSE = 1e-6
N, S, SYMBOLS = 40, 3, 5
pytestmark = pytest.mark.usefixtures("x64")


ROOM = (16, 16, SYMBOLS + 1)
"""Nodes, edges and labels that all factor graphs are padded to: one program."""


@quick_jit
@jax.vmap
def by_elimination(graph: GraphPotentials, plan: Elimination) -> tuple:
    """(marginals, best labelling)."""
    return exact.marginals(graph, plan), exact.best_labelling(graph, plan)


def exact_of(graphs: list[GraphPotentials]) -> tuple:
    """(marginals, best labellings) of graphs of any sizes, by elimination."""
    batch = jax.tree.map(lambda *leaves: np.stack(leaves), *(padded(g, *ROOM) for g in graphs))
    plans = [elimination(len(one.nodes), one.edges, 1) for one in graphs]
    return jax.device_get(by_elimination(batch, stacked_plans(plans, *ROOM[:2])))


def sentences(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(symbols [N, 7], labels [N, 7], -1 on padding, lengths from 1 to 7)."""
    rng = np.random.default_rng(seed)
    length = rng.integers(1, 8, N)
    real = np.arange(7) < length[:, None]
    y = np.where(real, rng.integers(0, S, (N, 7)), -1)
    x = np.where(real, (y + rng.integers(0, 3, (N, 7))) % SYMBOLS, -1)
    return x.astype(np.int32), y.astype(np.int32), length


def hidden_markov_factors(model: HiddenMarkov, symbols: np.ndarray) -> GraphPotentials:
    """Nodes 0..T-1 are the hidden labels, T..2T-1 the symbols, observed: P(x, y) factor by factor.

    Edges (t, T + t) hold log P(x | y), evidence cuts the symbols down to the ones seen.
    """
    T = len(symbols)
    factors = [((0,), model.start), ((T - 1,), model.stop)]
    factors += [((t, t + 1), model.transitions) for t in range(T - 1)]
    factors += [((t, T + t), model.emissions) for t in range(T)]
    for t, seen in enumerate(symbols):
        evidence = np.where(np.arange(SYMBOLS + 1) == seen, 0.0, -np.inf)
        factors.append(((T + t,), evidence))
    sizes = [S] * T + [SYMBOLS + 1] * T
    return factor_graph(sizes, factors, dtype="float64").potentials


def test_a_hidden_markov_model() -> None:
    symbols, labels, length = sentences(0)
    model = fit_hidden_markov(symbols, labels, SYMBOLS, S, dtype="float64")
    graphs = [hidden_markov_factors(model, x[:T]) for x, T in zip(symbols, length, strict=True)]
    found, best = exact_of(graphs)

    def by_chain(x: jax.Array) -> tuple:
        potentials, T = sentence_potentials(model, x), jnp.sum(x >= 0)
        return chain_sums.marginals(potentials, T), viterbi(potentials, T)

    wanted, path = jax.device_get(quick_jit(jax.vmap(by_chain))(symbols))
    np.testing.assert_allclose(found.log_partition, wanted.log_partition, atol=CLOSE)  # log P(x)
    np.testing.assert_allclose(best.score, path.score, atol=CLOSE)
    for i, T in enumerate(length):
        np.testing.assert_allclose(found.nodes[i, :T, :S], wanted.labels[i, :T], atol=CLOSE)
        np.testing.assert_array_equal(best.labels[i, :T], path.labels[i, :T])
        np.testing.assert_array_equal(best.labels[i, T : 2 * T], symbols[i, :T])
        between = {tuple(edge): e for e, edge in enumerate(graphs[i].edges)}
        for t in range(T - 1):
            pair = found.pairs[i, between[t, t + 1], :S, :S]
            np.testing.assert_allclose(pair, wanted.pairs[i, t], atol=CLOSE)


def test_logistic_regression() -> None:
    """P(y | x) = exp(<u_y, x>) / Z: a table psi_j(y) = u_jy x_j for each feature of one node."""
    rng = np.random.default_rng(4)
    u, x = rng.normal(size=(4, S)), rng.normal(size=(N, 4))
    graphs = [
        factor_graph([S], [((0,), u[j] * row[j]) for j in range(4)], dtype="float64").potentials
        for row in x
    ]
    found, best = exact_of(graphs)
    scores = x @ u
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.nodes[:, 0, :S], p, atol=CLOSE)
    np.testing.assert_array_equal(best.labels[:, 0], p.argmax(axis=1))
    np.testing.assert_allclose(best.score - found.log_partition, np.log(p.max(axis=1)), atol=CLOSE)
