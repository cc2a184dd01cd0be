"""Training sets in buckets and ragged stores: the optimum, the order of the examples, refusals."""

from __future__ import annotations

import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle

import jax
import numpy as np
import pytest
import scipy.sparse

import jaxstruct as js
from jaxstruct import Settings, Status, fit, support_outputs
from jaxstruct.chains.structure import chain, chain_inputs
from jaxstruct.core.buckets import Buckets, rows_of
from jaxstruct.core.processes import ALONE, Processes, RefusedElsewhere
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.sizes import size_class
from jaxstruct.core.types import SparseFeatures
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.checkpoints.run_state import load_solution, save_solution
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from jaxstruct.solvers.prepare import joint_buckets
from tests.lib.equality import assert_same
from tests.lib.refusals import refused
from tests.solvers.cases import FULL, assert_of_case, flat, padded_rows, random_case, weighted_case

N, K, C = 12, 4, 5.0
SUBSPACE = Settings(variant="subspace", working_sets="grown", cached_sweeps=1, capacity=4)
WAYS = {
    "subspace grown": (SUBSPACE, (6, 4, 2)),
    "subspace enumerated": (SUBSPACE._replace(working_sets="enumerated", active=3), (8, 4)),
    "full enumerated": (FULL._replace(working_sets="enumerated"), (11, 1)),
}


def bucketed(case, sizes, seed=0):
    """(inputs, outputs): sparse inputs at random in buckets that are padded to different widths."""
    order = np.random.default_rng(seed).permutation(len(case.y))
    index = tuple(np.split(order, np.cumsum(sizes)[:-1]))
    inputs = [padded_rows(case.x[own], 5 + number) for number, own in enumerate(index)]
    return Buckets(tuple(inputs), index), Buckets(tuple(case.y[own] for own in index), index)


def solved(case, way="subspace grown", formulation="svm1_margin", C=C, seed=0, **options):
    settings, sizes = WAYS[way]
    fine = 1e-5 if way.startswith("subspace") else 2e-9
    options = {"tolerance": fine, "settings": settings, "max_passes": 2000} | options
    return fit(case.problem(), *bucketed(case, sizes, seed), formulation, C, **options)


@pytest.mark.parametrize("formulation, way", [*zip(FORMULATIONS, cycle(WAYS), strict=False)])
def test_the_optimum_and_the_order_of_the_examples(x64, formulation, way):
    case, weights = weighted_case(formulation)
    seed = list(FORMULATIONS).index(formulation)
    solution = solved(case, way, formulation, seed=seed, example_weights=weights)
    fine = 1e-5 if way.startswith("subspace") else 1e-8
    assert_of_case(solution, case, formulation, C, weights, fine)


@pytest.mark.parametrize(
    "formulation, way", [("svm1_slack", "subspace grown"), ("svm2_margin", "subspace enumerated")]
)
def test_support_outputs_name_the_examples(x64, formulation, way):
    """w = sum alpha delta Psi over the pairs named; outputs come by bucket, in their order."""
    case = random_case(9, sparse=True)
    solution = solved(case, way, formulation)
    support, psi = support_outputs(solution), case.psi()
    assert isinstance(support.output, tuple) and len(support.output) == len(WAYS[way][1])
    output = np.concatenate(support.output)
    dpsi = psi[support.example, case.y[support.example]] - psi[support.example, output]
    np.testing.assert_allclose(support.alpha @ dpsi, flat(solution.state.weights), atol=1e-9)
    np.testing.assert_array_equal(support.loss, case.loss[case.y[support.example], output])
    np.testing.assert_array_equal(support.slack, solution.slack[support.example])
    bucket_of = np.empty(N, int)
    for number, own in enumerate(bucketed(case, WAYS[way][1])[0].index):
        bucket_of[own] = number
    found = bucket_of[support.example]
    assert (np.diff(found) >= 0).all() and (support.alpha > 0).all()
    assert [len(part) for part in support.output] == [
        (found == number).sum() for number in range(len(support.output))
    ]


