"""Training and prediction on ragged stores: what padded arrays give; trees elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import jaxstruct as js
from jaxstruct.chains.structure import chain, chain_inputs
from jaxstruct.chains.token_features import KernelTokens
from jaxstruct.core.sizes import size_class
from jaxstruct.core.types import SparseFeatures
from tests.lib.refusals import refused

S, D = 3, 4


def sentences(seed=0, n=40, longest=40):
    """Tokens [l, D] with some zeros, and their labels; most sentences are short."""
    rng = np.random.default_rng(seed)
    lengths = np.where(np.arange(n) % 8, rng.integers(0, 8, n), rng.integers(9, longest, n))
    means = rng.normal(size=(S, D))
    labels = [rng.integers(0, S, length).astype(np.int8) for length in lengths]
    tokens = [(means[y] + rng.normal(size=(len(y), D))).round(1) for y in labels]
    return [np.where(np.abs(x) < 0.4, 0, x).astype(np.float32) for x in tokens], labels


def sparse(tokens):
    """The same tokens as sparse features."""
    x = js.ragged(tokens)
    places = np.where(x.rows != 0, np.arange(D), D)
    order = np.argsort(places, axis=1)
    values = np.take_along_axis(x.rows, order, axis=1)
    indices = np.take_along_axis(places, order, axis=1).astype(np.int16)
    return SparseFeatures(js.Ragged(indices, x.offsets, D), js.Ragged(values, x.offsets))


def kernel(tokens):
    """The same tokens by their inner products with all tokens."""
    x = js.ragged(tokens)
    rows, m = x.rows @ x.rows.T, len(x.rows)
    anchors = js.Ragged(np.arange(m, dtype=np.int32), x.offsets, m)
    return KernelTokens(js.Ragged(rows, x.offsets), anchors)


WAYS = {"dense": js.ragged, "sparse": sparse, "kernel": kernel}
TOKENS, LABELS = sentences()


def padded(tokens, labels):
    """Both as arrays, as long as a bucket of the longest: one program trains both."""
    every = np.arange(len(tokens))
    x, y = js.ragged(tokens), js.ragged(labels)
    longest = size_class(int(x.lengths.max()))
    return chain_inputs(x.padded(every, longest), x.lengths), y.padded(every, longest, -1)


@pytest.mark.parametrize("way", WAYS)
def test_chains_train_and_predict_as_padded_ones(way) -> None:
    """The certified intervals of the optimum overlap, and predictions are the same."""
    problem = chain(D, S)
    wanted = js.fit(problem, *padded(TOKENS, LABELS), "svm1_margin", 10.0)
    x, y = chain_inputs(WAYS[way](TOKENS)), js.ragged(LABELS)
    own = chain(len(x.features.rows.rows), S) if way == "kernel" else problem
    found = js.fit(own, x, y, "svm1_margin", 10.0)
    assert found.status == js.Status.CONVERGED and len(found.state.sets.outputs) == 1
    assert max(found.dual, wanted.dual) <= min(found.primal, wanted.primal) * (1 + 1e-6)
    assert found.slack.shape == (len(LABELS),)
    labels = js.predict(own, found, x)
    assert isinstance(labels, js.Ragged)
    np.testing.assert_array_equal(labels.offsets, y.offsets)
    score = np.mean(labels.rows == y.rows)
    of_padded, true = (
        js.predict(problem, wanted, padded(TOKENS, LABELS)[0]),
        padded(TOKENS, LABELS)[1],
    )
    assert score == pytest.approx(np.mean((of_padded == true)[true >= 0]), abs=0.03) and score > 0.6


def test_several_buckets_come_back_in_order(monkeypatch) -> None:
    """A weight vector decodes every sentence as by itself, whatever bucket it is in."""
    monkeypatch.setattr("jaxstruct.core.padding.NUMBERS", 400)
    problem, rng = chain(D, S, window=1), np.random.default_rng(3)
    w = {name: rng.normal(size=leaf.shape).astype(np.float32)
         for name, leaf in problem.initial_weights.items()}  # fmt: skip
    found = js.predict(problem, w, chain_inputs(js.ragged(TOKENS)))
    for i in rng.permutation(len(TOKENS))[:8]:
        alone = js.predict(problem, w, chain_inputs(js.ragged([TOKENS[i]])))
        np.testing.assert_array_equal(found[i], alone[0])
        assert len(found[i]) == len(TOKENS[i])


@pytest.mark.thorough
def test_several_buckets_train_to_the_same_optimum(monkeypatch) -> None:
    problem, x, y = chain(D, S), chain_inputs(js.ragged(TOKENS)), js.ragged(LABELS)
    one = js.fit(problem, x, y, "svm1_margin", 5.0)
    monkeypatch.setattr("jaxstruct.core.padding.NUMBERS", 400)
    weights = np.ones(len(LABELS))
    several = js.fit(problem, x, y, "svm1_margin", 5.0, example_weights=weights)
    assert len(several.state.sets.outputs) > 1
    assert max(one.dual, several.dual) <= min(one.primal, several.primal) * (1 + 1e-6)
    again = js.fit(problem, x, y, "svm1_margin", 5.0, start=several)
    assert again.statistics.passes <= several.statistics.passes


def test_a_start_of_the_same_examples_in_another_order_is_refused(monkeypatch) -> None:
    """It would go on from multipliers of other examples, which bound nothing."""
    monkeypatch.setattr("jaxstruct.core.padding.NUMBERS", 400)
    problem, x, y = chain(D, S), chain_inputs(js.ragged(TOKENS)), js.ragged(LABELS)
    start = js.fit(problem, x, y, max_passes=2)
    order = np.arange(len(LABELS))
    one, other = np.flatnonzero(y.lengths == 5)[:2]
    order[[one, other]] = other, one
    with refused(f"start is of other outputs, first of example {one}: "):
        js.fit(problem, js.take(x, order), js.take(y, order), start=start)
    few = order[:-1]
    with refused("other buckets: it has .* a bucket, these are "):
        js.fit(problem, js.take(x, few), js.take(y, few), start=start)


def test_a_part_of_a_store_trains() -> None:
    which = np.array([9, 3, 20, 8, 1])
    x, y = chain_inputs(js.ragged(TOKENS)), js.ragged(LABELS)
    part = js.take(x, which), js.take(y, which)
    assert [len(one) for one in part[1]] == [len(LABELS[i]) for i in which]
    solution = js.fit(chain(D, S), *part, C=5.0)
    listed = chain_inputs(js.ragged([TOKENS[i] for i in which]))
    same = js.fit(chain(D, S), listed, js.ragged([LABELS[i] for i in which]), C=5.0)
    assert solution.primal == same.primal and solution.status == js.Status.CONVERGED


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
        ((X._replace(features=js.ragged([x[:, :2] for x in TOKENS])), Y), "number_of_features = 4"),
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
