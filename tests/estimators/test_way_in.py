"""From one's own data to a model file, in every estimator: fit, save, load, predict, explain."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import jaxstruct as js
from jaxstruct.core.feature_encoding import UnseenFeatures
from jaxstruct.core.labels import UnseenLabels
from jaxstruct.estimators import class_rows
from tests.estimators.cases import (
    CLASSES,
    COLOURS,
    GRAPHS,
    LABELS,
    NODES,
    PATHS,
    ROWS,
    SETS,
    WAYS,
    WORDS,
    E,
    trained,
)
from tests.lib.refusals import refused
from tests.segments.cases import tagged


def _plain(found: Any) -> list:
    """Predictions as a model gives them: labels, and sets in place of indicators."""
    if not isinstance(found, np.ndarray):
        return found
    return found.tolist() if found.ndim == 1 else [{*np.flatnonzero(row)} for row in found]


@pytest.mark.parametrize("way", [name for name, way in WAYS.items() if way.prepared])
def test_the_optimum_is_that_of_fit(way: str) -> None:
    """With the options that the estimator was given, on the data that `prepare` makes."""
    model, C = trained(way), WAYS[way].estimator.C
    solution = js.fit(*WAYS[way].prepared(), model.objective, C=C)
    assert model.primal_ >= solution.dual and solution.primal >= model.dual_ > 0
    assert repr(clone(model)) == repr(model)


@pytest.mark.parametrize("way", [way for way in WAYS if way not in ("queries", "log-linear")])
def test_iterators_are_read_once(way: str) -> None:
    model, X, y, *_ = WAYS[way]
    lists, read = trained(way), clone(model).fit(iter(X), iter(y))
    assert _plain(read.predict(iter(X))) == _plain(lists.predict(X))
    assert read.score(iter(X), iter(y)) == lists.score(X, y)


@pytest.mark.parametrize("model", [E.StructuralClassifier(), E.SequenceLabeller()])
@pytest.mark.parametrize("weight", [-1.0, np.nan, "1"])
def test_weights_of_labels_are_refused_by_their_name(model: Any, weight: Any) -> None:
    """Classes with a negative weight were trained, and sequences called it `weights`."""
    model = clone(model).set_params(class_weight={"a": weight, "b": 1.0})
    X = [[[["f"], ["g"]]], [["f"], ["g"]]][isinstance(model, E.StructuralClassifier)]
    y = [[["a", "b"]], ["a", "b"]][isinstance(model, E.StructuralClassifier)]
    refused("class_weight must be finite numbers >= 0", model.fit, X, y)
    model.set_params(class_weight={"a": 0, "b": 0})
    refused("class_weight must be .* not all zero", model.fit, X, y)
    refused("tol 1e-09 is below", model.set_params(class_weight=None, tol=1e-9).fit, X, y)


@pytest.mark.parametrize("way", WAYS)
def test_from_data_to_a_model_file_and_what_it_has_learned(way: str, tmp_path) -> None:
    unfitted, X, _, named, _ = WAYS[way]
    refused("fitted", js.save, clone(unfitted), tmp_path / "none", error=NotFittedError)
    estimator = trained(way)
    model = js.load(js.save(estimator, tmp_path / "own.model"))
    X = list(X) if isinstance(X, np.ndarray) else X
    assert model.predict(X) == _plain(estimator.predict(X))
    if way in ("classes", "segments", "dependencies", "matchings", "queries"):
        assert model.predict(X) == [*js.predict_stream(estimator, X)]  # of others `test_stream`
    assert _plain(pickle.loads(pickle.dumps(estimator)).predict(X)) == model.predict(X)
    assert named in str(js.explain(estimator)) == str(js.explain(model))


@pytest.mark.parametrize("way", WAYS)
def test_no_examples_are_said_to_be_none(way: str) -> None:
    refused("X is empty: there is no example to train on", WAYS[way][0].fit, [], [])


def _first_label(way: str, label: Any) -> list:
    """y of a way with another label in the first place."""
    first, *more = WAYS[way].y
    return [{**first, "p": label} if way == "graphs" else
            [label, *first[1:]] if way == "sequences" else label, *more]  # fmt: skip


@pytest.mark.parametrize("way", ["classes", "named rows", "taxonomy", "sequences", "graphs"])
def test_labels_of_another_kind_are_refused_and_unseen_ones_count_as_wrong(way: str) -> None:
    model, X = trained(way), WAYS[way].X
    if way != "taxonomy":  # whose classes are given
        with refused("where others are such as .*: numbers stand besi"):
            clone(model).fit(X, _first_label(way, 5))
    refused("y has the label 5, but training had text", model.score, X, _first_label(way, 5))
    with pytest.warns(UnseenLabels, match=r"1 distinct, most often 'Z'\): none of them can be pr"):
        assert model.score(X, _first_label(way, "Z")) < model.score(X, WAYS[way].y)


def test_a_text_is_no_list_of_labels() -> None:
    message = r"\[0\] must be a list of labels \(of a text make one: text.split\(\), .* got 'NV'"
    X = [[["a"], ["b"]], [["b"]]]
    refused("y" + message, lambda: E.SequenceLabeller().fit(X, ["NV", "N"]))
    refused("labels" + message, js.chains.prepare, X, ["NV", "N"])
    refused("labels" + message, js.graphs.prepare, [(X[0], [(0, 1)])], ["NV"])
    refused("y" + message, trained("sequences").score, WORDS, ["NV"] * len(WORDS))


WRONG = {
    "classes of the taxonomy": (
        E.TaxonomyClassifier(["a"]), ROWS, CLASSES, "taxonomy must be",
    ),
    "no class of the taxonomy": (
        E.TaxonomyClassifier({"a": (), "b": ()}), ROWS, CLASSES,
        r"y\[2\] is 'c', none of the 2 classes",
    ),
    "lists for sets": (
        E.MultiLabelClassifier(), np.eye(2), [["a"], ["b"]], r"y must be \[n, L\].*MultiLabelBina",
    ),
    "tokens": (
        E.SequenceLabeller(), WORDS, [LABELS[0][:-1], *LABELS[1:]],
        r"y\[0\] has \d entries, but sequences\[0\] has \d: one each",
    ),
    "one label": (
        E.SequenceLabeller(), WORDS, [["a"] * len(one) for one in LABELS], "at least two labels",
    ),
    "weights of labels": (
        E.SequenceLabeller(class_weight="balanced", objective="log_loss"), WORDS, LABELS,
        "class_weight needs",
    ),
    "leaves": (
        E.TreeParser(), [["DT", "NN"]], ["(S (NP (DT a) (NN cat)) (VP (VBZ runs)))"],
        r"y\[0\] has 3 leaves, but X\[0\] has 2 tokens",
    ),
    "trees": (
        E.TreeParser(), [["A"]], ["(S (A a))"] * 2, "X has 1 sentences, but y has 2",
    ),
    "pairs": (E.PairAligner(), [("AC", "AC")], [("AG", "AC")], r"y\[0\] aligns"),
    "nodes": (
        E.GraphLabeller(), GRAPHS, [[*"A"], NODES[1]],
        r"labels\[0\] has 1 entries, but graphs\[0\] has 2: one each",
    ),
    "matchings": (
        E.SetMatcher(objective="log_loss"), *WAYS["matchings"][1:3],
        '"log_loss" is none of SetMatcher',
    ),
}  # fmt: skip
"""Estimator, X, y and what is said of them."""


@pytest.mark.parametrize("case", WRONG)
def test_errors_name_the_place(case: str) -> None:
    estimator, X, y, message = WRONG[case]
    refused(message, clone(estimator).fit, X, y)


@pytest.mark.parametrize(
    ("way", "y", "message"),
    [
        ("sets", SETS[:, :2], "y has 2 columns, that of training 3"),
        ("alignments", [("ATT", "AGT")] * 3, r"y\[0\] aligns .*'ATT'"),
        ("graphs", [{"p": "A", "z": "B"}, NODES[1]], "these are not the parts of X"),
        ("segments", [[]], "y must be of n = 12 sequences, got 1"),
        ("matchings", [[]], "X has 8 examples, but y has 1"),
        ("queries", [own[1:] for own in WAYS["queries"].y], "y must have a relevance for each doc"),
    ],
)
def test_scores_of_other_things_are_refused(way: str, y: Any, message: str) -> None:
    refused(message, trained(way).score, WAYS[way].X, y)


def test_an_example_is_named_by_its_row_of_the_training_set() -> None:
    """The slack shown is that of X[i]; equal rows and those of weight 0 have none of their own."""
    X, y = np.concatenate([ROWS, ROWS[:1]]), np.append(CLASSES, CLASSES[0])
    estimator = E.StructuralClassifier(C=10.0).fit(X, y, np.arange(len(X)) != 1)
    scores, own = estimator.decision_function(X), np.searchsorted(estimator.classes_, y)
    own = np.arange(3) == own[:, None]
    slack = np.max(scores + ~own, axis=1) - scores[own]
    for i in estimator.support_[:5].tolist():
        (support,) = js.explain(estimator, example=i).tables
        assert float(support.title.split()[-1]) == pytest.approx(slack[i], abs=1e-3)
    for i in (1, len(X) - 1, len(X)):
        refused(rf"X\[{i}\] took no part of its own in training", js.explain, estimator, example=i)


@pytest.mark.parametrize("way", ["log-linear", "sequences"])
def test_confidence_takes_the_model_of_an_estimator(way: str, tmp_path) -> None:
    estimator, X = trained(way), WAYS[way].X
    model = estimator.model_
    assert model is estimator.model_
    best = js.confidence.k_best(*model.on(X), k=2)
    assert model.decode(best.outputs[0], X) == _plain(estimator.predict(X))
    assert (best.margins[:, 1] >= 0).all()
    loaded = js.load(js.save(estimator, tmp_path / "own.model"))
    if way == "log-linear":
        shares = js.confidence.marginals(*loaded.on(X)).probabilities
        np.testing.assert_allclose(shares, estimator.predict_proba(X), atol=1e-6)
    else:
        message = "temperature is None, but weights are a Solution"
        refused(message, js.confidence.marginals, *loaded.on(X))


def test_the_columns_of_a_frame_keep_their_names(monkeypatch, tmp_path) -> None:
    """scikit-learn reads frames, and says their columns in `feature_names_in_`."""

    def read(estimator, X, *y, reset=True, **options):
        if reset:
            estimator.feature_names_in_ = np.array(names, object)
        return (X, *y) if y else X

    monkeypatch.setattr(class_rows, "validate_data", read)
    names = ["width", "height", "depth", *(f"mass {n}" for n in range(12))]
    estimator = E.StructuralClassifier().fit(ROWS, CLASSES)
    assert "height" in str(js.explain(estimator))
    assert js.load(js.save(estimator, tmp_path / "m")).encoding.features.names[:15] == (*names,)
    names[1] = "width"
    refused("X: the frame has two columns named 'width'", estimator.fit, ROWS, CLASSES)


def test_of_classes_sets_and_taxonomies() -> None:
    """Coefficients have a row a class; without a taxonomy it is the plain classifier."""
    taxonomy, sets, named = trained("taxonomy"), trained("sets"), trained("named rows")
    assert sorted(named.feature_names_in_) == [*sorted(f"colour={c}" for c in COLOURS), "size"]
    assert named.n_features_in_ == 15
    assert taxonomy.classes_.tolist() == [*"abcd"] and taxonomy.coef_.shape == (4, 15)
    plain = E.TaxonomyClassifier().fit(ROWS, CLASSES)
    np.testing.assert_array_equal(plain.coef_, trained("classes").coef_)
    three = {name: PATHS[name] for name in "abc"}
    flat = E.TaxonomyClassifier(three, shared=False, loss="zero_one").fit(ROWS, CLASSES)
    np.testing.assert_array_equal(flat.coef_, plain.coef_)
    assert sets.coef_.shape == (3, 15) and sets.pairs_.shape == (3, 2, 2)
    np.testing.assert_array_equal(sets.decision_function(ROWS) > 0, sets.predict(ROWS) == 1)


def test_of_segments_and_trees() -> None:
    """Segments are found, or one of two is missed in each of 12; of trees the score is F1."""
    segments, X, y = trained("segments"), *WAYS["segments"][1:3]
    assert segments.predict([[], *X]) == [[], *y] and segments.score(X, y) == 1.0
    half, weights = [own[:1] for own in y], [1.0] * 6 + [0.0] * 6
    assert segments.score(X, half) == pytest.approx(2 * 12 / (12 + 24))
    assert segments.score(X, half[:6] + [[]] * 6, weights) == pytest.approx(2 / 3)
    labels = tagged(X, y)
    assert segments.classes_.tolist() == ["O", "LOC", "PER"] and segments.score(X, labels) == 1.0
    assert clone(segments).fit(X, labels).predict(X) == labels
    parser, trees = trained("trees"), WAYS["trees"].X
    tags = [js.trees.tags(js.trees.read_tree(tree, "tree")) for tree in trees]
    assert parser.score(tags, trees) == parser.score(trees, trees) > 0.8
    both, kinds = [trees[0], trees[0].replace("IN", "XX")] * 2, [[*tags[0]], ["NN", "XX"]] * 2
    with pytest.warns(UnseenFeatures, match=r"2 in all, first 'XX' in sentences\[1\]\): 2 of 4 s"):
        found = parser.predict(kinds)
    assert js.trees.tags(found[0]) == tags[0] and found[1] is None
    with pytest.warns(UnseenFeatures):  # all of one found, and nothing of another as large
        assert parser.score(both, both) == pytest.approx(2 * 1 / (1 + 2))
        assert parser.score(both, both, [1, 0] * 2) == 1.0


def test_of_heads_and_pairs_of_letters_and_items() -> None:
    parser, X, y = trained("dependencies"), *WAYS["dependencies"][1:3]
    assert parser.predict(X) == y and parser.score(X, y) == 1.0
    aligner, (row, *more) = trained("alignments"), WAYS["alignments"].X
    pairs = [tuple(one.replace("-", "") for one in pair) for pair in (row, *more)]
    assert aligner.predict(pairs)[0] == row and aligner.score(pairs, [row, *more], [1, 0, 0]) == 1
    moved = ("ACGTTGCA", "A--CGGCA")  # C and G of the second row stand elsewhere: 6 of 14 differ
    assert aligner.score(pairs, [moved, *more], [1, 0, 0]) == pytest.approx(1 - 6 / 14)
    assert aligner.costs_.substitution.shape == (4, 4) and [*aligner.alphabet_.letters] == [*"ACGT"]
    matcher, X, y = trained("matchings"), *WAYS["matchings"][1:3]
    found = matcher.predict(X)
    assert matcher.score(X, found) == matcher.score(X, [dict(own) for own in found]) == 1.0
    right = sum(len({*a} & {*b}) for a, b in zip(found, y, strict=True))
    assert matcher.score(X, y) == pytest.approx(2 * right / sum(map(len, [*found, *y])))
    text = str(js.explain(matcher, example=int(matcher.support_[0]), data=X))
    assert "support outputs" in text and "('r" in text


def test_of_graphs_whose_nodes_have_names_or_none(tmp_path) -> None:
    labeller = trained("graphs")
    nodes = [([*nodes.values()], [(0, 1)]) for nodes, _ in GRAPHS]
    assert labeller.classes_.tolist() == ["A", "B"] and labeller.predict(GRAPHS) == NODES
    assert labeller.predict(nodes) == [[*own.values()] for own in NODES]
    lists = [[*own.values()] for own in NODES]
    assert labeller.score(GRAPHS, lists) == labeller.score(GRAPHS, NODES) == 1
    graphs = [({"p": {}, "q": {}}, [("p", "q")])] * 2
    data = js.graphs.prepare(graphs, [[*"ab"]] * 2, constant=1.0, plans=True)  # as `fit` does
    assert data.encoding.nodes.names == ("constant",)
    weights = {name: np.ones(w.shape, w.dtype) for name, w in data.problem.initial_weights.items()}
    loaded = js.load(js.save(js.trained(data, weights), tmp_path / "m"))
    nodes = loaded.encoding.inputs(graphs).nodes
    assert nodes.indices.rows.tolist() == [[0]] * 4 and nodes.values.rows.tolist() == [[1]] * 4


def test_of_sequences() -> None:
    """A weight of two counts in the score as the sequence twice."""
    model, weights = trained("sequences"), np.where(np.arange(24) < 4, 2, 1)
    assert clone(model).fit(WORDS, LABELS, weights).primal_ != model.primal_
    assert model.score(WORDS, LABELS, weights) == pytest.approx(
        model.score(WORDS + WORDS[:4], LABELS + LABELS[:4]), rel=1e-12
    )
    y = [[*own] for own in np.split([*"bacacacacac"] * 11, np.cumsum([*map(len, WORDS)])[:-1])]
    ways = "balanced", {"a": 11 / 15, "b": 11 / 3, "c": 11 / 15}  # of 55, 11 and 55 labels
    own, named = (clone(model).set_params(class_weight=way).fit(WORDS, y) for way in ways)
    assert own.primal_ == named.primal_ != model.primal_ and model.n_features_in_ == 16
    predicted = sum(model.predict(WORDS), [])
    assert model.score(WORDS, LABELS) == np.mean(np.array(predicted) == sum(LABELS, [])) > 0.75
    assert 0 < len(model.support_) <= 24 and not hasattr(model, "predict_marginals")


def test_probabilities_of_sets_are_those_of_enumeration() -> None:
    model = E.MultiLabelClassifier(objective="log_loss", tol=1e-3).fit(ROWS, csr_array(SETS))
    for x, row in zip(ROWS[:4], model.predict_proba(ROWS[:4]), strict=True):
        scores, own = model.coef_ @ x + model.intercept_, {}
        for labels in itertools.product((0, 1), repeat=3):
            pairs = zip(itertools.combinations(range(3), 2), model.pairs_, strict=True)
            total = sum(t[labels[a], labels[b]] for (a, b), t in pairs)
            own[labels] = np.exp(scores @ labels + total)
        expected = sum(p * np.array(labels) for labels, p in own.items()) / sum(own.values())
        np.testing.assert_allclose(row, expected, rtol=1e-5)
    assert not hasattr(trained("sets"), "predict_proba")
