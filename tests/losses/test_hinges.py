"""The hinges, log loss, the perceptron's and the perturbed loss, against every output."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import pytest
from scipy.optimize import brentq

import jaxstruct as js
from jaxstruct.assignments.potentials import MatchingTheta
from jaxstruct.graphs import with_log_loss
from jaxstruct.losses.hinges import NAMES, smoothed_hinge, structured_hinge
from jaxstruct.losses.one_call import log_loss, perceptron, perturbed
from jaxstruct.strings.structure import CandidateScores
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after
from tests.losses.cases import (
    B,
    Truth,
    answers,
    assert_among,
    assert_slopes,
    case,
    differentiated,
    flat,
    hinge_truth,
    softmax_truth,
    truth,
)

pytestmark = pytest.mark.usefixtures("x64")
RUNS = [("graphs", "svm1_margin"), *(("classes", name) for name in NAMES), ("chains", "svm2_slack")]


@pytest.mark.parametrize(("output_type", "name"), thorough_after(2, RUNS))
def test_values_and_gradients_are_those_of_enumeration(output_type: str, name: str) -> None:
    """Of chains and graphs under remat, which changes nothing."""
    loss = partial(structured_hinge, formulation=name)
    loss = loss if output_type == "classes" else jax.checkpoint(loss)
    own, value, slope = answers(loss, output_type)
    root = np.sqrt(own.delta) if name.startswith("svm2") else own.delta
    b = np.ones_like(root) if name in ("svm1", "svm2") else root
    s = root if name.endswith("slack") else np.ones_like(root)
    slack, values = hinge_truth(own, b, s)
    squared = name.startswith("svm2")
    np.testing.assert_allclose(value, slack**2 / 2 if squared else slack, rtol=1e-9, atol=1e-9)
    assert (slack > 0).sum() >= 4
    best = (values >= slack[:, None] - 1e-9) | (slack == 0)[:, None]
    factor = np.where(slack > 0, slack if squared else 1, 0)[:, None] * s
    assert_among(slope, own, best, factor)


def test_an_inexact_oracle_has_a_subgradient_up_to_what_it_misses() -> None:
    """Labels found by local search: below the true hinge, and so is the plane everywhere."""
    given, own = (of("graphs", inference="modes") for of in (case, truth))
    value, gradient = differentiated(structured_hinge, given.problem)(given.theta, given.y)
    value, gradient = np.asarray(value), flat(gradient)
    slack, _ = hinge_truth(own, own.delta, np.ones_like(own.delta))
    assert (value <= slack + 1e-9).all() and (value > 0).sum() >= 4
    here, random = flat(given.theta), np.random.default_rng(0)
    for size in (0.1, 1.0, 10.0):
        there = here + size * random.normal(size=here.shape)
        moved = own._replace(
            advantage=np.where(
                np.isfinite(own.advantage),
                np.einsum("bkp,bp->bk", own.psi - own.true[:, None], there), -np.inf,
            )
        )  # fmt: skip
        elsewhere, _ = hinge_truth(moved, own.delta, np.ones_like(own.delta))
        plane = value + np.einsum("bp,bp->b", gradient, there - here)
        assert (elsewhere >= plane - 1e-9).all()


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


TOP_K = [("classes", 3), ("classes", 50), ("trees", 3)]
"""Of four classes 50 are all of them."""


@pytest.mark.parametrize(("output_type", "k"), thorough_after(2, TOP_K))
def test_top_k_is_the_projection_of_the_best_scores(output_type: str, k: int) -> None:
    """Where the k-th best ties with the next one, the value is compared, but not the gradient."""
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


@pytest.mark.smoke
def test_candidate_lists_have_all() -> None:
    """Scores 1 and -2, the second is true, the third is padding: s = 1 + 1 + 2 and 0."""
    problem = js.strings.candidates(2, dtype="float64")
    theta = CandidateScores(np.array([1.0, -2.0, 9.0]), np.array([4, 7, -1]))
    whole = partial(smoothed_hinge, problem, theta, np.int32(7))
    of = jax.jit(whole, static_argnums=(0, 1))
    np.testing.assert_allclose(of("entropy"), np.log1p(np.exp(4.0)), rtol=1e-12)
    np.testing.assert_allclose(of("top_k"), 4.0, rtol=1e-12)
    np.testing.assert_allclose(of("top_k", 8.0), 0.75 * 4 + 4 * 0.375, rtol=1e-12)
    found = jax.jit(partial(log_loss, problem))(theta, np.int32(7))
    np.testing.assert_allclose(found, np.log1p(np.exp(3.0)), rtol=1e-12)


def test_what_does_not_apply_is_refused_in_one_line() -> None:
    def of_first(output_type: str, **options: object) -> jax.Array:
        given = case(output_type)
        theta, y = jax.tree.map(lambda leaf: np.asarray(leaf)[0], (given.theta, given.y))
        return smoothed_hinge(given.problem, theta, y, **options)

    refused("smoothing is .l1.; choose one of", of_first, "classes", smoothing="l1")
    refused("temperature", of_first, "classes", temperature=0.0)
    refused("k", of_first, "classes", smoothing="top_k", k=0)
    given = case("chains", loss="zero_one")
    theta, y = jax.tree.map(lambda leaf: np.asarray(leaf)[4], (given.theta, given.y))
    refused("loss of the chain does not add up", smoothed_hinge, given.problem, theta, y)


@pytest.mark.parametrize("output_type", ["classes", "chains"])
def test_the_perceptron_is_that_of_enumeration(output_type: str) -> None:
    own, value, slope = answers(perceptron, output_type)
    excess = own.advantage.max(axis=1)
    assert (excess >= 0).all() and (excess > 0).sum() >= 3
    np.testing.assert_allclose(value, excess, rtol=1e-9, atol=1e-9)
    best = own.advantage >= excess[:, None] - 1e-9
    assert_among(slope, own, best, np.ones_like(own.delta) * (excess > 0)[:, None])


def keys() -> jax.Array:
    return jax.random.split(jax.random.key(3), B)


@pytest.mark.parametrize("output_type", ["classes", "chains"])
def test_the_gradient_is_that_of_the_mean_for_a_key(output_type: str) -> None:
    given = case(output_type)
    loss = partial(perturbed, samples=3, scale=0.5)
    run = differentiated(loss, given.problem, key=keys())
    value, _ = run(given.theta, given.y)
    assert (np.asarray(value) >= 0).all() and np.asarray(value).max() > 0.5
    assert_slopes(run, given)


def test_classes_have_the_log_loss_in_the_mean() -> None:
    given, own = case("classes"), truth("classes")
    value, gradient = differentiated(partial(perturbed, samples=20_000), given.problem, key=keys())(
        given.theta, given.y
    )
    wanted, slope = softmax_truth(own, own.advantage)
    np.testing.assert_allclose(value, wanted, rtol=0, atol=0.05)
    np.testing.assert_allclose(flat(gradient), slope, rtol=0, atol=0.02)


def test_outputs_of_more_potentials_are_not_preferred() -> None:
    """Of two items matched, or of both alone: one noisy potential or two, all of mean 0."""
    both = js.assignments.assignment(1, unmatched=True, dtype="float64")
    theta = MatchingTheta(
        np.zeros((1, 1)), np.ones((1, 1), bool), *np.zeros((2, 1)), np.ones(2, int)
    )
    run = jax.jit(partial(perturbed, both, theta, key=jax.random.key(0), samples=4000))
    matched, alone = (float(run(y=np.array([y], np.int32))) for y in (0, -1))
    assert abs(matched - alone) < 0.15 and matched > 0.5


def test_another_key_is_another_sample() -> None:
    given = case("classes")
    of = jax.jit(partial(perturbed, given.problem, np.asarray(given.theta)[1], given.y[1]))
    one, again, other = (float(of(jax.random.key(seed))) for seed in (0, 0, 1))
    assert one == again != other
    assert float(of(jax.random.PRNGKey(0))) > 0  # keys of the old kind, too


def test_what_no_perturbed_loss_takes() -> None:
    given = case("classes")
    of = partial(perturbed, given.problem, np.asarray(given.theta)[1], given.y[1])
    key = jax.random.key(0)
    refused("key must be ONE key", of, 0)
    refused("use jax.vmap", lambda: of(jax.random.split(key, 3)))
    refused("samples", of, key, samples=0)
    refused("scale", of, key, scale=-1.0)


@pytest.mark.parametrize("output_type", ["classes", "chains"])
def test_log_losses_are_those_of_enumeration(output_type: str) -> None:
    own, value, gradient = answers(log_loss, output_type)
    wanted, slope = softmax_truth(own, own.advantage)
    np.testing.assert_allclose(value, wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(gradient, slope, rtol=0, atol=1e-9)


def test_an_approximation_takes_its_place() -> None:
    given = case("graphs")
    run = differentiated(log_loss, with_log_loss(given.problem, "pseudo"))
    value, _ = run(given.theta, given.y)
    own = truth("graphs")
    exact, _ = softmax_truth(own, own.advantage)
    assert np.abs(np.asarray(value) - exact).max() > 0.1
    assert_slopes(run, given)


def test_structures_without_one_are_refused_in_one_line() -> None:
    given = case("classes")
    theta, y = jax.tree.map(lambda leaf: np.asarray(leaf)[0], (given.theta, given.y))
    bare = given.problem._replace(inference=js.Inference())
    refused("problem has no log_loss: give make_problem", log_loss, bare, theta, y)
    refused("problem has no softmax_margin: give make_problem", smoothed_hinge, bare, theta, y)
    given = case("graphs")
    theta, y = jax.tree.map(lambda leaf: np.asarray(leaf)[0], (given.theta, given.y))
    with refused("inputs have no plans of elimination"):
        log_loss(given.problem, theta._replace(plan=None), y)


def _impossible_chain() -> tuple:
    rules = js.chains.Constraints(
        np.array([[1, 0], [0, 1]], bool), np.array([0, 1], bool), np.array([1, 0], bool)
    )
    problem = js.chains.chain(1, 2, constraints=rules, dtype="float64")
    x = js.chains.chain_inputs(np.ones((3, 4, 1)), np.array([4, 3, 4]))
    return problem, x, np.array([[0, 1, 0, 1], [0, 1, 0, -1], [0, 1, 1, 1]])


def _impossible_segments() -> tuple:
    problem = js.segments.segmenter(1, 2, 2, outside=0, dtype="float64")
    x = js.segments.segment_inputs(np.ones((4, 3, 1)), np.array([3, 3, 3, 2]))
    return problem, x, np.array([[1, 3, 2], [1, 0, 1], [3, 2, 2], [3, 2, -1]])


def _impossible_tree(forest: bool) -> tuple:
    data = js.trees.prepare(["(S (A a) (B b))"] * 2, dtype="float64", loss="all_node_f1")
    x, y = js.losses.padded_batch(data.problem, data.inputs, data.outputs)
    x = x._replace(terminals=np.array([[0, 1], [1, 0]]), forest=x.forest if forest else None)
    if forest:
        sentences = data.encoding.inputs([["A", "B"], ["B", "A"]])
        x, _ = js.losses.padded_batch(data.problem, sentences, data.outputs)
    return data.problem, x, y


IMPOSSIBLE = [
    (_impossible_chain, [0, 1, 1], log_loss),
    (_impossible_segments, [0, 1, 1, 0], log_loss),
    (partial(_impossible_tree, False), [0, 1], smoothed_hinge),
    (partial(_impossible_tree, True), [0, 1], log_loss),
]


@pytest.mark.parametrize(("make", "infinite", "loss"), IMPOSSIBLE)
def test_outputs_of_probability_0_cost_infinity_and_move_nothing(make, infinite, loss) -> None:
    """Those that are forbidden, and those of inputs that have none; the others are finite."""
    problem, x, y = make()
    weights = problem.initial_weights
    theta = jax.jit(jax.vmap(problem.model.potentials, (None, 0)))(weights, x)
    value, slope = differentiated(loss, problem)(theta, y)
    np.testing.assert_array_equal(np.isposinf(value), np.array(infinite, bool))
    slope = np.asarray(flat(slope))
    assert np.isfinite(slope).all() and not slope[np.isposinf(value)].any()
