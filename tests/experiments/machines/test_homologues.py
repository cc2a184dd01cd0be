"""Homologues among decoys: oracles, Psi and training against every alignment; the log-odds."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import pytest

from experiments.machines import homologues as machine
from experiments.machines.homologues import homologue_outputs, homologue_search
from jaxstruct import Settings, Status, fit, joint_feature
from tests.experiments.machines import homologue_cases as cases
from tests.experiments.machines.homologue_cases import A, M, N, Q, flat, psi_of, sequences
from tests.lib.enumeration import row
from tests.truth.quadratic_program import solve_primal

COUNT = 60


def random_weights(gaps, dtype, integers, seed=0):
    random = np.random.default_rng(seed)
    size = A * A + (1 if gaps == "linear" else 2)
    vector = random.integers(-2, 3, size) if integers else random.normal(0.3, 1, size)
    return cases.weights_of(vector, gaps, dtype)


def best_scores(inputs, i, vector, **kind):
    """[Q] max over alignments, -inf where there is no candidate."""
    native, candidates = sequences(inputs, i)
    best = [(cases.all_alignments(native, each, **kind)[0] @ vector).max() for each in candidates]
    return np.where([len(each) > 0 for each in candidates], best, -np.inf)


@jax.jit
@partial(jax.vmap, in_axes=(None, None, 0, 0))
def oracles(problem, w, x, y):
    """What they say of one example."""
    theta = problem.model.potentials(w, x)
    found = problem.oracles.contenders(theta, y)
    return (
        machine.candidate_scores(theta), problem.model.decode(theta),
        problem.oracles.best_wrong(theta, y),
        problem.oracles.output(found.trace, 0), found.scores, problem.model.score(theta, y),
    )  # fmt: skip


@pytest.mark.parametrize(
    "gaps, symmetric, dtype", [("linear", True, "float32"), ("affine", False, "float64")]
)
@pytest.mark.parametrize("integers", [False, True])
def test_oracles_are_the_best_of_all_alignments(x64, gaps, symmetric, dtype, integers):
    """Integers are exact in both dtypes; the other pairs of gaps and symmetry are of Psi's test."""
    problem = homologue_search(A, gaps=gaps, symmetric=symmetric, dtype=dtype)
    (x, y), w = cases.random_examples(COUNT), random_weights(gaps, dtype, integers)
    kind = dict(gaps=gaps, symmetric=symmetric)

    results = oracles(problem, w, x, y)
    scores, decoded, wrong, contender, contended, own = jax.tree.map(np.asarray, results)
    assert scores.dtype == dtype and decoded.candidate.dtype == np.int32
    jax.tree.map(np.testing.assert_array_equal, wrong, contender)
    vector = flat(w).astype(float)
    close = dict(rtol=0, atol=0 if integers else 1e-12 if dtype == "float64" else 1e-5)
    for i in range(COUNT):
        wanted = best_scores(x, i, vector, **kind)
        np.testing.assert_allclose(scores[i], wanted, **close)
        assert decoded.candidate[i] == np.argmax(scores[i])
        decoys = np.where(np.arange(Q) == y.candidate[i], -np.inf, scores[i])
        assert wrong.candidate[i] == np.argmax(decoys) and contended[i, 0] == decoys.max()
        for output, score in ((decoded, wanted.max()), (wrong, decoys.max())):
            psi = psi_of(x, i, row(output, i), **kind)
            np.testing.assert_allclose(psi @ vector, score, **close)
        np.testing.assert_allclose(psi_of(x, i, row(y, i), **kind) @ vector, own[i], **close)
    assert (decoded.candidate == y.candidate).any() and (decoded.candidate != y.candidate).any()
    first = oracles(problem, jax.tree.map(np.zeros_like, w), x, y)[1]  # all scores are equal
    np.testing.assert_array_equal(first.candidate, np.argmax(x.candidate_lengths > 0, axis=1))
    assert (np.asarray(first.operations) == -1).all()


def random_planes(x):
    """Two outputs an example: any candidates, any of their alignments."""
    random, chosen = np.random.default_rng(2), []
    for i in range(COUNT):
        native, candidates = sequences(x, i)
        there = [q for q, each in enumerate(candidates) if len(each)]
        for q in random.choice(there, 2):
            every = cases.all_alignments(native, candidates[q])[1]
            operations, begin = every[random.integers(len(every))]
            chosen.append((q, [*operations, *[-1] * (M + N - len(operations))], begin))
    planes = homologue_outputs(*(np.array(column) for column in zip(*chosen, strict=True)), M + N)
    return jax.tree.map(lambda leaf: leaf.reshape(COUNT, 2, *leaf.shape[1:]), planes)


@jax.jit
def hooks(problem, w, x, y, planes, coefficients):
    """Psi of the true outputs and every hook on a batch of planes."""
    other = jax.tree.map(lambda leaf: leaf[:, 0], planes)
    return (
        jax.vmap(partial(joint_feature, problem))(x, y),
        jax.vmap(problem.space.plane_gram)(x, y, planes, other),
        jax.vmap(problem.space.plane_norms)(x, y, planes),
        problem.space.plane_values(w, x, planes),
        problem.space.add_planes(w, x, planes, coefficients),
    )


