"""Samples of labellings against their enumerated probabilities."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy.stats import chi2

from jaxstruct.graphs.oracles.sampling import sample_labelling, sample_of_all
from tests.graphs.oracles.test_variable_elimination import planned
from tests.graphs.random_graphs import quick_jit

DRAWS, GRAPHS = 400, 60
pytestmark = pytest.mark.usefixtures("x64")


def test_labellings_have_their_probabilities() -> None:
    """Pearson's statistic over all labellings of graphs of every kind."""
    given, plans = planned()
    which = np.random.default_rng(0).permutation(len(given.cases))[:GRAPHS]
    graphs, plans = given.take(which), jax.tree.map(lambda leaf: leaf[which], plans)
    keys = jax.random.split(jax.random.key(1), (GRAPHS, DRAWS))
    many = jax.vmap(sample_labelling, (None, None, 0))
    drawn = np.asarray(quick_jit(jax.vmap(many))(graphs, plans, keys))
    statistic, freedom = 0.0, 0
    for i, labels in zip(which, drawn, strict=True):
        case = given.cases[i]
        V, S = case.graph.nodes.shape
        if not (case.scores > -np.inf).any():
            continue
        assert (labels[:, V:] == -1).all()
        numbers = labels[:, :V] @ S ** np.arange(V - 1, -1, -1)
        seen = np.bincount(numbers, minlength=len(case.scores))
        p = np.exp(case.scores - case.scores.max())
        expected = DRAWS * p / p.sum()
        assert (seen[p == 0] == 0).all(), "a forbidden labelling"
        common = expected >= 5
        statistic += np.sum((seen - expected)[common] ** 2 / expected[common])
        freedom += max(common.sum() - 1, 0)
    assert freedom > 100
    assert 1e-4 < chi2.sf(statistic, freedom) < 1 - 1e-4


def test_by_enumeration() -> None:
    given, _ = planned()
    i = int(np.argmax(given.kinds == "cycle"))
    case = given.cases[i]
    keys = jax.random.split(jax.random.key(0), 4 * DRAWS)
    draw = quick_jit(jax.vmap(sample_of_all, (None, 0)))
    labels = np.asarray(draw(case.graph, keys))
    V, S = case.graph.nodes.shape
    seen = np.bincount(labels @ S ** np.arange(V - 1, -1, -1), minlength=len(case.scores))
    p = np.exp(case.scores - np.logaddexp.reduce(case.scores))
    assert np.abs(seen / len(keys) - p).max() < 0.03
