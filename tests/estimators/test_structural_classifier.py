"""StructuralClassifier: scikit-learn's own checks, certificates, weights, probabilities, size."""

from __future__ import annotations

import copy
import inspect
import pickle
import re

import jax
import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

import jaxstruct as js
from jaxstruct import estimators, explain, fit, support_outputs
from jaxstruct.core.compiling import programs_traced
from jaxstruct.core.status import MESSAGES
from jaxstruct.estimators import MeasureClassifier, StructuralClassifier, base
from jaxstruct.solvers.checkpoints.run_state import save_solution
from tests.estimators.cases import CLASSES, ROWS, blobs
from tests.lib.refusals import refused


def with_ones() -> tuple[np.ndarray, np.ndarray]:
    """A constant of their own, to be trained without another: programs of one shape for all."""
    X, y = blobs()
    return np.column_stack([X, np.ones(len(X))]), y


@pytest.mark.thorough
def test_scikit_learn_finds_nothing_to_complain_of() -> None:
    results = check_estimator(StructuralClassifier(1.0, tol=1e-2), on_skip=None)
    assert len(results) > 50
    by_itself = {"passed", "skipped"}  # what needs pandas, or another array library
    assert {result["status"] for result in results} <= by_itself
    assert sum(result["status"] == "passed" for result in results) > 50


@pytest.mark.smoke
def test_the_optimum_is_that_of_liblinear_at_its_C() -> None:
    """A C of n times LinearSVC's, whose multiclass machine has our objective."""
    X, y = with_ones()
    model = StructuralClassifier(0.1 * len(y), constant=0.0, tol=1e-4).fit(X, y)
    peer = LinearSVC(
        C=0.1, multi_class="crammer_singer", fit_intercept=False, tol=1e-6, max_iter=100_000
    ).fit(X, y)
    w, scores = peer.coef_, peer.decision_function(X)
    wrong = scores + (peer.classes_[None] != y[:, None])
    slack = wrong.max(axis=1) - scores[np.arange(len(y)), np.searchsorted(peer.classes_, y)]
    optimum = 0.5 * np.sum(w**2) + 0.1 * slack.sum()
    assert model.dual_ <= optimum * (1 + 1e-6) and optimum <= model.primal_ * (1 + 1e-4)
    assert model.gap_ <= 1e-4 * model.primal_ and model.status_ is js.Status.CONVERGED
    np.testing.assert_array_equal(model.predict(X), peer.predict(X))


@pytest.mark.parametrize("constant", [1.0, 3.0])
def test_its_methods_say_what_the_library_says(constant: float) -> None:
    X, y = blobs()
    model = StructuralClassifier(constant=constant).fit(X, y)
    scores, inputs = model.decision_function(X), model.encoding_.inputs(X)
    theta = jax.vmap(model.problem_.model.potentials, (None, 0))(model.weights_, inputs)
    np.testing.assert_allclose(scores, theta, rtol=1e-4, atol=1e-4)
    assert scores.shape == (60, 3) and model.coef_.shape == (3, 5)
    np.testing.assert_array_equal(model.classes_[scores.argmax(axis=1)], model.predict(X))
    np.testing.assert_allclose(scores, X @ model.coef_.T + model.intercept_)
    read = js.predict(model.problem_, model.weights_, inputs)
    assert model.encoding_.decode(read) == model.predict(X).tolist()
    assert model.score(X, y) > 0.9 and model.n_iter_ >= 1
    assert 0 < len(model.support_) < 60 and model.support_.max() < 60
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert clone(model).get_params() == model.get_params()


def test_of_two_classes_of_one_score_the_first() -> None:
    model = StructuralClassifier(constant=0.0).fit([{"f": 1.0}, {"f": -1.0}], ["yes", "no"])
    assert model.predict([{}, {"f": 1.0}]).tolist() == ["no", "yes"]
    assert model.decision_function([{}]).tolist() == [0.0]


def test_support_holds_all_that_the_solution_needs() -> None:
    X, y = blobs()
    model = StructuralClassifier(tol=1e-4).fit(X, y)
    own = model.support_
    weights = np.zeros(60)
    weights[own] = 1
    part = StructuralClassifier(100.0 * len(own) / 60, tol=1e-4).fit(X, y, weights)
    assert len(own) < 45
    np.testing.assert_allclose(part.primal_, model.primal_, rtol=1e-3)


