"""Oracles of candidate sets against enumeration, and proposition 25."""

from __future__ import annotations

import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct import Problem, SparseFeatures, fit, joint_feature, predict, take
from jaxstruct.core.types import Array
from jaxstruct.strings.inputs import CandidateFeatures, feature_inputs, kernel_inputs
from jaxstruct.strings.structure import (
    CandidateScores,
    candidates,
    joint_candidates,
    kernel_candidates,
)
from tests.lib.refusals import refused
from tests.strings.candidate_cases import D, M, N, P, random_case

CASES, K = 4000, 6


def random_lists(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores with ties, lists of 1 to 6 outputs of 7 in any order, a true output of each."""
    random = np.random.default_rng(seed)
    numbers = random.permuted(np.tile(np.arange(M, dtype=np.int32), (CASES, 1)), axis=1)[:, :K]
    lengths = random.integers(1, K + 1, CASES)
    numbers[np.arange(K) >= lengths[:, None]] = -1
    y = numbers[np.arange(CASES), random.integers(0, lengths)]
    return random.integers(-2, 3, (CASES, K)).astype(np.float32), numbers, y


def losses_of(kind: str) -> np.ndarray | str:
    random = np.random.default_rng(5)
    if kind == "zero_one":
        return kind
    table = random.choice([0.25, 1.0, 2.0], size=(M, M)) * (1 - np.eye(M))
    return table if kind == "table" else np.arange(M) / 4.0


def slow_loss(kind: str, y_true: int, y: int) -> float:
    numbers = losses_of(kind)
    if kind == "zero_one":
        return float(y_true != y)
    return numbers[y_true, y] if kind == "table" else numbers[y] - numbers[y_true]


@pytest.mark.smoke
@pytest.mark.parametrize("kind", ["zero_one", "table", "by list"])
def test_oracles_against_enumeration(kind: str) -> None:
    """Decode, and the most violated candidate of each level, of thousands of lists; ties first."""
    problem = candidates(3, loss=losses_of(kind))
    scores, numbers, y = random_lists(len(kind))
    if kind == "by list":  # the target is a cheapest one of its list
        y = np.where(numbers >= 0, numbers, M).min(axis=1).astype(np.int32)

    @jax.jit
    @jax.vmap
    def answers(scores: Array, numbers: Array, y: Array) -> tuple:
        theta = CandidateScores(scores, numbers)
        found = problem.oracles.contenders(theta, y)
        worst = problem.oracles.output(found.trace, jnp.argmax(found.losses + found.scores))
        p = problem.inference.marginals(theta).probabilities
        return problem.model.decode(theta), worst, found.losses, found.scores, p

    decoded, worst, losses, own, p = map(np.asarray, answers(scores, numbers, y))
    share = np.where(numbers >= 0, np.exp(scores), 0)
    np.testing.assert_allclose(p, share / share.sum(axis=1, keepdims=True), atol=1e-6)
    for i in range(CASES):
        real = [k for k in range(K) if numbers[i, k] >= 0]
        assert decoded[i] == numbers[i, max(real, key=lambda k: (scores[i, k], -k))]
        wrong = [k for k in real if numbers[i, k] != y[i]]
        assert set(np.flatnonzero(np.isfinite(own[i]))) == set(wrong)
        costs = {k: slow_loss(kind, y[i], numbers[i, k]) for k in wrong}
        assert all(losses[i, k] == pytest.approx(costs[k]) for k in wrong)
        assert (losses[i] >= 0).all()
        if wrong:
            values = [costs[k] + scores[i, k] for k in wrong]
            best = wrong[int(np.argmax(np.float32(values)))]
            assert worst[i] == numbers[i, best]


def test_scores_and_sums_of_planes() -> None:
    """The score of a number is that of its place; of an output that is no candidate, 0."""
    problem = candidates(3)
    scores, numbers, y = random_lists(3)
    theta = CandidateScores(jnp.asarray(scores), jnp.asarray(numbers))
    found = jax.jit(jax.vmap(problem.model.score))(theta, y)
    place = (numbers == y[:, None]).argmax(axis=1)
    np.testing.assert_array_equal(found, scores[np.arange(CASES), place])
    absent = jax.jit(jax.vmap(problem.model.score, (0, None)))(theta, jnp.int32(M))
    assert not np.asarray(absent).any()
    c = np.random.default_rng(6).normal(size=(CASES, 2)).astype(np.float32)
    pair = np.stack([y, numbers[:, 0]], axis=1)
    u = jax.jit(jax.vmap(problem.space.combine))(theta, pair, c)
    seen = np.asarray(jax.vmap(problem.space.plane_scores)(theta, pair))
    np.testing.assert_allclose(np.sum(u.scores * scores, axis=1), (seen * c).sum(axis=1), atol=1e-4)


@jax.jit
def products(problem: Problem, x: tuple, every: Array) -> tuple:
    """(|Psi(y) - Psi(y')|^2 of all pairs, <Psi(0) - Psi(y), Psi(0) - Psi(1)> of all)."""
    norms = jax.vmap(problem.space.plane_norms, (None, 0, None))(x, every, every)
    return norms, problem.space.plane_gram(x, every[0], every, every[1])


@pytest.mark.smoke
def test_proposition_25(x64: None, seed: int = 0) -> None:
    """|Psi(x_i, y) - Psi(x_i, y')|^2 <= 2 R_i^2 S^2 where L >= 0, and what it needs L >= 0 for.

    |a - b|^2 = |a|^2 + |b|^2 - 2 <a, b>, and <a, b> = K(x, x) L(y, y') (proposition 21).
    """
    case = random_case(seed)
    rows = np.abs(case.rows)
    assert (rows @ rows.T >= 0).all()
    for table, bounded in ((rows, True), (np.vstack([rows[:1], -rows[:1]]), False)):
        problem = kernel_candidates(len(case.x), table @ table.T, dtype="float64")
        every = np.arange(len(table))
        for i, x in enumerate(case.x):
            x_i = type(case.machine("kernel")[1])(case.x @ x, np.int32(i), every)
            norms, gram = jax.device_get(products(problem, x_i, every))
            R2, S2 = x @ x, (table**2).sum(axis=1).max()
            explicit = np.kron(x, table[0]) - np.kron(x, table[1])
            assert norms[0, 1] == pytest.approx(explicit @ explicit)
            apart = table[0] - table
            np.testing.assert_allclose(gram, R2 * apart @ apart[1], atol=1e-9)
            assert (norms.max() <= 2 * R2 * S2 * (1 + 1e-12)) == bounded
            assert norms.max() > 0.1 * R2 * S2


@jax.jit
def scores_and_products(problem: Problem, weights: dict, x: tuple, y: Array) -> tuple:
    """F of all candidates, and <Psi(x, y), Psi(x, .)>."""
    psi = joint_feature(problem, x, y)
    return tuple(problem.model.potentials(w, x).scores for w in (weights, psi))


@pytest.mark.thorough
def test_theta_of_the_three_machines_is_one(x64: None) -> None:
    """Kernels: F, Psi and the products of planes are those of explicit features."""
    case = random_case(5)
    pairs = [(i, y) for i, own in enumerate(case.lists) for y in own]
    random = np.random.default_rng(7)
    alpha = random.normal(size=len(pairs))
    w = alpha @ case.psi()
    for name in ("features", "sparse", "kernel", "joint"):
        problem, x = case.machine(name)
        one = _row(x, 3, case.lists[3])
        weights = {"weights": w}
        if name == "joint":
            weights = {"coefficients": alpha}
        if name == "kernel":
            B = np.zeros((len(case.x), M))
            np.add.at(B, tuple(np.transpose(pairs)), alpha)
            weights = {"coefficients": B}
        F, seen = scores_and_products(problem, weights, one, case.lists[3][1])
        np.testing.assert_allclose(F, case.scores(w)[3], rtol=1e-9, atol=1e-9)
        own = case.scores(np.kron(case.x[3], case.rows[case.lists[3][1]]))[3]
        np.testing.assert_allclose(seen, own, rtol=1e-9, atol=1e-9)


def _row(x: tuple, i: int, own: np.ndarray) -> tuple:
    """Input i without padding."""
    leaves, structure = jax.tree.flatten(x)
    return jax.tree.unflatten(structure, [leaf[i] for leaf in leaves])


def test_constructors_name_what_does_not_fit() -> None:
    indefinite = np.array([[1.0, 2.0], [2.0, 1.0]])
    refused("output_gram: not positive semi-definite", kernel_candidates, 3, indefinite)
    refused("output_gram: got nan", kernel_candidates, 3, indefinite * np.nan)
    refused("number_of_features must be", candidates, 0)
    refused("number_of_pairs must be", joint_candidates, 2.5)
    refused("dtype", candidates, D * P, dtype="int32")
    refused("loss must be numbers", candidates, 3, loss=lambda a, b: 0.0)
    refused("loss is 'hamming'", candidates, 3, loss="hamming")


CASE = random_case(1)
NUMBERS = np.array([[0, 1], [2, -1]], np.int32)
X = CandidateFeatures(NUMBERS, np.ones((2, 2, 3)))
Y = np.array([0, 2])
KERNEL = kernel_inputs(np.eye(2), NUMBERS)
FRESH = kernel_inputs(np.eye(2), NUMBERS, new=True)
TABLE = 1.0 - np.eye(2)


def features(loss: object = "zero_one", y: np.ndarray = Y, **changes: object) -> Callable:
    return lambda: fit(candidates(3, loss=loss), X._replace(**changes), y)


def sparse(indices: object, values: object) -> Callable:
    return features(features=SparseFeatures(np.array(indices), np.array(values)))


BAD: dict[str, tuple[Callable, str]] = {
    "empty": (features(numbers=np.array([[0, 1], [-1, -1]])), "[1] is [-1, -1]: expected a cand"),
    "twice": (features(numbers=np.array([[0, 1], [2, 2]])), "[1] is [2, 2]: expected every can"),
    "true output": (features(y=np.array([0, 1])), "outputs[1] is 1: expected a candidate of"),
    "not best": (features(np.array([1.0, 0.5, 0])), "it costs 1, another candidate 0.5"),
    "loss": (features(TABLE), "inputs.numbers[1, 0] is 2: expected rows of loss, 0..1"),
    "record": (lambda: fit(candidates(3), np.ones((2, 3)), Y), "inputs must be a Candidate"),
    "width": (features(features=np.ones((2, 2, 4))), "[n = 2, K = 2, number_of_features = 3]"),
    "feature twice": (sparse([[[1, 1]] * 2] * 2, np.ones((2, 2, 2))), "names feature 1 twice"),
    "few outputs": (
        lambda: fit(kernel_candidates(2, np.eye(2)), KERNEL, Y),
        "inputs.numbers[1, 0] is 2: expected rows of output_gram, 0..1",
    ),
    "no anchor": (
        lambda: fit(kernel_candidates(2, np.eye(3)), FRESH, Y),
        "inputs.anchor[0] is 2: expected one of the 2 anchors",
    ),
    "anchors": (
        lambda: fit(kernel_candidates(3, np.eye(3)), KERNEL, Y),
        "inputs.row must be [n = 2, anchors = 3]",
    ),
    "pairs": (
        lambda: fit(joint_candidates(3), CASE.machine("joint", "float32")[1], CASE.y),
        "inputs.rows must be [n = ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_examples_that_are_refused(name: str) -> None:
    call, message = BAD[name]
    refused(re.escape(message), call)


def test_prediction_asks_for_no_true_output_and_no_anchor() -> None:
    problem, x = candidates(3), X
    w = {"weights": np.array([1.0, 0, 0], np.float32)}
    np.testing.assert_array_equal(predict(problem, w, x), [0, 2])
    with refused("expected a candidate"):
        predict(problem, w, x._replace(numbers=np.array([[0, 1], [-1, -1]])))


def test_a_fold_keeps_its_anchors() -> None:
    problem, x = CASE.machine("kernel", "float32")
    few = take(x, np.array([5, 2]))
    assert few.anchor.tolist() == [5, 2] and few.row.shape == (2, N)
    problem.check(take(kernel_inputs(np.eye(N), [[0, 1]] * N), np.array([3])), np.array([1]))
    assert kernel_candidates(N, np.eye(M)).initial_weights["coefficients"].shape == (N, M)
    ragged = feature_inputs([[0], [1, 2]], np.ones((3, 2)))
    refused(
        "outputs.1. is 0: expected a candidate",
        lambda: fit(candidates(2), ragged, np.array([0, 0])),
    )
