"""Dual perceptrons against primal ones on explicit features, and pairs against numpy's."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from experiments.machines.dual_perceptron import DualPerceptron, dual_perceptron, weights_of
from jaxstruct import Problem, Status, predict
from jaxstruct.baselines.perceptron import EpochProgress, perceptron
from jaxstruct.chains.structure import ChainInput, chain, chain_inputs
from jaxstruct.chains.token_features import kernel_token_inputs
from jaxstruct.core.padding import bucketed
from jaxstruct.kernels.gram import gram_matrix
from jaxstruct.kernels.input import linear, polynomial
from jaxstruct.multiclass.structure import kernel_inputs, kernel_multiclass, multiclass
from jaxstruct.strings.inputs import joint_inputs, joint_pairs
from jaxstruct.strings.structure import joint_candidates
from tests.baselines.online import (
    Online,
    Outputs,
    chain_outputs,
    class_outputs,
    integer_sequences,
    online_perceptron,
    orders,
)
from tests.baselines.sequences import Sequences, flat
from tests.strings.candidate_cases import MACHINES, Case, random_case

MODEL: dict = dict(eta=1.0)
N, EPOCHS = 11, 5
RUN: dict = dict(max_epochs=EPOCHS, chunk=4, seed=3)
DATA = integer_sequences(0, N, separable=False, d=2)


def squares(x: np.ndarray) -> np.ndarray:
    """The features of (<x, x'> + 1)^2: products of all pairs of (x, 1)."""
    x = np.concatenate([x, np.ones((*x.shape[:-1], 1))], axis=-1)
    return (x[..., :, None] * x[..., None, :]).reshape(*x.shape[:-1], -1)


KERNELS = {"linear": (linear(), lambda x: x), "degree 2": (polynomial(2, 1.0), squares)}


def kernel_chain(data: Sequences, name: str) -> tuple[Problem, ChainInput, Sequences, np.ndarray]:
    """(problem, inputs, the data with explicit features, the features of the anchors).

    The anchors are the tokens of all sequences, one after the other.
    """
    kernel, features = KERNELS[name]
    real = np.arange(data.y.shape[1]) < data.length[:, None]
    places = np.where(real, np.cumsum(real).reshape(real.shape) - 1, -1)
    rows, gram = kernel_token_inputs(
        lambda a, b: gram_matrix(kernel, a, b), data.tokens, data.tokens[real], places
    )
    explicit = np.where(real[:, :, None], features(data.tokens), 0)
    problem = chain(int(real.sum()), data.S, **MODEL)
    x = chain_inputs(rows, data.length, gram)
    return problem, x, data._replace(tokens=explicit), explicit[real]


def agree(dual: DualPerceptron, outputs: Outputs, slow: Online) -> None:
    """The same pairs, each once, with the same multipliers."""
    assert len(dual.example) == len(dual.alpha) == len(dual.averaged) == len(slow.updates)
    found = {}
    for i, y, *alphas in zip(
        dual.example, np.asarray(dual.output), dual.alpha, dual.averaged, strict=True
    ):
        (place,) = np.flatnonzero([np.array_equal(y, other) for other in outputs.labels[i]])
        found[int(i), int(place)] = alphas
    assert found.keys() == slow.updates.keys()
    for pair, before in slow.updates.items():
        weights = len(before), sum(slow.visits - visits for visits in before) / slow.visits
        np.testing.assert_allclose(found[pair], weights, rtol=1e-12)
    assert dual.alpha.sum() == dual.mistakes.sum() and dual.alpha.max() > 1
    np.testing.assert_array_equal(dual.mistakes, slow.mistakes)


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_its_explicit_features(name: str) -> None:
    problem, x, explicit, anchors = kernel_chain(DATA, name)
    primal_problem = explicit.problem(MODEL)
    primal = perceptron(primal_problem, explicit.inputs(), explicit.y, **RUN)
    dual = dual_perceptron(problem, x, DATA.y, **RUN)
    outputs = chain_outputs(explicit, MODEL)
    agree(dual, outputs, online_perceptron(outputs, orders([np.arange(N)], 4, 3, EPOCHS)))
    for averaged, w in ((False, primal.weights), (True, primal.averaged)):
        found = weights_of(problem, dual, x, DATA.y, averaged=averaged)
        np.testing.assert_allclose(anchors.T @ found["emissions"], w["emissions"], atol=1e-4)
        np.testing.assert_allclose(found["transitions"], w["transitions"], atol=1e-5)
        assert np.abs(found["emissions"]).max() > 0.5
    np.testing.assert_array_equal(
        predict(problem, weights_of(problem, dual, x, DATA.y), x),
        predict(primal_problem, primal.weights, explicit.inputs()),
    )
    assert dual.status is primal.status is Status.PASS_LIMIT


@pytest.mark.parametrize("name", KERNELS)
def test_multiclass(name: str) -> None:
    random, (kernel, features) = np.random.default_rng(4), KERNELS[name]
    x, y = random.integers(-3, 4, (20, 2)).astype(np.float32), random.integers(0, 3, 20)
    problem = kernel_multiclass(20, 3)
    inputs = kernel_inputs(np.asarray(gram_matrix(kernel, x, x)))
    dual = dual_perceptron(problem, inputs, y, **RUN)
    outputs = class_outputs(features(x), y, 3)
    agree(dual, outputs, online_perceptron(outputs, orders([np.arange(20)], 4, 3, EPOCHS)))
    primal = perceptron(multiclass(features(x).shape[1], 3), features(x), y, **RUN)
    for averaged, w in ((False, primal.weights), (True, primal.averaged)):
        found = weights_of(problem, dual, inputs, y, averaged=averaged)
        np.testing.assert_allclose(features(x).T @ found["coefficients"], w["weights"], atol=1e-3)
    np.testing.assert_array_equal(perceptron(problem, inputs, y, **RUN).mistakes, dual.mistakes)


def listed_outputs(case: Case) -> Outputs:
    """The candidates of each list in their order, which breaks ties."""
    ends = np.cumsum([len(own) for own in case.lists])[:-1]
    pairs = zip(case.lists, case.y, strict=True)
    true = np.array([int(np.flatnonzero(own == y)[0]) for own, y in pairs])
    return Outputs(case.lists, np.split(case.psi(), ends), true)


def integer_case(seed: int) -> Case:
    """Small integers, so that float32 makes no rounding errors."""
    case = random_case(seed)
    random = np.random.default_rng(seed)
    draw = [random.integers(-2, 3, leaf.shape).astype(float) for leaf in (case.x, case.rows)]
    return case._replace(x=draw[0], rows=draw[1])


@pytest.mark.parametrize("name", MACHINES)
def test_candidate_sets(name: str) -> None:
    """Algorithm 1 on lists of several lengths, J in every form: the pairs of explicit features."""
    case = integer_case(3)
    problem, x = case.machine(name, "float32")
    buckets = bucketed(problem.padding, x, case.y)
    slow = online_perceptron(
        listed_outputs(case), orders(buckets[1].index, 4, 3, EPOCHS)
    )  # fmt: skip
    dual = dual_perceptron(problem, x, case.y, **RUN)
    agree(dual._replace(output=np.concatenate(dual.output)), listed_outputs(case), slow)
    found = weights_of(problem, dual, x, case.y)
    for scores, own, best in zip(
        case.scores(slow.weights), case.lists, predict(problem, found, x), strict=True
    ):
        assert best == own[np.argmax(scores)]


def squared_sum(a: tuple, b: tuple) -> jax.Array:
    """J((x, y), (x', y')) of small integers, exact in float32."""
    return (a[0] @ b[0] + a[1] @ b[1]) ** 2


@pytest.mark.parametrize("seed", range(4))
def test_algorithm_1_to_the_letter_under_any_joint_kernel(seed: int) -> None:
    """J is a function, and no product: (<x, x'> + <y, y'>)^2; F is summed over pairs by (3.6)."""
    case = integer_case(seed)
    pairs = [(i, y) for i, own in enumerate(case.lists) for y in own]
    of_pairs = joint_pairs(case.x, case.rows, case.lists)
    J = np.asarray(gram_matrix(squared_sum, of_pairs), int)
    problem, x = joint_candidates(len(pairs)), joint_inputs(J.astype(np.float32), case.lists)
    dual = dual_perceptron(problem, x, case.y, **RUN)
    place = {pair: a for a, pair in enumerate(pairs)}
    alpha: dict[tuple[int, int], int] = {}
    index = bucketed(problem.padding, x, case.y)[1].index
    for order in orders(index, 4, 3, EPOCHS):
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
    wrong = np.concatenate(dual.output)
    found = dict(zip(zip(dual.example.tolist(), wrong.tolist(), strict=True), dual.alpha,
                     strict=True))  # fmt: skip
    assert found == alpha and max(alpha.values()) > 1


def test_buckets_and_explicit_features() -> None:
    x, y = DATA.in_buckets()
    problem, outputs = DATA.problem(MODEL), chain_outputs(DATA, MODEL)
    dual = dual_perceptron(problem, x, y, **RUN)
    assert [labels.shape[1] for labels in dual.output] == [2, 4]
    widest = [np.pad(labels, ((0, 0), (0, 4 - labels.shape[1])), constant_values=-1)
              for labels in dual.output]  # fmt: skip
    whole = dual._replace(output=np.concatenate(widest))
    agree(whole, outputs, online_perceptron(outputs, orders(x.index, 4, 3, EPOCHS)))
    primal = perceptron(problem, x, y, **RUN)
    np.testing.assert_array_equal(flat(weights_of(problem, dual, x, y)), flat(primal.weights))
    averaged = weights_of(problem, dual, x, y, averaged=True)
    np.testing.assert_allclose(flat(averaged), flat(primal.averaged), atol=1e-5)
    plain = weights_of(problem, whole, DATA.inputs(), DATA.y)
    np.testing.assert_array_equal(flat(plain), flat(primal.weights))


def test_more_pairs_than_a_batch_in_float64(x64: None) -> None:
    random = np.random.default_rng(5)
    x, y = random.normal(size=(300, 2)), random.integers(0, 3, 300)
    problem = multiclass(2, 3, dtype="float64")
    dual, primal = (run(problem, x, y, max_epochs=4) for run in (dual_perceptron, perceptron))
    assert len(dual.alpha) > 256
    for averaged, w in ((False, primal.weights), (True, primal.averaged)):
        found = weights_of(problem, dual, x, y, averaged=averaged)
        np.testing.assert_allclose(flat(found), flat(w), rtol=1e-10, atol=1e-10)


def test_without_a_mistake_there_is_no_pair() -> None:
    """All labels 0, which at w = 0 is what ties give."""
    y = np.where(DATA.y >= 0, 0, -1).astype(np.int32)
    problem = DATA.problem(MODEL)
    dual = dual_perceptron(problem, DATA.inputs(), y)
    assert dual.status is Status.CONVERGED and dual.mistakes.tolist() == [0]
    assert dual.example.shape == dual.alpha.shape == (0,) and dual.output.shape == (0, 4)
    assert not flat(weights_of(problem, dual, DATA.inputs(), y)).any()


def test_callbacks_stop_and_seeds_repeat() -> None:
    problem, x, seen = DATA.problem(MODEL), DATA.inputs(), []

    def stop(progress: EpochProgress) -> bool:
        seen.append(progress.mistakes)
        return progress.epochs == 2

    dual = dual_perceptron(problem, x, DATA.y, **RUN, callback=stop)
    assert dual.status is Status.STOPPED and dual.message and dual.mistakes.tolist() == seen
    again = dual_perceptron(problem, x, DATA.y, **RUN | dict(max_epochs=2))
    other = dual_perceptron(problem, x, DATA.y, **RUN | dict(max_epochs=2, seed=4))
    jax.tree.map(np.testing.assert_array_equal, dual[:4], again[:4])
    assert not np.array_equal(other.averaged, dual.averaged)
    gram = np.asarray(x.gram, float) * 1e76
    huge = x._replace(features=(x.features * 1e38).astype(np.float32), gram=gram)
    assert dual_perceptron(problem, huge, DATA.y).status is Status.NOT_FINITE
