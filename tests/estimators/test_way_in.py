"""From one's own data to a model file, in every estimator: fit, save, load, predict, explain."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import jaxstruct as js
from jaxstruct.estimators import class_rows
from tests.assignments.cases import examples
from tests.estimators.cases import blobs, sentences
from tests.lib.refusals import refused
from tests.rankings.cases import queries
from tests.segments.cases import names

E = js.estimators
ROWS, CLASSES = blobs(24)
NAMED = [{"colour": "red", "size": 1.0}, {"colour": "green"}, {"size": 2.0}] * 2
TREES = [
    "(S (NP (NN dogs)) (VP (VB see) (NP (NN cats) (PP (IN in) (NP (NN town))))))",
    "(S (NP (NN kings)) (VP (VB know) (NP (NN dogs) (PP (IN of) (NP (NN towns))))))",
    "(S (NP (NN cats)) (VP (VB see) (NP (NN dogs)) (PP (IN by) (NP (NN night)))))",
]
ALIGNED = [("ACGTTGCA", "ACG--GCA"), ("TTGACA", "T-GGCA"), ("GATTACA", "GA-TGCA")]
GRAPHS = [({"p": ["f"], "q": ["g"]}, [("p", "q")]), ({"s": ["g"], "t": ["f"]}, [("s", "t")])]
NODES = [{"p": "A", "q": "B"}, {"s": "B", "t": "A"}]
TAXONOMY = {"a": ("x",), "b": ("x",), "c": ()}

WAYS: dict[str, tuple[Any, Any, Any, str]] = {
    "classes": (E.StructuralClassifier(), ROWS, CLASSES, "features of b"),
    "named rows": (
        E.StructuralClassifier(loss=3 - 3 * np.eye(2)), NAMED, [*"abbabb"], "colour=red",
    ),
    "log-linear": (
        E.StructuralClassifier(objective="log_loss"), ROWS, CLASSES, "features of b",
    ),
    "taxonomy": (E.TaxonomyClassifier(TAXONOMY), ROWS, CLASSES, "features of b"),
    "sets": (
        E.MultiLabelClassifier(loss="zero_one"), ROWS, (ROWS[:, :3] > 0).astype(int),
        "pairs of labels",
    ),
    "sequences": (
        E.SequenceLabeller(window=1, start_stop=True, class_weight="balanced"), *sentences(12),
        "word=5 [-1]",
    ),
    "segments": (
        E.SegmentLabeller(C=10, loss="f1", phrases=["word"], window=1, start_stop=True), *names(),
        "word=New York",
    ),
    "trees": (E.TreeParser(loss="zero_one"), TREES, TREES, "NP -> N"),
    "graphs": (E.GraphLabeller(symmetric=True, plans=True), GRAPHS, NODES, "features of A"),
    "alignments": (E.PairAligner(C=3, gaps="linear"), ALIGNED, ALIGNED, "costs of gaps"),
    "matchings": (
        E.SetMatcher(unmatched=True, loss="items"), *examples(0, 8, unmatched=True, listed=True),
        "unmatched columns",
    ),
    "queries": (E.DocumentRanker(at=2), *queries(0, 8), "features of documents"),
    "path": (
        E.PathSearchCV(E.StructuralClassifier(), [100.0], cv=2), ROWS, CLASSES, "features of b",
    ),
}  # fmt: skip
"""An estimator of options of its own, X, y, and what its explanation names."""


@functools.cache
def trained(way: str) -> Any:
    """The estimator of a way, trained once for all tests."""
    estimator, X, y, _ = WAYS[way]
    return clone(estimator).fit(X, y)


def _plain(found: Any) -> list:
    """Predictions as a model gives them: labels, and sets in place of indicators."""
    if not isinstance(found, np.ndarray):
        return found
    return found.tolist() if found.ndim == 1 else [{*np.flatnonzero(row)} for row in found]


@pytest.mark.parametrize("way", [way for way in WAYS if way not in ("queries", "log-linear")])
def test_iterators_are_read_once(way: str) -> None:
    model, X, y, _ = WAYS[way]
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
    unfitted, X, _, named = WAYS[way]
    refused("", js.save, clone(unfitted), tmp_path / "none", error=NotFittedError)
    estimator = trained(way)
    model = js.load(js.save(estimator, tmp_path / "own.model"))
    X = list(X) if isinstance(X, np.ndarray) else X
    assert model.predict(X) == _plain(estimator.predict(X)) == [*js.predict_stream(estimator, X)]
    assert named in str(js.explain(estimator)) == str(js.explain(model))


@pytest.mark.parametrize("way", [way for way in WAYS if way != "path"])
def test_no_examples_are_said_to_be_none(way: str) -> None:
    refused("X is empty: there is no example to train on", WAYS[way][0].fit, [], [])


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


def test_a_pipeline_gives_the_model_of_its_last_step() -> None:
    path = E.PathSearchCV(make_pipeline(StandardScaler(), E.StructuralClassifier()), [100.0], cv=2)
    path.fit(ROWS, CLASSES)
    scaled = path.best_estimator_[0].transform(ROWS)
    assert path.model_.predict(scaled) == path.predict(ROWS).tolist()


@pytest.mark.parametrize("way", ["classes", "log-linear", "sequences", "graphs", "alignments"])
def test_confidence_takes_the_model_of_an_estimator(way: str, tmp_path) -> None:
    estimator, X = trained(way), WAYS[way][1]
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
    names = ["width", "height", "depth", "mass", "age"]
    estimator = E.StructuralClassifier().fit(ROWS, CLASSES)
    assert "height" in str(js.explain(estimator))
    assert js.load(js.save(estimator, tmp_path / "m")).encoding.features.names[:5] == (*names,)
    names[1] = "width"
    refused("X: the frame has two columns named 'width'", estimator.fit, ROWS, CLASSES)
