"""SPO+ by `fit`: the certified optimum beside a quadratic program with all decisions."""

from __future__ import annotations

import numpy as np
import pytest

import jaxstruct as js
from tests.decisions.cases import cases
from tests.lib.refusals import refused
from tests.truth.quadratic_program import solve_primal

P = 3


def examples(name, sense, shared, seed=0):
    """(the set, inputs, outputs, all decisions [n, K, d] of each example, the best one first)."""
    decisions, instances, listed = cases(sense)[name]
    random, d = np.random.default_rng(seed), decisions.size.value
    x = random.normal(size=(6, d, P) if shared else (6, P))
    costs = random.normal(size=(6, d))
    y = js.decisions.decide(decisions, costs, instances)
    most = max(map(len, listed))
    every = np.stack([np.vstack([own, *[own[:1]] * (most - len(own))]) for own in listed])
    inputs = js.decisions.DecisionInput(x, instances)
    return decisions, inputs, js.Truth(y, costs), every


def optimum(inputs, outputs, every, s, C):
    """By `solve_primal`; decisions that stand twice are one constraint twice."""
    x, (y, costs) = np.asarray(inputs.features), outputs
    losses = s * np.einsum("nd,nkd->nk", costs, y[:, None] - every)
    same = (every == y[:, None]).all(axis=2)
    truths = same.argmax(axis=1)
    losses = np.where(same, 0, np.maximum(losses, 0))
    features = (
        np.einsum("nkd,ndp->nkp", every, x)
        if x.ndim == 3
        else np.einsum("nkd,np->nkpd", every, x).reshape(*every.shape[:2], -1)
    )
    return solve_primal("svm1_margin", 2 * s * features, losses, truths, C)


@pytest.mark.thorough
def test_the_certified_optimum_is_that_of_the_quadratic_program(x64):
    """Of shared weights, minimised, with instances; `test_a_set_whose_best_...` maximises with
    weights of each coordinate."""
    del x64
    decisions, inputs, outputs, every = examples("open", "minimise", True)
    problem = js.decisions.problem(decisions, P, shared=True, dtype="float64")
    for C in (0.5, 20.0):
        solution = js.fit(problem, inputs, outputs, C=C, tolerance=1e-7)
        right = optimum(inputs, outputs, every, -1, C)
        assert solution.status is js.Status.CONVERGED
        assert solution.primal == pytest.approx(right.objective, rel=1e-7)
        weights = np.asarray(solution.weights["weights"])
        np.testing.assert_allclose(weights, right.w, atol=1e-4 * np.linalg.norm(right.w))
    found = js.predict(problem, solution, inputs)
    predicted = inputs.features @ weights
    assert np.array_equal(found, js.decisions.decide(decisions, predicted, inputs.instance))


def bounded_best(theta, hundredths):
    y = cases("maximise")["top_k"][0].best(theta, ())
    return js.Bounded(y, theta @ y.astype(theta.dtype) + hundredths / 100)


@pytest.mark.parametrize("above", [0.0, 0.05])
def test_a_set_whose_best_is_known_up_to_a_bound(above, x64):
    del x64
    _, inputs, outputs, every = examples("top_k", "maximise", False)
    inputs = inputs._replace(instance=np.full(6, round(100 * above)))  # both by one program
    decisions = js.decisions.own(6, bounded_best, "maximise", lambda given, n: None, bounded=True)
    found = js.decisions.decide(decisions, outputs.numbers, inputs.instance)
    assert np.array_equal(found, outputs.output)
    problem = js.decisions.problem(decisions, P, dtype="float64")
    settings = js.Settings(variant="subspace")
    solution = js.fit(problem, inputs, outputs, C=20.0, tolerance=1e-5, settings=settings)
    right = optimum(inputs, outputs, every, 1, 20.0).objective
    assert solution.dual * (1 - 1e-9) <= right <= solution.primal * (1 + 1e-9)
    assert solution.primal == pytest.approx(right + 20 * above, rel=2e-5)
    assert solution.status is (js.Status.INEXACT_ORACLE if above else js.Status.CONVERGED)


def test_what_does_not_fit_is_refused():
    decisions, inputs, outputs, _ = examples("open", "minimise", False)
    problem = js.decisions.problem(decisions, P)
    worst = js.decisions.decide(decisions, -outputs.numbers, inputs.instance)
    worse = outputs._replace(output=worst)
    refused("a best decision of its costs.*decide finds one", js.fit, problem, inputs, worse)
    refused("Truth", js.fit, problem, inputs, outputs.output)
    refused("outputs.numbers must be", js.fit, problem, inputs,
            outputs._replace(numbers=outputs.numbers[:, :3]))  # fmt: skip
    refused("inputs must be a DecisionInput", js.fit, problem, np.ones((6, P)), outputs)
    refused("inputs.features must be", js.fit, problem, inputs._replace(features=np.ones((6, 5))),
            outputs)  # fmt: skip
    ends = inputs.instance._replace(target=np.array([4, 3, 4, 2, 2, 0]))
    refused(r"instances.target\[5\] is 0", js.fit, problem, inputs._replace(instance=ends), outputs)
    refused("svm2_margin needs", js.fit, problem, inputs, outputs, "svm2_margin")
    refused("shared must be", js.decisions.problem, decisions, 3, shared="no")
    refused("number_of_features", js.decisions.problem, decisions, 0)