def test_only_real_examples_are_counted(x64):
    """Three buckets of 12 examples in 24 rows; two oracle calls a certified pass, else one, and one
    more for each multiple of w that the last certificate tries."""
    case, seen = random_case(1, sparse=True), []
    solution = solved(case, max_passes=5, tolerance=1e-9, callback=seen.append)
    assert solution.details.rows.shape == (24,) and (solution.details.rows < 0).sum() == 12
    calls = [p.info.oracle_calls for p in seen]
    assert calls[:4] == [N] * 4 and calls[4] % N == 0 and 2 * N <= calls[4] <= 6 * N
    assert solution.statistics.oracle_calls == sum(calls)
    occupied = np.asarray(solution.state.sets.occupied)[solution.details.rows >= 0]
    assert solution.statistics.planes_kept == occupied[:, 1:].sum() > 0
    padding = np.asarray(solution.state.sets.occupied)[solution.details.rows < 0]
    assert not padding[:, 1:].any()  # nothing is ever added for it


def test_a_start_is_taken_up_in_its_buckets(x64):
    case = random_case(2, sparse=True)
    first = solved(case, tolerance=1e-4)
    one = solved(case, start=first, max_passes=1)
    assert one.dual >= first.dual * (1 - 1e-12)
    for wanted in (0.5, 5.0, 50.0):
        again = solved(case, C=wanted, start=first, tolerance=1e-4)
        optimum = case.truth("svm1_margin", wanted).objective
        assert again.status == Status.CONVERGED
        assert again.dual <= optimum * (1 + 1e-9)
        assert again.primal == pytest.approx(optimum, rel=1e-4)
    refused("start has its examples in other buckets", solved, case, seed=1, start=first)
    other = case._replace(y=np.where(np.arange(N) == 5, (case.y + 1) % K, case.y).astype(np.int32))
    refused("start is of other outputs, first of example 5:", solved, other, start=first)
    given = case.problem(), *bucketed(case, (7, 5)), "svm1_margin", C
    with refused(r"it has \[.*, .*, .*\] a bucket, these are \[7, 5\]"):
        fit(*given, start=first, settings=SUBSPACE)


def test_checkpoints_hold_buckets(x64, tmp_path):
    """Every leaf bit by bit, and a run that goes on as if it had never been on disk."""
    case, path = random_case(3, sparse=True), tmp_path / "run.npz"
    part = solved(case, max_passes=4)
    assert part.status == Status.PASS_LIMIT
    save_solution(path, part)
    outputs = bucketed(case, WAYS["subspace grown"][1])[1]
    for template in (None, outputs, case.y):
        loaded = load_solution(path, case.problem(), template)
        assert_same(part, loaded)
    assert len(loaded.state.sets.outputs) == 3
    again, live = (solved(case, start=start) for start in (loaded, part))
    assert again.status == Status.CONVERGED
    np.testing.assert_array_equal(again.statistics.history[3:], live.statistics.history[3:])


PRICED = chain(4, 3)
PRICED = PRICED._replace(padding=dataclasses.replace(PRICED.padding, price=1))


class Thread(Processes):
    """A thread in place of a process."""

    def __init__(self, here, count, barrier, messages):
        super().__init__()
        self.numbers, self.here = tuple(range(count)), here
        self._barrier, self._messages = barrier, messages

    def _gather(self, own):
        self._messages[self.here] = own
        self._barrier.wait(20)
        found = np.stack(self._messages)
        self._barrier.wait(20)
        return found


def together(*acts):
    """What each of the functions of a Processes returns or raises, run side by side."""
    barrier, messages = threading.Barrier(len(acts)), [None] * len(acts)

    def run(here):
        try:
            return acts[here](Thread(here, len(acts), barrier, messages))
        except ValueError as error:
            return error

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(run, range(len(acts))))


def drawn_sequences(lengths, seed=0):
    random = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = random.integers(0, 3, offsets[-1]).astype(np.int32)
    features = random.normal(size=(offsets[-1], 4)).astype(np.float32)
    return chain_inputs(Ragged(features, offsets)), Ragged(labels, offsets, -1)


def buckets_of(lengths, seed=0):
    return lambda processes: joint_buckets(PRICED, *drawn_sequences(lengths, seed), None, processes)


