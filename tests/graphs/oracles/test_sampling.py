"""Samples of labellings against their enumerated probabilities."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct.graphs.oracles.k_best import sample_labelling, sample_of_all
from tests.graphs.oracles.test_variable_elimination import planned
from tests.graphs.random_graphs import listed, quick_jit
from tests.lib.enumeration import check_samples

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
    check_samples(listed(given, which), drawn)


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
