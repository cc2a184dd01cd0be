"""Training and prediction on ragged stores: what padded arrays give, for every wing."""

from __future__ import annotations

import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.chains.structure import chain, chain_inputs
from jaxstruct.chains.token_features import KernelTokens
from jaxstruct.core.types import SparseFeatures

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
    """Both as arrays, as long as the longest."""
    every = np.arange(len(tokens))
    x, y = js.ragged(tokens), js.ragged(labels)
    longest = int(x.lengths.max())
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


def test_several_buckets_train_to_the_same_optimum(monkeypatch) -> None:
    problem, x, y = chain(D, S), chain_inputs(js.ragged(TOKENS)), js.ragged(LABELS)
    one = js.fit(problem, x, y, "svm2_margin", 5.0)
    monkeypatch.setattr("jaxstruct.core.padding.NUMBERS", 400)
    weights = np.ones(len(LABELS))
    several = js.fit(problem, x, y, "svm2_margin", 5.0, example_weights=weights)
    assert len(several.state.sets.outputs) > 1
    assert max(one.dual, several.dual) <= min(one.primal, several.primal) * (1 + 1e-6)
    again = js.fit(problem, x, y, "svm2_margin", 5.0, start=several)
    assert again.statistics.passes <= several.statistics.passes


def test_a_part_of_a_store_trains() -> None:
    which = np.array([9, 3, 20, 8, 1])
    x, y = chain_inputs(js.ragged(TOKENS)), js.ragged(LABELS)
    part = js.take(x, which), js.take(y, which)
    assert [len(one) for one in part[1]] == [len(LABELS[i]) for i in which]
    solution = js.fit(chain(D, S), *part, C=5.0)
    listed = chain_inputs(js.ragged([TOKENS[i] for i in which]))
    same = js.fit(chain(D, S), listed, js.ragged([LABELS[i] for i in which]), C=5.0)
    assert solution.primal == same.primal and solution.status == js.Status.CONVERGED


def test_check_problem_takes_a_store() -> None:
    js.check_problem(chain(D, S), chain_inputs(js.ragged(TOKENS)), js.ragged(LABELS), draws=2)


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
        (_with_label(16, 9), r"example 16, taken by itself: outputs\[0, .*\] is 9: expected"),
        ((X, js.ragged(LABELS[:-1])), "inputs has 40 examples, outputs has 39"),
        ((X, js.ragged([*LABELS[1:], LABELS[0]])), "outputs"),
        ((X, np.zeros((40, 7), int)), r"outputs hold an array of shape \(40, 7\), but inputs"),
        ((X, LABELS), r"outputs must agree .* jaxstruct.ragged"),
        ((js.ragged(TOKENS), Y), "inputs must be a ChainInput"),
        ((X, js.ragged([y.astype(float) for y in LABELS])), "outputs must be integer labels"),
        ((X._replace(features=js.ragged([x[:, :2] for x in TOKENS])), Y), "number_of_features = 4"),
    ],
)
def test_the_door(examples, message, monkeypatch) -> None:
    monkeypatch.setattr("jaxstruct.core.padding.NUMBERS", 400)
    with pytest.raises(ValueError, match=message) as caught:
        js.fit(chain(D, S), *examples)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (js.ragged(LABELS), r"features must be a Ragged of \[l, d\] numbers, a row a token"),
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
    with pytest.raises(ValueError, match=message):
        chain_inputs(features)


def test_lengths_and_gram_are_those_of_the_store() -> None:
    x = js.ragged(TOKENS)
    assert chain_inputs(x, x.lengths).length.dtype == np.int32
    for wrong in ({"length": x.lengths + 1}, {"gram": np.zeros((40, 3, 3))}):
        with pytest.raises(ValueError, match="takes no gram, and no length but theirs"):
            chain_inputs(x, **wrong)
