"""Perceptrons against a numpy one in the same order, theorem 1, and the ways a run ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import jax
import numpy as np
import pytest
from scipy.optimize import nnls

from jaxstruct import Status, predict
from jaxstruct.baselines.perceptron import EpochProgress, Perceptron, epoch_order, perceptron
from jaxstruct.chains.structure import chain, chain_inputs
from jaxstruct.core.padding import bucketed
from jaxstruct.kernels import gram_matrix, linear, polynomial
from jaxstruct.strings.inputs import joint_inputs, joint_pairs
from jaxstruct.strings.structure import joint_candidates
from tests.baselines.sequences import Sequences, flat, random_sequences
from tests.chains.structure_cases import kernel_token_inputs
from tests.lib.refusals import refused
from tests.strings.candidate_cases import random_case


class Outputs(NamedTuple):
    """Every output of every example, sorted so that the first of equal scores is decoded.

    Fields:
      psi: n arrays [k, D], the joint features. true: [n] places of y_i.
    """

    psi: Sequence[np.ndarray]
    true: np.ndarray


class Online(NamedTuple):
    """Where the run ends.

    Fields:
      weights: [D]. averaged: [D] the mean of w over all visits, w after each.
      mistakes: one number an epoch.
    """

    weights: np.ndarray
    averaged: np.ndarray
    mistakes: list[int]


def online_perceptron(outputs: Outputs, epochs: Iterable[Sequence[int]]) -> Online:
    """Visit the examples in the given orders until an epoch has no mistake."""
    w = np.zeros(outputs.psi[0].shape[1])
    after, mistakes = [], []
    for order in epochs:
        mistakes.append(0)
        for i in order:
            best, true = int(np.argmax(outputs.psi[i] @ w)), outputs.true[i]
            if best != true:
                w = w + outputs.psi[i][true] - outputs.psi[i][best]
                mistakes[-1] += 1
            after.append(w)
        if not mistakes[-1]:
            break
    return Online(w, np.mean(after, axis=0), mistakes)


def orders(index: Sequence[np.ndarray], chunk: int, seed: int, epochs: int) -> list[list[int]]:
    """Examples in the order in which `perceptron` visits them, epoch by epoch."""
    return [
        [
            int(index[bucket][row])
            for bucket, rows in epoch_order(tuple(index), chunk, seed, epoch)
            for row in rows
            if row >= 0
        ]
        for epoch in range(epochs)
    ]


def chain_outputs(data: Sequences, model: dict) -> Outputs:
    """Label sequences; among equal scores the lowest last label wins, and so on backward."""
    psi, true = [], []
    for i, y in enumerate(data.y):
        every = data.outputs(i)
        every = every[np.lexsort(every.T)]
        psi.append(data.psi(model, i, every))
        true.append(int(np.flatnonzero((every == y).all(axis=1))[0]))
    return Outputs(psi, np.array(true))


def differences(outputs: Outputs) -> np.ndarray:
    """[m, D] Psi(x_i, y_i) - Psi(x_i, y) of all i and all y != y_i."""
    pairs = zip(outputs.psi, outputs.true, strict=True)
    return np.concatenate([np.delete(psi[true] - psi, true, axis=0) for psi, true in pairs])


def integer_sequences(seed: int, n: int, separable: bool, d: int = 3) -> Sequences:
    """Sequences of tokens of small integers, so that float32 makes no rounding errors.

    Labels are drawn, or those of a random w where `separable`.
    """
    data, random = random_sequences(seed, n=n, T=4, d=d, S=3), np.random.default_rng(seed)
    real = np.arange(4) < data.length[:, None]
    tokens = np.where(real[:, :, None], random.integers(-2, 3, data.tokens.shape), 0).astype(float)
    data = data._replace(tokens=tokens)
    if not separable:
        return data
    w = random.normal(size=3 * d + 9)
    best = []
    for i in range(n):
        every = data.outputs(i)
        best.append(every[np.argmax(data.psi({"eta": 1.0}, i, every) @ w)])
    return data._replace(y=np.stack(best).astype(np.int32))


MODEL: dict = dict(eta=1.0)
N = 11
DRAWN = integer_sequences(0, N, separable=False)
SEPARABLE = integer_sequences(1, N, separable=True)


def agree(found: Perceptron, slow: Online) -> None:
    """Integers are exact; the mean is not."""
    np.testing.assert_array_equal(found.mistakes, slow.mistakes)
    np.testing.assert_array_equal(flat(found.weights), slow.weights)
    np.testing.assert_allclose(flat(found.averaged), slow.averaged, rtol=1e-5, atol=1e-5)
    assert sum(slow.mistakes) > 3 and np.abs(slow.averaged - slow.weights).max() > 0.1


@pytest.mark.parametrize(("chunk", "seed"), [(1, 0), (4, 1), (32, 2)])
@pytest.mark.parametrize("data", [DRAWN, SEPARABLE], ids=["drawn", "separable"])
def test_it_is_the_online_perceptron(data: Sequences, chunk: int, seed: int) -> None:
    """Ties too: at w = 0, and wherever labels have no weights yet, everything ties."""
    found = perceptron(
        data.problem(MODEL), data.inputs(), data.y, max_epochs=6, chunk=chunk, seed=seed
    )
    order = orders([np.arange(N)], min(chunk, N), seed, 6)
    agree(found, online_perceptron(chain_outputs(data, MODEL), order))


def test_buckets_and_padding_change_the_order_alone() -> None:
    x, y = DRAWN.in_buckets()
    problem, outputs = DRAWN.problem(MODEL), chain_outputs(DRAWN, MODEL)
    found = perceptron(problem, x, y, max_epochs=5, chunk=4, seed=3)
    agree(found, online_perceptron(outputs, orders(x.index, 4, 3, 5)))
    wide = DRAWN._replace(
        tokens=np.pad(DRAWN.tokens, ((0, 0), (0, 2), (0, 0))),
        y=np.pad(DRAWN.y, ((0, 0), (0, 2)), constant_values=-1),
    )
    one = perceptron(problem, wide.inputs(), wide.y, max_epochs=5, chunk=4, seed=3)
    agree(one, online_perceptron(outputs, orders([np.arange(N)], 4, 3, 5)))


def squares(x: np.ndarray) -> np.ndarray:
    """[..., (d + 1)^2] features of the kernel (1 + <x, x'>)^2."""
    x = np.concatenate([x, np.ones((*x.shape[:-1], 1))], axis=-1)
    return (x[..., :, None] * x[..., None, :]).reshape(*x.shape[:-1], -1)


KERNELS = {"linear": (linear(), lambda x: x), "degree 2": (polynomial(2, 1.0), squares)}
RUN: dict = dict(max_epochs=5, chunk=4, seed=3)


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_of_tokens_is_its_explicit_features(name: str) -> None:
    """Small integers, so that both make the same mistakes whatever ties."""
    data, (kernel, features) = integer_sequences(0, N, separable=False, d=2), KERNELS[name]
    real = np.arange(data.y.shape[1]) < data.length[:, None]
    places = np.where(real, np.cumsum(real).reshape(real.shape) - 1, -1)
    inputs = kernel_token_inputs(kernel, data.tokens, data.length, data.tokens[real], places)
    problem = chain(int(real.sum()), data.S, **MODEL)
    found = perceptron(problem, inputs, data.y, **RUN)
    explicit = data._replace(tokens=np.where(real[:, :, None], features(data.tokens), 0))
    slow = online_perceptron(chain_outputs(explicit, MODEL), orders([np.arange(N)], 4, 3, 5))
    np.testing.assert_array_equal(found.mistakes, slow.mistakes)
    for weights, want in ((found.weights, slow.weights), (found.averaged, slow.averaged)):
        emissions = explicit.tokens[real].T @ weights["emissions"]
        own = flat({"emissions": emissions, "transitions": weights["transitions"]})
        np.testing.assert_allclose(own, want, atol=1e-4)


def test_algorithm_1_as_printed_under_any_joint_kernel() -> None:
    """alpha_iy counts the updates in which y was taken for y_i; w holds their sums, (3.6)."""
    case, random = random_case(0), np.random.default_rng(0)
    x, rows = (random.integers(-2, 3, leaf.shape).astype(float) for leaf in (case.x, case.rows))
    pairs = [(i, y) for i, own in enumerate(case.lists) for y in own]
    J = np.asarray(gram_matrix(squared_sum, joint_pairs(x, rows, case.lists)), int)
    problem, x = joint_candidates(len(pairs)), joint_inputs(J.astype(np.float32), case.lists)
    found = perceptron(problem, x, case.y, **RUN)
    place = {pair: a for a, pair in enumerate(pairs)}
    alpha: dict[tuple[int, int], int] = {}
    for order in orders(bucketed(problem.padding, x, case.y)[1].index, 4, 3, 5):
        for i in order:
            F = [
                sum(
                    count * (J[place[j, case.y[j]], place[i, y]] - J[place[j, z], place[i, y]])
                    for (j, z), count in alpha.items()
                )
                for y in case.lists[i]
            ]
            best = int(case.lists[i][np.argmax(F)])
            if best != case.y[i]:
                alpha[i, best] = alpha.get((i, best), 0) + 1
    want = np.zeros(len(pairs))
    for (i, y), count in alpha.items():
        want[place[i, case.y[i]]] += count
        want[place[i, y]] -= count
    np.testing.assert_array_equal(flat(found.weights), want)
    assert max(alpha.values()) > 1


def squared_sum(a: tuple, b: tuple) -> jax.Array:
    """A kernel on pairs that is no K(x, x') L(y, y')."""
    return (a[0] @ b[0] + a[1] @ b[1]) ** 2


def test_every_epoch_visits_every_example_once_in_a_new_order() -> None:
    index = (np.array([4, 1, 5]), np.array([0, 2, 3, 6, 7, 8, 9]))
    seen = [tuple(order) for seed in (0, 1) for order in orders(index, 2, seed, 20)]
    assert all(sorted(order) == list(range(10)) for order in seen)
    assert len(set(seen)) == len(seen)
    for (bucket, rows), (other, again) in zip(
        epoch_order(index, 2, 0, 7), epoch_order(index, 2, 0, 7), strict=True
    ):
        assert bucket == other and rows.dtype == np.int32 and rows.shape == (2,)
        np.testing.assert_array_equal(rows, again)


def largest_margin(rows: np.ndarray) -> tuple[np.ndarray, float]:
    """(the unit w of the largest min rows w, that minimum) by least-distance programming.

    min |w| under rows w >= 1 is the residual of non-negative least squares (Lawson and Hanson,
    "Solving least squares problems", chapter 23).
    """
    system = np.concatenate([rows.T, np.ones((1, len(rows)))])
    target = np.zeros(len(system))
    target[-1] = 1
    residual = system @ nnls(system, target, maxiter=100 * system.shape[1])[0] - target
    w = -residual[:-1] / residual[-1]
    return w / np.linalg.norm(w), float(1 / np.linalg.norm(w))


def bound(outputs: Outputs) -> float:
    """R^2 / gamma^2 of theorem 1, at the largest gamma."""
    rows = differences(outputs)
    w, gamma = largest_margin(rows)
    np.testing.assert_allclose((rows @ w).min(), gamma, rtol=1e-6)
    return float((rows**2).sum(axis=1).max() / gamma**2)


@pytest.mark.parametrize("seed", range(3))
def test_theorem_1_bounds_the_updates(seed: int) -> None:
    """R and the largest gamma by enumeration; five orders of the examples."""
    data = integer_sequences(10 + seed, N, separable=True, d=20)
    problem, most = data.problem(MODEL), bound(chain_outputs(data, MODEL))
    updates = []
    for order in range(5):
        found = perceptron(problem, data.inputs(), data.y, max_epochs=500, seed=order, chunk=32)
        assert found.status is Status.CONVERGED and found.mistakes[-1] == 0
        updates.append(int(found.mistakes.sum()))
        np.testing.assert_array_equal(predict(problem, found.weights, data.inputs()), data.y)
    assert 3 <= max(updates) <= most <= 50 * max(updates)


@pytest.mark.parametrize("n", [1, 9])
def test_theorem_1_is_reached_by_orthogonal_tokens(n: int) -> None:
    """Every example needs its own update; with R as the thesis prints it the bound fails."""
    tokens, y = np.eye(n)[:, None, :], np.ones((n, 1), np.int32)
    data = Sequences(tokens, np.ones(n, np.int32), y, 2)
    outputs = chain_outputs(data, MODEL)
    np.testing.assert_allclose(bound(outputs), n, rtol=1e-6)
    found = perceptron(data.problem(MODEL), data.inputs(), y)
    assert found.mistakes.tolist() == [n, 0]
    printed = max((psi**2).sum(axis=1).max() for psi in outputs.psi)
    assert bound(outputs) / 2 * printed < n


@pytest.mark.smoke
def test_the_ways_a_run_ends() -> None:
    problem, x, y = DRAWN.problem(MODEL), DRAWN.inputs(), DRAWN.y
    seen: list[EpochProgress] = []
    limit = perceptron(problem, x, y, max_epochs=3, callback=seen.append)
    assert limit.status is Status.PASS_LIMIT
    assert [one.epochs for one in seen] == [1, 2, 3]
    assert [one.mistakes for one in seen] == limit.mistakes.tolist()
    np.testing.assert_array_equal(flat(seen[2].weights), flat(limit.weights))
    assert np.any(flat(seen[1].weights) != flat(seen[2].weights))
    stopped = perceptron(problem, x, y, callback=lambda progress: progress.epochs == 2)
    assert stopped.status is Status.STOPPED and len(stopped.mistakes) == 2
    np.testing.assert_array_equal(flat(stopped.weights), flat(seen[1].weights))
    gram = np.asarray(x.gram, float) * 1e76
    huge = x._replace(features=(x.features * 1e38).astype(np.float32), gram=gram)
    assert perceptron(problem, huge, y).status is Status.NOT_FINITE
    other = perceptron(problem, x, y, max_epochs=3, seed=1)
    assert np.any(flat(other.averaged) != flat(limit.averaged))
    again = perceptron(problem, x, y, max_epochs=3)
    np.testing.assert_array_equal(flat(again.averaged), flat(limit.averaged))
    for found in (limit, stopped):
        assert found.message and found.seconds > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(max_epochs=0), "max_epochs must be at least 1"),
        (dict(chunk=0), "chunk must be at least 1"),
        (dict(seed=-1), "seed must be at least 0"),
        (dict(outputs=DRAWN.y[:3]), "must agree"),
        (dict(outputs=np.full_like(DRAWN.y, 7)), "outputs"),
        (dict(inputs=chain_inputs(DRAWN.tokens * np.nan, DRAWN.length)), "NaN"),
    ],
)
def test_errors_name_the_argument(change: dict, message: str) -> None:
    arguments = dict(problem=DRAWN.problem(MODEL), inputs=DRAWN.inputs(), outputs=DRAWN.y)
    refused(message, perceptron, **(arguments | change))
