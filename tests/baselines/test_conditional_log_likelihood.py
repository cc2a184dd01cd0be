"""Log-linear grammars against enumeration of all trees and scipy's optimum."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct import Status
from jaxstruct.baselines.conditional_random_field import fit_random_field
from jaxstruct.chains.structure import chain
from jaxstruct.core.buckets import Buckets
from jaxstruct.trees.structure import grammar_potentials, weighted_grammar
from tests.baselines.enumeration import Enumerated
from tests.baselines.sequences import like
from tests.lib.refusals import refused
from tests.trees import structure_cases as cases

SEED, N = 0, 10


@pytest.fixture(scope="module")
def truth():
    """Of each sentence, Psi of the true tree and [A, d] of all trees."""
    x, y = cases.examples(SEED)
    return Enumerated.of(
        (
            cases.psi(SEED, row, cases.row_of(y, row)),
            np.stack([cases.psi(SEED, row, tree) for tree in cases.all_trees(SEED, row)]),
        )
        for row in range(len(x.length))
    )


def summed(problem, weights, x, y):
    theta = jax.vmap(problem.model.potentials, (None, 0))(weights, x)
    return jnp.sum(jax.vmap(lambda theta, y: problem.inference.log_loss(theta, y))(theta, y))


sloped = jax.jit(jax.value_and_grad(summed, 1))


def test_there_is_something_to_choose(truth):
    assert len(truth.true) == N
    assert sum(len(every) > 1 for every in truth.every) >= 5


@pytest.mark.parametrize(
    ("dtype", "scale", "close", "close_slope"),
    [
        ("float64", 0.3, 1e-12, 1e-10),
        ("float64", 3.0, 1e-12, 1e-10),
        pytest.param("float32", 1.0, 1e-5, 1e-4, marks=pytest.mark.thorough),
    ],
)
def test_value_and_gradient_are_those_of_all_trees(truth, dtype, scale, close, close_slope):
    with jax.enable_x64(dtype == "float64"):
        problem = weighted_grammar(cases.grammar(SEED), dtype=dtype)
        w = scale * np.random.default_rng(1).normal(size=truth.true.shape[1])
        weights = like(w, problem.initial_weights)
        found, slope = sloped(problem, weights, *cases.examples(SEED))
    value, gradient = truth.likelihood(w)
    np.testing.assert_allclose(found, value, rtol=close)
    np.testing.assert_allclose(cases.flat(slope), gradient, rtol=close_slope, atol=close)


@pytest.mark.thorough
def test_training_finds_the_optimum_whole_and_in_buckets(x64, truth):
    problem, C = weighted_grammar(cases.grammar(SEED), dtype="float64"), 20.0
    x, y = cases.examples(SEED)
    w, objective = truth.optimum(C)
    index = (np.arange(0, N, 2), np.arange(1, N, 2))
    halves = [Buckets(tuple(jax.tree.map(lambda leaf, i=i: leaf[i], part) for i in index), index)
              for part in (x, y)]  # fmt: skip
    for inputs, outputs in ((x, y), halves):
        found = fit_random_field(problem, inputs, outputs, C, tolerance=1e-8)
        assert found.status is Status.CONVERGED
        np.testing.assert_allclose(found.objective, objective, rtol=1e-10)
        np.testing.assert_allclose(cases.flat(found.weights), w, atol=1e-5)


def test_problems_of_another_kind_are_refused():
    problem = chain(2, 3)
    refused("weighted_grammar", grammar_potentials, problem, None)
