"""Log-linear grammars against enumeration of all trees and scipy's optimum."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from jaxstruct import Status
from jaxstruct.baselines.conditional_random_field import fit_random_field
from jaxstruct.chains.structure import chain
from jaxstruct.core.buckets import Buckets
from jaxstruct.trees.structure import grammar_potentials, weighted_grammar
from tests.lib.refusals import refused
from tests.trees import structure_cases as cases

SEED, N = 0, 10


@pytest.fixture(scope="module")
def features():
    """Of each sentence, Psi of the true tree and [A, d] of all trees."""
    x, y = cases.examples(SEED)
    return [
        (
            cases.psi(SEED, row, cases.row_of(y, row)),
            np.stack([cases.psi(SEED, row, tree) for tree in cases.all_trees(SEED, row)]),
        )
        for row in range(len(x.length))
    ]


def enumerated(features, w):
    """(sum of -log P, its gradient) with every tree written down."""
    value, gradient = 0.0, np.zeros_like(w)
    for true, every in features:
        log_z = logsumexp(every @ w)
        value += log_z - true @ w
        gradient += np.exp(every @ w - log_z) @ every - true
    return value, gradient


def weights_of(problem, flat):
    """Weights with these numbers, in the order of `grammar_cases.psi`."""
    shapes = problem.initial_weights
    cuts = np.cumsum([shapes[name].size for name in sorted(shapes)])[:-1]
    parts = zip(sorted(shapes), np.split(flat, cuts), strict=True)
    return {name: part.astype(shapes[name].dtype) for name, part in parts}


def summed(problem, weights, x, y):
    theta = jax.vmap(problem.model.potentials, (None, 0))(weights, x)
    return jnp.sum(jax.vmap(lambda theta, y: problem.inference.log_loss(theta, y))(theta, y))


sloped = jax.jit(jax.value_and_grad(summed, 1))


def test_there_is_something_to_choose(features):
    assert len(features) == N
    assert sum(len(every) > 1 for _, every in features) >= 5


@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_value_and_gradient_are_those_of_all_trees(x64, features, scale):
    problem = weighted_grammar(cases.grammar(SEED), dtype="float64")
    x, y = cases.examples(SEED)
    size = features[0][0].size
    flat = scale * np.random.default_rng(1).normal(size=size)
    value, gradient = enumerated(features, flat)
    found, slope = sloped(problem, weights_of(problem, flat), x, y)
    np.testing.assert_allclose(found, value, rtol=1e-12)
    np.testing.assert_allclose(cases.flat(slope), gradient, rtol=1e-10, atol=1e-12)


@pytest.mark.thorough
def test_float32(features):
    problem = weighted_grammar(cases.grammar(SEED))
    x, y = cases.examples(SEED)
    flat = np.random.default_rng(1).normal(size=features[0][0].size)
    value, gradient = enumerated(features, flat)
    found, slope = sloped(problem, weights_of(problem, flat), x, y)
    np.testing.assert_allclose(found, value, rtol=1e-5)
    np.testing.assert_allclose(cases.flat(slope), gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.thorough
def test_training_finds_the_optimum_whole_and_in_buckets(x64, features):
    problem, C = weighted_grammar(cases.grammar(SEED), dtype="float64"), 20.0
    x, y = cases.examples(SEED)

    def objective(w):
        value, gradient = enumerated(features, w)
        return w @ w / 2 + C / N * value, w + C / N * gradient

    best = minimize(objective, np.zeros(features[0][0].size), jac=True, tol=1e-12)
    index = (np.arange(0, N, 2), np.arange(1, N, 2))
    halves = [Buckets(tuple(jax.tree.map(lambda leaf, i=i: leaf[i], part) for i in index), index)
              for part in (x, y)]  # fmt: skip
    for inputs, outputs in ((x, y), halves):
        found = fit_random_field(problem, inputs, outputs, C, tolerance=1e-8)
        assert found.status is Status.CONVERGED
        np.testing.assert_allclose(found.objective, best.fun, rtol=1e-10)
        np.testing.assert_allclose(cases.flat(found.weights), best.x, atol=1e-5)


def test_problems_of_another_kind_are_refused():
    problem = chain(2, 3)
    refused("weighted_grammar", grammar_potentials, problem, None)
