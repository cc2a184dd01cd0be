"""The smoothed hinge against every output of small examples; where it does not apply."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq

import jaxstruct as js
from jaxstruct.losses.hinges import smoothed_hinge
from jaxstruct.strings.structure import CandidateScores
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after
from tests.losses.cases import Truth, answers, case, softmax_truth

pytestmark = pytest.mark.usefixtures("x64")
MU = 0.7


def simplex(values: np.ndarray) -> np.ndarray:
    """The probabilities nearest to values [k], by bisection on what is taken off all."""
    low, high = values.max() - 1, values.max()
    taken = brentq(lambda t: np.maximum(values - t, 0).sum() - 1, low - 1e-9, high, xtol=1e-14)
    return np.maximum(values - taken, 0)


def top_k_truth(own: Truth, k: int) -> tuple[np.ndarray, np.ndarray]:
    """([B] values, [B, P] gradients) with the k best outputs of every example."""
    values, slopes = [], []
    for s, psi, true in zip(own.delta + own.advantage, own.psi, own.true, strict=True):
        order = [j for j in np.argsort(-s, kind="stable")[:k] if np.isfinite(s[j])]
        p = simplex(s[order] / MU)
        values.append(p @ s[order] + MU / 2 * (1 - p @ p))
        slopes.append(p @ psi[order] - true)
    return np.array(values), np.array(slopes)


@pytest.mark.parametrize("output_type", thorough_after(2, ["classes", "chains", "trees", "graphs"]))
def test_entropy_is_that_of_all_outputs(output_type: str) -> None:
    own, value, gradient = answers(partial(smoothed_hinge, temperature=MU), output_type)
    wanted, slope = softmax_truth(own, (own.delta + own.advantage) / MU)
    np.testing.assert_allclose(value, MU * wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(gradient, slope, rtol=0, atol=1e-9)
    hinge = np.maximum((own.delta + own.advantage).max(axis=1), 0)
    count = np.isfinite(own.advantage).sum(axis=1)
    assert (value >= hinge - 1e-9).all() and (value <= hinge + MU * np.log(count) + 1e-9).all()


@pytest.mark.parametrize("output_type", thorough_after(2, ["classes", "chains", "trees"]))
def test_top_k_is_the_projection_of_the_best_scores(output_type: str) -> None:
    """Where the k-th best ties with the next one, the value is compared, but not the gradient."""
    k = 3
    loss = partial(smoothed_hinge, smoothing="top_k", temperature=MU, k=k)
    own, value, gradient = answers(loss, output_type)
    wanted, slope = top_k_truth(own, k)
    np.testing.assert_allclose(value, wanted, rtol=1e-9, atol=1e-9)
    s = -np.sort(-(own.delta + own.advantage), axis=1)
    smooth = np.ones(len(s), bool) if s.shape[1] <= k else ~(s[:, k - 1] <= s[:, k] + 1e-9)
    smooth |= ~np.isfinite(s[:, min(k, s.shape[1] - 1)])
    assert smooth.sum() >= 5
    np.testing.assert_allclose(gradient[smooth], slope[smooth], rtol=0, atol=1e-9)
    hinge = np.maximum(s[:, 0], 0)
    assert (value >= hinge - 1e-9).all() and (value <= hinge + MU / 2 + 1e-9).all()


def test_all_outputs_are_enough() -> None:
    """With as many outputs as there are, classes have the exact projection."""
    loss = partial(smoothed_hinge, smoothing="top_k", temperature=MU, k=50)
    own, value, gradient = answers(loss, "classes")
    wanted, slope = top_k_truth(own, 50)
    np.testing.assert_allclose(value, wanted, rtol=1e-9)
    np.testing.assert_allclose(gradient, slope, rtol=0, atol=1e-9)


def test_candidate_lists_have_both() -> None:
    """Scores 1 and -2, the second is true, the third is padding: s = 1 + 1 + 2 and 0."""
    problem = js.strings.candidates(2, dtype="float64")
    theta = CandidateScores(jnp.array([1.0, -2.0, 9.0]), jnp.array([4, 7, -1]))
    whole = partial(smoothed_hinge, problem, theta, jnp.int32(7))
    of = jax.jit(whole, static_argnums=(0, 1))
    np.testing.assert_allclose(of("entropy"), np.log1p(np.exp(4.0)), rtol=1e-12)
    np.testing.assert_allclose(of("top_k"), 4.0, rtol=1e-12)
    np.testing.assert_allclose(of("top_k", 8.0), 0.75 * 4 + 4 * 0.375, rtol=1e-12)


def test_what_does_not_apply_is_refused_in_one_line() -> None:
    def of_first(output_type: str, **options: object) -> jax.Array:
        given = case(output_type)
        theta, y = jax.tree.map(lambda leaf: leaf[0], (given.theta, given.y))
        return smoothed_hinge(given.problem, theta, y, **options)

    refused("problem has no softmax_margin: give make_problem", of_first, "alignments")
    refused("smoothing is .l1.; choose one of", of_first, "classes", smoothing="l1")
    refused("temperature", of_first, "classes", temperature=0.0)
    refused("k", of_first, "classes", smoothing="top_k", k=0)
    given = case("chains", loss="zero_one")
    theta, y = jax.tree.map(lambda leaf: leaf[4], (given.theta, given.y))
    refused("loss of the chain does not add up", smoothed_hinge, given.problem, theta, y)
