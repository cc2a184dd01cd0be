"""Homologues among decoys: oracles and Psi against every alignment written down."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import pytest

from experiments.machines.homologues import (
    candidate_scores,
    homologue_inputs,
    homologue_outputs,
    homologue_search,
)
from jaxstruct import fit, joint_feature, predict
from tests.experiments.machines.homologue_cases import (
    A,
    M,
    N,
    Q,
    all_alignments,
    flat,
    psi_of,
    random_examples,
    sequences,
    weights_of,
)
from tests.lib.refusals import refused

KINDS = [("linear", False), ("affine", False), ("linear", True), ("affine", True)]
COUNT = 60


def random_weights(gaps, dtype, integers, seed=0):
    random = np.random.default_rng(seed)
    size = A * A + (1 if gaps == "linear" else 2)
    vector = random.integers(-2, 3, size) if integers else random.normal(0.3, 1, size)
    return weights_of(vector, gaps, dtype)


def best_scores(inputs, i, vector, **kind):
    """[Q] max over alignments, -inf where there is no candidate."""
    native, candidates = sequences(inputs, i)
    return np.array([
        (all_alignments(native, each, **kind)[0] @ vector).max() if len(each) else -np.inf
        for each in candidates
    ])  # fmt: skip


@jax.jit
@partial(jax.vmap, in_axes=(None, None, 0, 0))
def oracles(problem, w, x, y):
    """What they say of one example."""
    theta = problem.model.potentials(w, x)
    found = problem.oracles.contenders(theta, y)
    return (
        candidate_scores(theta), problem.model.decode(theta),
        problem.oracles.best_wrong(theta, y),
        problem.oracles.output(found.trace, 0), found.scores, problem.model.score(theta, y),
    )  # fmt: skip


DTYPES = ("float64", "float32", "float32", "float64")


@pytest.mark.parametrize(
    "gaps, symmetric, dtype", [(*kind, dtype) for kind, dtype in zip(KINDS, DTYPES, strict=True)]
)
@pytest.mark.parametrize("integers", [False, True])
def test_oracles_are_the_best_of_all_alignments(x64, gaps, symmetric, dtype, integers):
    """Gap costs, symmetry and dtypes: any two together. Integers are exact in both dtypes."""
    problem = homologue_search(A, gaps=gaps, symmetric=symmetric, dtype=dtype)
    (x, y), w = random_examples(COUNT), random_weights(gaps, dtype, integers)
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
            one = jax.tree.map(lambda leaf, i=i: leaf[i], output)
            np.testing.assert_allclose(psi_of(x, i, one, **kind) @ vector, score, **close)
        truth = jax.tree.map(lambda leaf, i=i: leaf[i], y)
        np.testing.assert_allclose(psi_of(x, i, truth, **kind) @ vector, own[i], **close)
    assert (decoded.candidate == y.candidate).any() and (decoded.candidate != y.candidate).any()


def random_planes(x):
    """Two outputs an example: any candidates, any of their alignments."""
    random, chosen = np.random.default_rng(2), []
    for i in range(COUNT):
        native, candidates = sequences(x, i)
        there = [q for q, each in enumerate(candidates) if len(each)]
        for q in random.choice(there, 2):
            every = all_alignments(native, candidates[q])[1]
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


@pytest.mark.parametrize("gaps, symmetric", KINDS)
def test_psi_inner_products_and_the_sums_of_planes(x64, gaps, symmetric):
    """joint_feature, plane_gram, plane_norms, add_planes, plane_values, squared_norm."""
    problem = homologue_search(A, gaps=gaps, symmetric=symmetric, dtype="float64")
    kind = dict(gaps=gaps, symmetric=symmetric)
    (x, y), w = random_examples(COUNT), random_weights(gaps, "float64", False)
    planes, coefficients = random_planes(x), np.random.default_rng(1).normal(size=(COUNT, 2))
    found = jax.tree.map(np.asarray, hooks(problem, w, x, y, planes, coefficients))
    (features, gram, norms, values, total), expected = found, flat(w)
    for i in range(COUNT):
        own, feature = jax.tree.map(lambda leaf, i=i: leaf[i], (y, features))
        own = psi_of(x, i, own, **kind)
        np.testing.assert_array_equal(flat(feature), own)
        two = np.array([
            psi_of(x, i, jax.tree.map(lambda leaf, at=(i, k): leaf[at], planes), **kind)
            for k in range(2)
        ])  # fmt: skip
        differences = own - two
        np.testing.assert_allclose(gram[i], differences @ differences[0], atol=1e-12)
        np.testing.assert_allclose(norms[i], (differences**2).sum(axis=1), atol=1e-12)
        np.testing.assert_allclose(values[i], two @ flat(w), atol=1e-12)
        expected = expected + coefficients[i] @ two
    np.testing.assert_allclose(flat(total), expected, atol=1e-10)
    assert problem.space.squared_norm(w, None) == pytest.approx(flat(w) @ flat(w))


def test_equal_scores_go_to_the_first_candidate(x64):
    problem = homologue_search(A, dtype="float64")
    x, _ = random_examples(COUNT)
    found = predict(problem, problem.initial_weights, x, batch=16)
    np.testing.assert_array_equal(found.candidate, np.argmax(x.candidate_lengths > 0, axis=1))
    assert (found.operations == -1).all()


def batch():
    natives = [np.array([0, 1, 2]), np.array([2, 1])]
    candidates = [[np.array([0, 1]), np.array([2])], [np.array([1]), np.array([0, 0, 2])]]
    x = homologue_inputs(natives, candidates)
    y = homologue_outputs([0, 1], [[0, 0], [0, 1]], [[0, 0], [0, 2]], x.native.shape[1] + 3)
    return x, y


def test_batches_are_padded():
    x, y = batch()
    np.testing.assert_array_equal(x.native, [[0, 1, 2], [2, 1, -1]])
    np.testing.assert_array_equal(x.candidate_lengths, [[2, 1], [1, 3]])
    np.testing.assert_array_equal(x.candidates[1, 0], [1, -1, -1])
    np.testing.assert_array_equal(y.operations[0], [0, 0, -1, -1, -1, -1])
    assert homologue_search(A).check(x, y) is None


def changed(where, field, index, value):
    x, y = batch()
    parts = {"x": x, "y": y}
    leaf = np.array(getattr(parts[where], field))
    leaf[index] = value
    parts[where] = parts[where]._replace(**{field: leaf})
    return parts["x"], parts["y"]


@pytest.mark.parametrize(
    "change, message",
    [
        (("x", "native", (0, 1), 3), r"inputs.native\[0, 1\] is 3: expected 0\.\.2, the"),
        (("x", "native", (1, 0), -1), r"inputs.native\[1, 0\] is -1: expected 0"),
        (("x", "candidates", (1, 1, 2), 9), r"inputs.candidates\[1, 1, 2\] is 9: expected 0"),
        (("x", "native_length", 1, 0), r"inputs.native_length\[1\] is 0: expected 1..3"),
        (("x", "candidate_lengths", (0, 1), 4), r"_lengths\[0, 1\] is 4: expected 0..3"),
        (("x", "candidate_lengths", (0, 1), 0), r"\[0\] is \[2, 0\]: expected two candi"),
        (("x", "candidate_lengths", (1, 1), 0), r"outputs.candidate\[1\] is 1: .* not empty"),
        (("y", "candidate", 0, 2), r"outputs.candidate\[0\] is 2: expected 0..1"),
        (("y", "operations", (0, 1), 3), r"outputs.operations\[0, 1\] is 3: expected PAIR"),
        (("y", "operations", (0, 4), 1), r"outputs.operations\[0, 4\] is 1: .* then PADDING"),
        (("y", "operations", (0, 2), 2), r"the 2 letters of the second .* 0\.\.2"),
        (("y", "begin", (1, 0), 1), r"the 2 letters of the first sequence; it covers 1\.\.2"),
        (("y", "begin", (1, 0), -1), "of the first sequence"),
    ],
)
def test_refusals_name_what_does_not_fit(change, message):
    problem = homologue_search(A)
    refused(message, lambda: fit(problem, *changed(*change), "svm2"))


def test_batches_that_do_not_fit_are_refused():
    x, y = batch()
    problem = homologue_search(A)
    short = dict(candidates=x.candidates[:, :1], candidate_lengths=x.candidate_lengths[:, :1])
    refused("Q = 1", problem.check, x._replace(**short), y)
    refused("HomologueInput .* got tuple", problem.check, tuple(x), y)
    few = y._replace(operations=y.operations[:, :4])
    refused(r"\[n = 2, width = 6\]", problem.check, x, few)
    refused("integers, got fl", problem.check, x._replace(native=x.native.astype(float)), y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_loss_is_zero_one_on_the_candidate_in_the_dtype_of_the_weights(x64, dtype):
    problem, (_, y) = homologue_search(A, dtype=dtype), batch()
    first, second = (jax.tree.map(lambda leaf, i=i: leaf[i], y) for i in range(2))
    realigned = first._replace(operations=second.operations)
    for other, loss in ((first, 0), (realigned, 0), (second, 1)):
        found = problem.model.loss(first, other)
        assert (found, found.dtype) == (loss, dtype)


ONE = np.array([0, 1])


@pytest.mark.parametrize(
    "make, match",
    [
        (lambda: homologue_search(0), "alphabet_size"),
        (lambda: homologue_search(3, gaps="cubic"), "gaps is 'cubic'"),
        (lambda: homologue_inputs([ONE, ONE[:0]], [[ONE]] * 2), r"natives\[1\] is empty"),
        (lambda: homologue_inputs([ONE], [[ONE, ONE[:0]]]), r"candidates\[0\]\[1\] is empty"),
        (lambda: homologue_inputs([ONE], []), "of one length"),
        (lambda: homologue_outputs([0], [[0, 0, 0]], [[0, 0]], 2), "more than M"),
        (lambda: homologue_search(4, symmetric="no"), "symmetric must be True or False"),
        (lambda: homologue_inputs([[ONE]], [ONE]), r"natives\[0\] must be"),
        (lambda: homologue_inputs([ONE], [ONE]), r"candidates\[0\]\[0\] must be"),
        (lambda: homologue_inputs(["ACGT"], [["AC"]]), "must be .* 'ACGT': .*alignments.encode"),
        (lambda: homologue_inputs([ONE / 2], [[ONE]]), r"natives\[0\] must be .* got float64"),
        (lambda: homologue_inputs([ONE + 2**40], [[ONE]]), r"natives\[0\]\[0\] is 1099511627776"),
        (lambda: homologue_outputs([0.5], [[0]], [[0, 0]], 4), "candidate must be .* got float64"),
        (lambda: homologue_outputs([0], [0], [[0, 0]], 4), "operations must be .n, wid"),
        (lambda: homologue_outputs([0], [[0]], [[0.5, 0]], 4), "begin must be .* got float64"),
    ],
)
def test_wrong_arguments_are_refused(make, match):
    refused(match, make)


def test_inputs_alone_are_checked_for_prediction():
    """One candidate is enough there."""
    problem = homologue_search(4)
    problem.check(homologue_inputs([ONE], [[ONE]]))
    with refused("inputs must be a HomologueInput .see homologue_inputs"):
        problem.check(np.zeros((1, 2)))
    with refused(r"inputs.native\[0, 1\] is 1: expected 0..0"):
        homologue_search(1).check(homologue_inputs([ONE], [[ONE]]))