def test_weights_of_classes_are_weights_of_their_examples() -> None:
    X, y = blobs()
    by_class = StructuralClassifier(class_weight={"a": 3, "b": 1, "c": 1}).fit(X, y)
    by_example = StructuralClassifier().fit(X, y, np.where(y == "a", 3, 1))
    np.testing.assert_array_equal(by_class.coef_, by_example.coef_)
    assert not np.allclose(by_class.coef_, StructuralClassifier().fit(X, y).coef_)


def test_equal_examples_and_their_order_play_no_part() -> None:
    X, y = blobs()
    order = np.random.default_rng(0).permutation(120) % 60
    twice = StructuralClassifier().fit(X[order], y[order])
    np.testing.assert_array_equal(twice.coef_, StructuralClassifier().fit(X, y).coef_)


def test_log_loss_is_logistic_regression() -> None:
    X, y = with_ones()
    weights = np.random.default_rng(1).uniform(0, 2, 60)
    model = StructuralClassifier(objective="log_loss", constant=0.0, tol=1e-4).fit(X, y, weights)
    peer = LogisticRegression(C=100 / weights.sum(), fit_intercept=False, tol=1e-8)
    peer.fit(X, y, weights)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=2e-3)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    assert model.gap_ >= -1e-6 * model.primal_ and not hasattr(model, "support_")
    assert not hasattr(StructuralClassifier(), "predict_proba")


def test_a_pipeline_with_a_grid_search_compiles_once() -> None:
    """Vocabularies differ from fold to fold, and three folds have a word that no other has; the
    size class does not."""
    random = np.random.default_rng(0)
    y = np.repeat(["x", "y"], 40)
    words = [random.integers(0, 7, 6) + 4 * (label == "x") for label in y]
    texts = np.array([" ".join(f"w{word:02}" for word in (*own, min(20 + i % 40 // 8, 23)))
                      for i, own in enumerate(words)])  # fmt: skip
    folds = [*StratifiedKFold(5).split(texts, y)]
    assert len({len(TfidfVectorizer().fit(texts[own]).vocabulary_) for own, _ in folds}) == 2
    pipeline = make_pipeline(TfidfVectorizer(), StructuralClassifier())
    grid = {"structuralclassifier__C": [1.0, 10.0, 100.0]}
    GridSearchCV(pipeline, grid, cv=folds[:1], refit=False).fit(texts, y)
    before = programs_traced()
    search = GridSearchCV(pipeline, grid, cv=folds, refit=False).fit(texts, y)
    assert programs_traced() == before and search.best_score_ > 0.9


def test_sparse_and_dense_rows_have_one_answer() -> None:
    X, y = blobs()
    X = np.where(np.abs(X) < 0.5, 0, X)
    dense, sparse = StructuralClassifier().fit(X, y), StructuralClassifier().fit(csr_array(X), y)
    np.testing.assert_allclose(sparse.primal_, dense.primal_, rtol=3e-3)
    np.testing.assert_allclose(
        dense.decision_function(csr_array(X)), dense.decision_function(X), atol=1e-9
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 0}, "C must be"), ({"tol": -1}, "tol must be"), ({"max_iter": 0}, "max_iter must"),
        ({"objective": "hinge"}, "objective is"), ({"loss": np.eye(3)}, "diagonal"),
        ({"constant": -1}, "constant must be"), ({"class_weight": "even"}, "class_weight"),
    ],
)  # fmt: skip
def test_errors_name_the_parameter(options: dict, message: str) -> None:
    refused(message, lambda: StructuralClassifier(**options).fit(*blobs()))


def test_rounding_is_said_beside_the_gap_that_it_hides() -> None:
    X, y = blobs()
    with pytest.warns(ConvergenceWarning) as warned:
        model = StructuralClassifier(100.0).fit(X + 300.0, y)  # far from the origin
    assert model.status_ is js.Status.ROUNDING
    numbers = re.search(
        r"the relative gap is (\S+), known up to a rounding of (\S+), tol is 0.001: rounding hides",
        str(warned[0].message),
    )
    gap, rounding = map(float, numbers.groups())
    assert gap == pytest.approx(model.gap_ / model.primal_, rel=0.1)
    assert abs(gap - 1e-3) < rounding


def test_messages_name_parameters_of_the_estimator() -> None:
    warned = {**MESSAGES, **base._MESSAGES}
    words = " ".join(warned[status] for status in js.Status if not status.solved)
    assert not re.search("max_passes|max_iterations|settings|epsilon|min_margin", words)


