"""Probabilities, samples and losses of every structure against the list of all of its outputs."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy.stats import chi2

import jaxstruct as js
from tests.confidence.cases import LOG_LINEAR, case, one, parts, ranked
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after

NUMBER, T = 400, 0.7
SAMPLED = ("classes", "candidates", "chain", "graph", "sets", "own")
"""Trees and alignments draw as the tests of their oracles say."""
every_structure = pytest.mark.parametrize("name", LOG_LINEAR)


def listed(name):
    """(case, all outputs as k_best returns them, p [n, K] at temperature T, log Z [n])."""
    given, found = case(name), ranked(name)
    scores = found.scores.astype(float) / T
    log_z = np.logaddexp.reduce(scores, axis=1)
    return given, found, np.exp(scores - log_z[:, None]), log_z


@every_structure
def test_marginals_are_sums_over_all_outputs(name) -> None:
    given, best, p, log_z = listed(name)
    call = given.problem, given.weights, given.inputs
    found = js.confidence.marginals(*call, temperature=T)
    np.testing.assert_allclose(found.log_partition, log_z, rtol=1e-5, atol=2e-5)
    leaves = jax.tree.leaves(
        found.probabilities, is_leaf=lambda node: type(node) is tuple or isinstance(node, js.Ragged)
    )
    for i, own in enumerate(best.mask.sum(axis=1)):
        like = [np.asarray(leaf[i]) for leaf in leaves]
        used = [parts(name, given, best.outputs[j], i, like) for j in range(own)]
        for place, share in enumerate(like):
            wanted = sum(p[i, j] * one_use[place] for j, one_use in enumerate(used))
            np.testing.assert_allclose(share, wanted, atol=2e-5)


@pytest.mark.parametrize("name", thorough_after(3, SAMPLED))
def test_samples_and_losses_have_the_probabilities_of_all_outputs(name) -> None:
    """Pearson's statistic over all inputs."""
    given, best, p, log_z = listed(name)
    call = given.problem, given.weights, given.inputs
    drawn = js.confidence.sample(*call, jax.random.key(3), NUMBER, temperature=T)
    assert len(drawn) == NUMBER
    statistic, freedom = 0.0, 0
    for i, own in enumerate(best.mask.sum(axis=1)):
        places = {one(best.outputs[j], i): j for j in range(own)}
        counts = np.bincount([places[one(y, i)] for y in drawn], minlength=own)
        expected = NUMBER * p[i, :own]
        common = expected >= 5
        statistic += np.sum((counts - expected)[common] ** 2 / expected[common])
        freedom += max(common.sum() - 1, 0)
    assert freedom >= 3 and 1e-4 < chi2.sf(statistic, freedom)


@pytest.mark.parametrize("name", [*LOG_LINEAR])
def test_losses_are_those_of_the_outputs(name) -> None:
    given, best, p, _ = listed(name)
    call = given.problem, given.weights, given.inputs
    losses = js.confidence.log_losses(*call, best.outputs[0], temperature=T)
    np.testing.assert_allclose(losses, -np.log(p[:, 0]), atol=3e-5)


def test_draws_do_not_depend_on_the_batch() -> None:
    given = case("classes")
    call = given.problem, given.weights, given.inputs, jax.random.key(0), 5
    one, other = js.confidence.sample(*call), js.confidence.sample(*call, batch=2)
    np.testing.assert_array_equal(one, other)


def test_machines_of_margins_need_a_temperature() -> None:
    """Marginals of a max-margin solution without one are refused; weights alone are taken."""
    given = case("classes")
    solution, field = (
        record(given.weights, *[None] * (len(record._fields) - 1))
        for record in (js.Solution, js.baselines.RandomField)
    )
    call = given.problem, solution, given.inputs
    for function in (
        js.confidence.marginals,
        lambda *a: js.confidence.sample(*a, jax.random.key(0)),
    ):
        refused("temperature is None, but weights are a Solution, wh", function, *call)
    for wrong in (0.0, -1, "warm", np.nan):
        with refused("temperature must be a positive number or what fit"):
            js.confidence.marginals(*call, temperature=wrong)
    taken = js.confidence.marginals(*call, temperature=1.0)
    plain = js.confidence.marginals(given.problem, solution.weights, given.inputs)
    np.testing.assert_array_equal(taken.probabilities, plain.probabilities)
    assert js.confidence.marginals(given.problem, field, given.inputs).probabilities.shape == (5, 3)


def test_padded_inputs_give_arrays_with_zeros_on_padding() -> None:
    given = case("chain")
    every = np.arange(5)
    features = given.inputs.features.padded(every, 4)
    padded = js.chains.chain_inputs(features, given.inputs.length)
    ragged = js.confidence.marginals(given.problem, given.weights, given.inputs)
    found = js.confidence.marginals(given.problem, given.weights, padded)
    assert found.probabilities.shape == (5, 4, 2)
    np.testing.assert_allclose(
        found.probabilities, ragged.probabilities.padded(every, 4, 0), atol=1e-6
    )
