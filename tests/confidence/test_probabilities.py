"""Probabilities, samples, losses and temperatures against the list of all outputs."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import chi2

import jaxstruct as js
from tests.confidence.cases import LOG_LINEAR, NUMBER, case, one, parts, ranked
from tests.lib.enumeration import pearson
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after

T = 0.7
SAMPLED = ("classes", "candidates", "chain", "graph", "sets", "own")
"""Trees and alignments draw as the tests of their oracles say."""


def listed(name):
    """(case, all outputs as k_best returns them, p [n, K] at temperature T, log Z [n])."""
    given, found = case(name), ranked(name)
    scores = found.scores.astype(float) / T
    log_z = np.logaddexp.reduce(scores, axis=1)
    return given, found, np.exp(scores - log_z[:, None]), log_z


@pytest.mark.parametrize("name", LOG_LINEAR)
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
        own_statistic, degrees = pearson(counts, NUMBER * p[i, :own])
        statistic, freedom = statistic + own_statistic, freedom + degrees
    assert freedom >= 3 and 1e-4 < chi2.sf(statistic, freedom)


@pytest.mark.parametrize("name", LOG_LINEAR)
def test_losses_are_those_of_the_outputs(name) -> None:
    given, best, p, _ = listed(name)
    call = given.problem, given.weights, given.inputs
    losses = js.confidence.log_losses(*call, best.outputs[0], temperature=T)
    np.testing.assert_allclose(losses, -np.log(p[:, 0]), atol=3e-5)


def test_draws_do_not_depend_on_the_batch() -> None:
    given = case("classes")
    call = given.problem, given.weights, given.inputs, jax.random.key(0), NUMBER
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
    features = given.inputs.features.padded(every, 8)  # to what `marginals` pads
    padded = js.chains.chain_inputs(features, given.inputs.length)
    ragged = js.confidence.marginals(given.problem, given.weights, given.inputs)
    found = js.confidence.marginals(given.problem, given.weights, padded)
    assert found.probabilities.shape == (5, 8, 2)
    np.testing.assert_allclose(
        found.probabilities, ragged.probabilities.padded(every, 8, 0), atol=1e-6
    )


@pytest.mark.parametrize("name", ["classes", "chain"])
def test_it_minimises_the_held_out_log_loss(name) -> None:
    """On outputs that were drawn at another temperature, with the loss before and after."""
    given = case(name)
    scale = {"chain": 3.0}.get(name, 0.5)
    sharp = jax.tree.map(lambda leaf: scale * leaf, given.weights)
    n = len(jax.tree.leaves(given.inputs)[0])
    few, call = 3, (given.problem, given.weights, given.inputs)
    drawn = js.confidence.sample(*call, jax.random.key(5), NUMBER)[:few]
    which = np.tile(np.arange(n), few)
    inputs = jax.tree.map(
        lambda leaf: leaf.take(which) if isinstance(leaf, js.Ragged) else np.asarray(leaf)[which],
        given.inputs,
    )
    outputs = jax.tree.map(_joined, *drawn)
    found = js.confidence.fit_temperature(given.problem, sharp, inputs, outputs)
    best = ranked(name)  # in the order of F, whatever its scale
    F, K = scale * best.scores.astype(float), best.scores.shape[1]
    own = np.array([
        [F[i, next(j for j in range(K) if one(best.outputs[j], i) == one(y, i))] for i in range(n)]
        for y in drawn
    ])  # fmt: skip

    def loss(log_t: float) -> float:
        b = np.exp(-log_t)
        return float(np.mean(np.logaddexp.reduce(b * F, axis=1)[None] - b * own))

    wanted = minimize_scalar(loss, bounds=(-6, 6), method="bounded", options={"xatol": 1e-9})
    assert found.value == pytest.approx(np.exp(wanted.x), rel=2e-3)
    assert found.log_loss == pytest.approx(wanted.fun, abs=2e-5)
    assert found.log_loss_before == pytest.approx(loss(0), abs=2e-5)
    assert found.log_loss <= found.log_loss_before + 1e-6
    assert abs(found.slope) < 1e-2 and 2 <= found.evaluations <= 30
    losses = js.confidence.log_losses(given.problem, sharp, inputs, outputs, temperature=found)
    assert losses.mean() == pytest.approx(found.log_loss, abs=2e-5)


def _joined(*leaves):
    """Outputs of several draws one after the other."""
    if isinstance(leaves[0], js.Ragged):
        return js.ragged([row for leaf in leaves for row in leaf], leaves[0].fill)
    return np.concatenate(leaves)


def test_held_out_examples_without_a_best_temperature_are_refused() -> None:
    """All outputs right: T falls to 0; outputs that score least: T rises for ever."""
    given = case("classes")
    best = ranked("classes")
    call = given.problem, given.weights, given.inputs
    with refused("every held-out output is the best by a margin: give mo"):
        js.confidence.fit_temperature(*call, best.outputs[0])
    with refused("no better than the mean of all outputs: the weights s"):
        js.confidence.fit_temperature(*call, best.outputs[2])