@pytest.mark.parametrize("gaps, symmetric", [("linear", False), ("affine", True)])
def test_psi_inner_products_and_the_sums_of_planes(x64, gaps, symmetric):
    """joint_feature, plane_gram, plane_norms, add_planes, plane_values, squared_norm."""
    problem = homologue_search(A, gaps=gaps, symmetric=symmetric, dtype="float64")
    kind = dict(gaps=gaps, symmetric=symmetric)
    (x, y), w = cases.random_examples(COUNT), random_weights(gaps, "float64", False)
    planes, coefficients = random_planes(x), np.random.default_rng(1).normal(size=(COUNT, 2))
    found = jax.tree.map(np.asarray, hooks(problem, w, x, y, planes, coefficients))
    (features, gram, norms, values, total), expected = found, flat(w)
    for i in range(COUNT):
        own = psi_of(x, i, row(y, i), **kind)
        np.testing.assert_array_equal(flat(row(features, i)), own)
        two = np.array([psi_of(x, i, row(planes, (i, k)), **kind) for k in range(2)])
        differences = own - two
        np.testing.assert_allclose(gram[i], differences @ differences[0], atol=1e-12)
        np.testing.assert_allclose(norms[i], (differences**2).sum(axis=1), atol=1e-12)
        np.testing.assert_allclose(values[i], two @ flat(w), atol=1e-12)
        expected = expected + coefficients[i] @ two
    np.testing.assert_allclose(flat(total), expected, atol=1e-10)
    assert problem.space.squared_norm(w, None) == pytest.approx(flat(w) @ flat(w))


def test_batches_are_padded():
    natives = [np.array([0, 1, 2]), np.array([2, 1])]
    candidates = [[np.array([0, 1]), np.array([2])], [np.array([1]), np.array([0, 0, 2])]]
    x = machine.homologue_inputs(natives, candidates)
    y = homologue_outputs([0, 1], [[0, 0], [0, 1]], [[0, 0], [0, 2]], x.native.shape[1] + 3)
    np.testing.assert_array_equal(x.native, [[0, 1, 2], [2, 1, -1]])
    np.testing.assert_array_equal(x.candidate_lengths, [[2, 1], [1, 3]])
    np.testing.assert_array_equal(x.candidates[1, 0], [1, -1, -1])
    np.testing.assert_array_equal(y.operations[0], [0, 0, -1, -1, -1, -1])


def every_plane(x, y, **kind):
    """[n, k, D] Psi of the homologue as given, then of all alignments of all decoys, distinct."""
    rows = []
    for i in range(8):
        native, candidates = sequences(x, i)
        own = psi_of(x, i, row(y, i), **kind)
        decoys = [q for q, each in enumerate(candidates) if len(each) and q != y.candidate[i]]
        decoys = [cases.all_alignments(native, candidates[q], **kind)[0] for q in decoys]
        rows.append(np.concatenate([own[None], np.unique(np.concatenate(decoys), axis=0)]))
    most = max(map(len, rows))
    return np.array([np.concatenate([r, np.repeat(r[-1:], most - len(r), axis=0)]) for r in rows])


@pytest.mark.thorough
def test_optimum(x64):
    """That of an independent QP with all alignments."""
    kind, formulation = dict(gaps="affine", symmetric=True), "svm2_margin"
    x, y = cases.random_examples(8, seed=3)
    psi = every_plane(x, y, **kind)
    losses = np.ones(psi.shape[:2])
    losses[:, 0] = 0
    truth = solve_primal(formulation, psi, losses, np.zeros(8, int), 4.0)
    problem = homologue_search(A, **kind, dtype="float64")
    solution = fit(problem, x, y, formulation, 4.0, tolerance=1e-7, max_passes=3000,
                   settings=Settings(variant="subspace"))  # fmt: skip
    assert solution.status == Status.CONVERGED
    assert solution.primal == pytest.approx(truth.objective, rel=1e-6)
    assert solution.dual == pytest.approx(truth.objective, rel=1e-6)
    distance = np.linalg.norm(flat(solution.weights) - truth.w)
    assert distance <= np.sqrt(4e-6 * truth.objective)


def test_counts():
    x, y = cases.random_examples(COUNT)
    pairs, first, second = machine.homologue_counts(A, x, y)
    truths = [row(y, i) for i in range(COUNT)]
    wanted = sum(psi_of(x, i, one)[1:] for i, one in enumerate(truths))
    assert pairs.sum() > 20
    np.testing.assert_array_equal(pairs.ravel(), wanted)
    both = [sequences(x, i) for i in range(COUNT)]
    natives = np.concatenate([native for native, _ in both])
    homologues = np.concatenate([of[q] for (_, of), q in zip(both, y.candidate, strict=True)])
    np.testing.assert_array_equal(first, np.bincount(natives, minlength=A))
    np.testing.assert_array_equal(second, np.bincount(homologues, minlength=A))


def test_log_odds_by_hand():
    counts = machine.LetterCounts(
        np.array([[3.0, 0], [1, 0]]), np.array([5.0, 1]), np.array([6.0, 0])
    )
    joint, apart = np.array([[4, 1], [2, 1]]) / 8, np.outer([6 / 8, 2 / 8], [7 / 8, 1 / 8])
    np.testing.assert_allclose(machine.log_odds(counts), np.log(joint / apart), rtol=1e-12)