def test_shapes_are_of_all_and_a_missing_bucket_is_borrowed():
    lengths = [[3, 5, 4], [4, 40, 3, 39], [2, 41]]
    found = together(*(buckets_of(own, seed) for seed, own in enumerate(lengths)))
    whole = joint_buckets(PRICED, *drawn_sequences(sum(lengths, [])), None, ALONE)
    for own, (x, y, counts) in zip(lengths, found, strict=True):
        assert counts.tolist() == [[3, 0], [2, 2], [1, 1]]
        assert whole[2].tolist() == [[6, 3]]
        for bucket in (0, 1):
            for mine, other in ((x, whole[0]), (y, whole[1])):
                shapes = [
                    [leaf.shape[1:] for leaf in jax.tree.leaves(each.parts[bucket])]
                    for each in (mine, other)
                ]
                assert shapes[0] == shapes[1]
        assert np.sort(np.concatenate(y.index)).tolist() == list(range(len(own)))
    borrowed, lender = found[0], found[1]
    assert len(borrowed[1].index[1]) == 0 and rows_of(borrowed[1].parts[1]) == 1
    for side in (0, 1):
        both = (jax.tree.leaves(each[side].parts[1]) for each in (borrowed, lender))
        for one, other in zip(*both, strict=True):
            np.testing.assert_array_equal(one, other[:1])


def test_what_one_refuses_all_do():
    def wrong(processes):
        x, y = drawn_sequences([3, 4])
        return joint_buckets(PRICED, x, Ragged(y.rows + 3, y.offsets, -1), None, processes)

    first, second = together(buckets_of([2, 30]), wrong)
    assert isinstance(first, RefusedElsewhere) and not isinstance(second, RefusedElsewhere)
    assert str(second) in str(first)


@pytest.mark.parametrize(
    ("width", "words"), [(3, "an example has inputs"), (None, "the number of ragged stores")]
)
def test_what_does_not_go_together_is_named(width, words):
    def classes(columns):
        def act(processes):
            if columns is None:
                return joint_buckets(PRICED, *drawn_sequences([2, 3]), None, processes)
            x, y = np.zeros((2, columns), np.float32), np.zeros(2, np.int32)
            return joint_buckets(lenient, x, y, None, processes)

        return act

    lenient = multiclass(3, 2)._replace(check=lambda x, y: None)
    found = together(classes(2), classes(width))
    assert all(isinstance(each, ValueError) and words in str(each) for each in found)
    assert str(found[0]) == str(found[1])


S, D = 3, 5


def sentences(seed=0, n=40, longest=40):
    """Tokens [l, D] with some zeros, and their labels; most sentences are short."""
    rng = np.random.default_rng(seed)
    lengths = np.where(np.arange(n) % 8, rng.integers(0, 8, n), rng.integers(9, longest, n))
    means = rng.normal(size=(S, D))
    labels = [rng.integers(0, S, length).astype(np.int8) for length in lengths]
    tokens = [(means[y] + rng.normal(size=(len(y), D))).round(1) for y in labels]
    return [np.where(np.abs(x) < 0.4, 0, x).astype(np.float32) for x in tokens], labels


TOKENS, LABELS = sentences()


def padded(tokens, labels):
    """Both as arrays, as long as a bucket of the longest: one program trains both."""
    every = np.arange(len(tokens))
    x, y = js.ragged(tokens), js.ragged(labels)
    longest = size_class(int(x.lengths.max()))
    return chain_inputs(x.padded(every, longest), x.lengths), y.padded(every, longest, -1)


def test_chains_train_and_predict_as_padded_ones() -> None:
    """The certified intervals of the optimum overlap, and predictions are the same."""
    problem = chain(D, S)
    short = [own[:8] for own in TOKENS[:12]], [own[:8] for own in LABELS[:12]]
    wanted = js.fit(problem, *padded(*short), "svm1_margin", 10.0)
    x, y = chain_inputs(js.ragged(short[0])), js.ragged(short[1])
    found = js.fit(problem, x, y, "svm1_margin", 10.0)
    assert found.status == js.Status.CONVERGED and len(found.state.sets.outputs) == 1
    assert max(found.dual, wanted.dual) <= min(found.primal, wanted.primal) * (1 + 1e-6)
    assert found.slack.shape == (12,)
    labels = js.predict(problem, found, x)
    assert isinstance(labels, js.Ragged)
    np.testing.assert_array_equal(labels.offsets, y.offsets)
    score = np.mean(labels.rows == y.rows)
    x, true = padded(*short)
    of_padded = js.predict(problem, wanted, x)
    assert score == pytest.approx(np.mean((of_padded == true)[true >= 0]), abs=0.03) and score > 0.6