def test_what_is_not_solved_is_said() -> None:
    with pytest.warns(
        ConvergenceWarning, match="PASS_LIMIT at C=10000, .*: max_iter was"
    ) as warned:
        model = StructuralClassifier(1e4, max_iter=1).fit(*blobs())
    assert model.status_ is js.Status.PASS_LIMIT and model.gap_ > 0
    assert warned[0].filename == __file__  # the line that called fit
    with pytest.warns(ConvergenceWarning, match=r"\|gradient\| is .*, tol is 1e-05: max_iter was"):
        StructuralClassifier(1e4, objective="log_loss", max_iter=1, tol=1e-5).fit(*blobs())
    with pytest.raises(NotFittedError):
        StructuralClassifier().predict(blobs()[0])


def held(estimator) -> int:
    """Bytes of the arrays in its solution."""
    return sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(estimator.solution_.state))


def test_planes_of_a_sample_are_left_out():
    """A plane is [200] labels, and there are 64 slots of them: 51 kB, beside 20 bytes of w."""
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 4))  # as in `test_rankers`
    model = MeasureClassifier(C=10.0).fit(X, (X[:, 0] + random.normal(size=200) > 0.5).astype(int))
    data = model._checked(X, model.predict(X), None)
    planes = fit(data.problem, data.inputs, data.outputs, "svm1_margin", 10.0).state.sets
    whole = sum(leaf.nbytes for leaf in jax.tree.leaves(planes.outputs))
    assert whole >= 64 * 200 * 4 and held(model) < whole / 4
    again = pickle.loads(pickle.dumps(model))
    for other in (again, copy.deepcopy(model), copy.copy(model)):
        assert other.solution_.state is None
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
    assert max(len(pickle.dumps(one)) for one in (again, model)) < 10_000
    assert model.solution_.state is not None  # as it was


def test_the_fitted_one_still_says_what_carries_it(tmp_path):
    model = StructuralClassifier(C=10.0).fit(ROWS, CLASSES)
    support = support_outputs(model.solution_)
    assert len(support.example) and (support.alpha > 0).all()
    i = int(model.support_[0])
    assert len(explain(model, example=i).tables[0].outputs) > 0
    again = pickle.loads(pickle.dumps(model))
    refused("solution has no support outputs: it is of a pickle", explain, again, example=i)
    for given in (model, again):
        refused("must have its dual variables", save_solution, tmp_path / "s", given.solution_)


def test_what_a_search_returns_is_small():
    found = GridSearchCV(StructuralClassifier(), {"C": [1.0, 10.0]}, cv=2).fit(ROWS, CLASSES)
    assert held(found.best_estimator_) < 10_000
    assert pickle.loads(pickle.dumps(found)).best_estimator_.solution_.state is None


def _own_bases(cls: type) -> list[type]:
    return [base for base in cls.__mro__ if base.__module__.startswith("jaxstruct.")]


def _beside(bases: list[type]) -> list:
    """The functions of their modules, but not beside a class that is never fitted."""
    modules = {inspect.getmodule(base) for base in bases if _section(base, "Attributes")}
    every = [(module, each) for module in modules for each in vars(module).values()]
    return [f for module, f in every if inspect.isfunction(f) and inspect.getmodule(f) is module]


def _section(cls: type, name: str) -> str:
    """What follows a heading of a docstring; from Python 3.13 on its indentation is gone."""
    return inspect.cleandoc(cls.__doc__).partition(f"\n{name}")[2]


@pytest.mark.parametrize("name", estimators.__all__)
def test_every_fitted_attribute_has_an_entry(name) -> None:
    bases = _own_bases(getattr(estimators, name))
    code = "\n".join(map(inspect.getsource, [*bases, *_beside(bases)]))
    assigned = re.findall(
        r"^ +((?:(?:self|estimator)\.\w+, )*(?:self|estimator)\.\w+) = ", code, re.M
    )
    fitted = {one for line in assigned for one in re.findall(r"\.([A-Za-z]\w*_)\b", line)}
    fitted |= {key for base in bases for key, value in vars(base).items()
               if isinstance(value, property) and key.endswith("_")}  # fmt: skip
    sections = "\n".join(_section(base, "Attributes") for base in bases)
    entries = {one for names in re.findall(r"(\w+_(?:, \w+_)*): ", sections)
               for one in names.split(", ")}  # fmt: skip
    assert fitted and fitted <= entries
