"""The problem of matchings: contract, losses, optima against a QP, what cannot be asked."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import jaxstruct as js
from jaxstruct.assignments.potentials import MatchingTheta
from jaxstruct.core.padding import padded
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from jaxstruct.solvers.validation.oracle_rules import Sample, broken_rules, oracle_excess
from tests.assignments.cases import cases, examples, listed, losses, matchings
from tests.lib.enumeration import Listed, check_k_best
from tests.lib.refusals import refused
from tests.lib.structures import Every, check_oracles
from tests.losses.perturbed_steps import check_perturbed_loss_falls
from tests.truth.optimum import check_optimum


def theta_of(given, unmatched):
    """Potentials of cases; forbidden pairs hold a number that must never be read."""
    allowed = given.pairs > -np.inf
    allowed &= np.arange(allowed.shape[1])[:, None] < given.sizes[:, :1, None]
    allowed &= np.arange(allowed.shape[2]) < given.sizes[:, 1:, None]
    pairs = np.where(allowed, given.pairs, 99.0).astype("f4")
    of_items = [side.astype("f4") for side in (given.rows, given.columns)]
    rows, columns = of_items if unmatched else (None, None)
    return MatchingTheta(pairs, allowed, rows, columns, given.sizes)


def enumerated(unmatched, loss):
    """(problem, theta, y, all outputs of each), Delta counted item by item."""
    given, random = cases(0, 288, 3, 4, 0.15), np.random.default_rng(0)
    if not unmatched:
        given = given._replace(rows=0 * given.rows, columns=0 * given.columns)
    every = listed(given, not unmatched)
    kept = np.array([i for i, F in enumerate(every.scores) if F.max() > -np.inf])
    assert len(kept) > 250
    true = np.array(
        [every.outputs[i][random.choice(np.flatnonzero(every.scores[i] > -np.inf))] for i in kept]
    )
    theta = jax.tree.map(lambda leaf: leaf[kept], theta_of(given, unmatched))

    def of(at):
        outputs, F = (each[kept[at]] for each in (every.outputs, every.scores))
        r, c = given.sizes[kept[at]]
        (place,) = np.flatnonzero((outputs == true[at]).all(axis=1))
        return Every(outputs, F, losses(loss, true[at, :r], outputs[:, :r], c), place)

    problem = js.assignments.assignment(1, unmatched=unmatched, loss=loss)
    return problem, theta, true.astype(np.int32), [*map(of, range(len(kept)))]


@pytest.mark.parametrize(("unmatched", "loss"), [(False, "normalised_rows"), (True, "items")])
def test_loss_augmented_matchings_are_the_best_of_all(unmatched, loss):
    """F + scale Delta at scales that reach every level of the hull. Losses have two flags."""
    problem, theta, y, every = enumerated(unmatched, loss)
    scales = (0, 0.25, 0.5, 1, 2, 10)
    check_oracles(problem, theta, y, every.__getitem__, 2e-5, scales)


@pytest.mark.thorough
def test_matchings_above_are_the_best_by_score_and_loss(number=4, least=0.55):
    problem, theta, y, every = enumerated(True, "normalised_items")

    @jax.jit
    @jax.vmap
    def found(theta, y):
        ys, real = problem.oracles.best_above(theta, y, number, least)
        values = jax.vmap(problem.model.score, (None, 0))(theta, ys)
        values += jax.vmap(problem.model.loss, (None, 0))(y, ys)
        return ys, jnp.where(real, values, -jnp.inf)

    values = [one.F + one.delta for one in every]
    values = [np.where(own > least, own, -np.inf) for own in values]
    outputs, untied = [one.outputs for one in every], np.zeros(len(every), bool)
    check_k_best(Listed(outputs, values, untied), *found(theta, y), 2e-5)


@pytest.mark.thorough
def test_the_optimum_is_that_of_the_quadratic_program(x64):
    X, Y = examples(2, 8, 3, unmatched=True)
    data = js.assignments.prepare(X, Y, unmatched=True, loss="rows", dtype="float64")
    features, deltas = [], []
    most = len(matchings(3, 3, False))
    for x, y in zip(X, Y, strict=True):
        r, c = x.shape[:2]
        true = np.full(r, -1)
        for i, j in y:
            true[i] = j
        every = matchings(r, c, False)
        every = every[np.argsort((every == true).all(axis=1), kind="stable")[::-1]]
        psi = [sum((x[i, j] for i, j in enumerate(one) if j >= 0), np.zeros(3)) for one in every]
        none = (every < 0).sum(axis=1)
        psi = np.concatenate([psi, none[:, None], (c - r + none)[:, None]], axis=1)
        rest = most - len(every)
        features.append(np.pad(psi, ((0, rest), (0, 0)), mode="edge"))
        deltas.append(np.pad(losses("rows", true, every, c), (0, rest), mode="edge"))
    truth = np.array(features, float), np.array(deltas), np.zeros(len(X), int)
    check_optimum(data, "svm1_margin", 5.0, truth)


@pytest.mark.thorough
def test_a_list_that_lacks_what_is_above_is_found_out():
    """The oracle that proves most is the one that is tried: here it says that there is nothing."""
    random = np.random.default_rng(4)
    pairs, y = random.normal(size=(8, 4, 4, 3)), [random.permutation(4) for _ in range(8)]
    problem, *data = js.assignments.prepare(list(pairs), y)
    sample = Sample(*padded(problem.padding, *data))
    every = np.full((24, sample.outputs.shape[1]), -1, np.int32)
    every[:, :4] = list(itertools.permutations(range(4)))

    def nothing(theta, y, k, above):
        del theta, above
        return jnp.repeat(y[None], k, 0), jnp.zeros(k, bool)

    oracles = problem.oracles._replace(best_above=Partial(nothing), best_wrong=None)
    wrong, slack = problem._replace(oracles=oracles), FORMULATIONS["svm1_slack"]
    excess = oracle_excess(wrong, slack, sample, listed=every)
    assert broken_rules(excess, wrong) == ["missed"]


def test_perturbed_losses_work_and_sums_are_refused():
    """What needs the best matching alone works; sums over matchings are refused by their name."""
    X, y = examples(3, 6)
    data = js.assignments.prepare(X, y)
    check_perturbed_loss_falls(data, "pairs")
    w = data.problem.initial_weights
    x, y = padded(data.problem.padding, *data[1:])
    theta = data.problem.model.potentials(w, jax.tree.map(lambda leaf: leaf[0], x))
    with refused("problem has no log_loss: the sum over all matchings is a permanent.*perturbed"):
        js.losses.log_loss(data.problem, theta, y[0])
    with refused("problem has no marginals: the sum over all matchings is a permanent"):
        js.confidence.marginals(data.problem, w, data.inputs)


def test_refusals_name_the_example():
    prepare = js.assignments.prepare

    def check(X, y, **options):
        problem, *examples = prepare(X, y, **options)
        problem.check(*padded(problem.padding, *examples))

    x = {("a", "p"): [1.0], ("b", "p"): [2.0], ("c", "q"): [1.0], ("c", "r"): [0.5]}
    with refused(r"inputs\[0\] has no output: its pairs allow 2 at once, and .* matching has 3"):
        check([x], [[("a", "p"), ("c", "q")]])
    check([x], [[("a", "p"), ("c", "q")]], unmatched=True)
    refused("expected a pair that the input has", check, [x], [[("a", "q")]], unmatched=True)
    grid = np.zeros((2, 3, 1))
    with refused(r"outputs\[0\] is .* expected 2 pairs, all of the smaller set matched, not 1"):
        check([grid], [[(0, 1)]])
    problem, inputs, _ = prepare([grid], [[(0, 1), (1, 2)]])
    for wrong, words in (
        ([3, 0], r"outputs\[0, 0\] is 3: expected 2 rows and 3 columns"),
        ([1, 1], "no column twice"),
    ):
        refused(words, js.fit, problem, inputs, js.ragged([np.array(wrong)], -1))
    pairs = js.ragged([np.array([[0, 1], [0, 1]])], -1)
    items = (js.ragged([np.ones((size, 1))]) for size in (1, 2))
    sizes = np.array([[1, 2]], np.int32)
    twice = js.assignments.MatchingInput(js.ragged([grid[0, :2]]), pairs, *items, sizes)
    words = r"inputs.pairs\[0, 1\] is \[0, 1\]: expected pairs in the order"
    refused(words, js.predict, problem, problem.initial_weights, twice)
    refused("loss is 'f1'", prepare, [grid], [[]], loss="f1")
    refused("unmatched must be True or False", prepare, [grid], [[]], unmatched=1)