def test_several_buckets_come_back_in_order(monkeypatch) -> None:
    """A weight vector decodes every sentence as among all in one, whatever bucket it is in."""
    monkeypatch.setattr("jaxstruct.core.padding.NUMBERS", 400)
    problem, rng = chain(D, S, window=1), np.random.default_rng(3)
    w = {name: rng.normal(size=leaf.shape).astype(np.float32)
         for name, leaf in problem.initial_weights.items()}  # fmt: skip
    found = js.predict(problem, w, chain_inputs(js.ragged(TOKENS)))
    one_bucket = js.predict(problem, w, padded(TOKENS, LABELS)[0])
    for i, own in enumerate(TOKENS):
        np.testing.assert_array_equal(found[i], one_bucket[i, : len(own)])
        assert len(found[i]) == len(own)


def _with_nan():
    tokens = [one.copy() for one in TOKENS]
    tokens[16][0, 0] = np.nan
    return chain_inputs(js.ragged(tokens)), js.ragged(LABELS)


def _with_label(i, value):
    labels = [one.copy() for one in LABELS]
    labels[i][-1] = value
    return chain_inputs(js.ragged(TOKENS)), js.ragged(labels)


X, Y = chain_inputs(js.ragged(TOKENS)), js.ragged(LABELS)


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        (_with_nan(), "inputs has a NaN or an infinity, first in example 16"),
        (
            (chain_inputs(js.ragged([1e25 * one for one in TOKENS])), Y),
            "inner products of tokens overflow float32: scale inputs.features down",
        ),
        (_with_label(16, 9), r"example 16, taken by itself: outputs\[0, .*\] is 9: expected"),
        ((X, js.ragged(LABELS[:-1])), "inputs has 40 examples, outputs has 39"),
        ((padded(TOKENS, LABELS)[0], Y), "outputs are ragged and inputs are not"),
        ((X, js.ragged([*LABELS[1:], LABELS[0]])), "outputs"),
        ((X, np.zeros((40, 7), int)), r"outputs hold an array of shape \(40, 7\), but inputs"),
        ((X, LABELS), r"outputs must agree .* jaxstruct.ragged"),
        ((js.ragged(TOKENS), Y), "inputs must be a ChainInput .*, got ndarray float32"),
        (
            (X, js.ragged([y.astype(float) for y in LABELS])),
            "outputs must be .* integers, got float64 .*core.labels",
        ),
        ((X._replace(features=js.ragged([x[:, :2] for x in TOKENS])), Y), "number_of_features = 5"),
    ],
)
def test_refusals(examples, message, monkeypatch) -> None:
    monkeypatch.setattr("jaxstruct.core.padding.NUMBERS", 400)
    refused(message, lambda: js.fit(chain(D, S), *examples))


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (js.ragged(LABELS), r"features must be a Ragged of \[l, d\] numbers, a row a token"),
        (TOKENS, r"features must be \[n, T, d\], got .array.* takes a jaxstruct.ragged"),
        (np.zeros((3, 4)), r"features must be \[n, T, d\], got .* of shape \(3, 4\): .*ragged"),
        (np.zeros((3, 4, 2)), r"length must be .* of padded features, got None: .*ragged"),
        (js.from_scipy(scipy.sparse.eye(4)), "features.indices must be .*from_scipy.* offsets"),
        (
            SparseFeatures(js.ragged(TOKENS), np.zeros((40, 3, 4))),
            "features.values must be a Ragged",
        ),
        (
            SparseFeatures(js.ragged(TOKENS), js.ragged(TOKENS[::-1])),
            "features.values must have the tokens of features.indices",
        ),
    ],
)
def test_ragged_features_that_do_not_fit(features, message) -> None:
    refused(message, chain_inputs, features)


def test_lengths_and_gram_are_those_of_the_store() -> None:
    x = js.ragged(TOKENS)
    assert chain_inputs(x, x.lengths).length.dtype == np.int32
    for wrong in ({"length": x.lengths + 1}, {"gram": np.zeros((40, 3, 3))}):
        refused("takes no gram, and no length but theirs", chain_inputs, x, **wrong)


def test_sparse_rows_have_as_many_values_as_indices() -> None:
    """Padded to one size they would look alike, and features would be left out in silence."""
    rows = SparseFeatures(js.ragged([[0, 1, 2], [1, 2]], 3), js.ragged([[1.0, 1.0], [1.0, 2.0]]))
    problem = js.multiclass.multiclass(3, 2)
    for way in (
        lambda: js.fit(problem, rows, np.array([0, 1])),
        lambda: js.predict(problem, problem.initial_weights, rows),
    ):
        refused("inputs: example 0 has 3 indices and 2 values", way)
