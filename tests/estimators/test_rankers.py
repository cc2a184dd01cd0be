"""DocumentRanker, MeasureClassifier and DecisionRegressor."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.metrics import f1_score, ndcg_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils import estimator_checks as checks

import jaxstruct as js
from jaxstruct.estimators import DocumentRanker, MeasureClassifier
from tests.decisions.cases import ARCS
from tests.estimators.cases import QUERIES, trained
from tests.lib.refusals import refused

pytestmark = pytest.mark.filterwarnings("ignore:labels are the texts 'no' and 'yes'")


def rare(seed, n=200):
    """Rows and labels "no" and "yes", a tenth of them "yes"."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4))
    return X, np.where(X[:, 0] + random.normal(size=n) > 1.8, "yes", "no")


def test_a_ranker_is_scored_as_by_scikit_learn():
    """Its optimum is that of `fit` by `test_way_in`."""
    (X, y), ranker = QUERIES, trained("queries")
    scores = ranker.decision_function(X)
    for own, order in zip(scores, ranker.predict(X), strict=True):
        assert (np.diff(own[np.argsort(order)]) > -1e-6).all()  # equal ones go by their rounding
    pairs = zip(y, scores, strict=True)
    each = [ndcg_score([2.0**own - 1], [found], k=2) for own, found in pairs]
    assert ranker.score(X, y) == pytest.approx(np.mean(each), abs=1e-6)
    weights = np.arange(len(X))
    assert ranker.score(X, y, weights) == pytest.approx(np.average(each, weights=weights), abs=1e-6)


def test_labels_for_the_measure(tmp_path):
    X, y = rare(0)
    model = MeasureClassifier(C=100.0, tol=1e-2).fit(X, y)
    found = model.predict(X)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(X, y) == pytest.approx(f1_score(y, found, pos_label="yes"))
    assert ((model.decision_function(X) > 0) == (found == "yes")).all()
    np.testing.assert_allclose(
        model.decision_function(X), X @ model.coef_[0] + model.intercept_[0], rtol=1e-5, atol=1e-5
    )
    plain = LinearSVC(C=100 / len(X), loss="hinge").fit(X, y)  # what "error_rate" minimises
    assert model.score(X, y) > f1_score(y, plain.predict(X), pos_label="yes")
    loaded = js.load(js.save(model, tmp_path / "own.model"))
    assert loaded.predict([X]) == [found.tolist()]
    assert "features of yes" in str(js.explain(loaded))


@pytest.mark.parametrize("check", [
    checks.check_classifier_not_supporting_multiclass, checks.check_classifiers_regression_target,
    checks.check_classifiers_one_label, checks.check_requires_y_none,
])  # fmt: skip
def test_scikit_learn_is_refused_in_its_words(check):
    """All of `check_estimator` passes, too, in 23 seconds: samples of many sizes are compiled."""
    check("MeasureClassifier", MeasureClassifier())


def test_precision_at_labels_so_many():
    """As many as training has; a number of their own in the next test but one."""
    X, y = rare(1)
    y[np.flatnonzero(y == "yes")[5:]] = "no"
    model = MeasureClassifier(C=100.0, loss="precision_at", tol=1e-2).fit(X, y)
    found = model.predict(X) == "yes"
    assert found.sum() == (y == "yes").sum() == 5
    assert model.decision_function(X)[found].min() >= model.decision_function(X)[~found].max()
    assert model.score(X, y) == pytest.approx((y[found] == "yes").mean())


@pytest.fixture(scope="module")
def graded():
    """Queries with many equal documents, and a ranker of them."""
    random = np.random.default_rng(8)
    X = [random.integers(0, 2, (8, 37)) * 1.1 for _ in range(12)]
    for own in X:
        own[3:] = own[3]
    y = [random.integers(0, 4, 8) for _ in X]
    return X, y, DocumentRanker(10.0, at=2, tol=1e-2).fit(X, y)


def test_the_order_of_a_file_changes_no_score(graded):
    """Of documents that are equal, too, whose scores BLAS would round differently by place."""
    X, y, ranker = graded
    back = ranker.score([own[::-1] for own in X], [own[::-1] for own in y])
    assert ranker.score(X, y) == pytest.approx(back, abs=1e-12)
    nothing = [np.zeros((8, 37))] * 2
    grades = np.array([3, 2, 1, 1, 0, 0, 0, 0])
    assert ranker.score(nothing, [grades] * 2) == pytest.approx(
        ranker.score(nothing, [grades[::-1]] * 2)
    )
    x, labels = np.repeat(rare(3, 20)[0], 10, axis=0), np.tile(np.arange(2), 100)
    model = MeasureClassifier(loss="precision_at", at=5, tol=1e-2).fit(x, labels)
    assert model.predict(x).sum() == 5 and labels.sum() == 100
    assert model.score(x, labels) == model.score(x[::-1], labels[::-1]) == 0.5


@pytest.mark.thorough
def test_flat_rows_with_their_queries(graded):
    """In any order; predictions come back in that of the rows."""
    X, y, ranker = graded
    ids = np.repeat([f"q{i}" for i in range(12)], 8)
    mixed = np.random.default_rng(0).permutation(96)
    flat, grades, ids = np.concatenate(X)[mixed], np.concatenate(y)[mixed] * 1.0, ids[mixed]
    own = DocumentRanker(10.0, at=2, tol=1e-2).fit(flat, grades, groups=ids)
    assert own.dual_ <= ranker.primal_ and ranker.dual_ <= own.primal_
    assert ranker.score(flat, grades, groups=ids) == pytest.approx(ranker.score(X, y))
    found = ranker.decision_function(flat, groups=ids)
    assert (found == np.concatenate(ranker.decision_function(X))[mixed]).all()
    places = ranker.predict(flat, groups=ids)
    assert sorted(places[ids == "q3"]) == [*range(8)]
    with refused(r"groups must be \[96\], the query of each row.*np.repeat"):
        ranker.predict(flat, groups=[8] * 12)
    with refused(r"relevances\[0\] must be a list.*give DocumentRanker their groups"):
        DocumentRanker().fit(flat, grades.astype(int))
    with refused(r"X\[1\] has no document"):
        ranker.decision_function([X[0], X[0][:0]])


def test_features_of_different_scales_are_warned_of():
    X, y = QUERIES
    with pytest.warns(UserWarning, match="different scales.*StandardScaler"):
        DocumentRanker(1e-6, at=2, tol=10.0).fit([own * [*[1] * 36, 1e5] for own in X], y)
    with pytest.warns(UserWarning, match="at=9 is beyond the documents of every query"):
        js.rankings.prepare(X, y, at=9)  # as `fit` does


def test_whole_weights_count_rows():
    X, y = rare(4)
    times = np.random.default_rng(0).permutation(np.arange(200) % 3)
    times[np.flatnonzero(times == 2)[:1]] += 1  # 200 in all: the programs of the other tests
    model = MeasureClassifier(tol=1e-2).fit(X, y, times)
    again = MeasureClassifier(tol=1e-2).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert (model.coef_ == again.coef_).all()
    back = MeasureClassifier(tol=1e-2).fit(X[::-1], y[::-1], times[::-1])
    assert (model.coef_ == back.coef_).all()
    assert model.score(X, y, times) == again.score(np.repeat(X, times, axis=0), np.repeat(y, times))
    refused(r"sample_weight\[0\] is 0.5: expected whole", model.fit, X, y, times + 0.5)
    refused(f"X has {len(X)} rows, but y has {2 * len(X)} labels", model.score, X, np.c_[y, y])


@pytest.mark.filterwarnings("default:labels are the texts")
def test_which_of_two_words_is_positive_is_said():
    X, y = rare(0)
    with pytest.warns(UserWarning, match="'yes', the later one.*fit\\(X, y == positive"):
        MeasureClassifier(tol=0.1).fit(X, y)
    with pytest.warns(UserWarning, match="classes=.negative, positive."):
        js.rankings.prepare_samples([X], [y])


@pytest.mark.parametrize(
    ("words", "y", "options"),
    [
        ("Only binary classification is supported.*two classes, got 3", np.arange(200) % 3, {}),
        ("loss is 'ndcg'; choose one of", rare(0)[1], {"loss": "ndcg"}),
        ("Delta of counts.*1 - tp / .*it raised TypeError", rare(0)[1], {"loss": f1_score}),
        ("jnp.where, not if.*it raised Tracer", rare(0)[1],
         {"loss": lambda tp, fp, fn, tn: fn if fp else fp}),
        ("finite and >= 0, got -", rare(0)[1], {"loss": lambda tp, fp, fn, tn: -fn - fp}),
        ("got nan for tp 0, fp 0, fn ", rare(0)[1],
         {"loss": lambda tp, fp, fn, tn: 1 - tp / (tp + fp)}),
        ("at must be below the examples of a sample, got 200", rare(0)[1],
         {"loss": "precision_at", "at": 200}),
        ('"log_loss" is none of MeasureClassifier', rare(0)[1], {"objective": "log_loss"}),
    ],
)  # fmt: skip
def test_refusals(words, y, options):
    refused(words, MeasureClassifier(**options).fit, rare(0)[0], y)


def test_scores_take_iterators(graded):
    X, y, ranker = graded
    assert ranker.score(iter(X), iter(y)) == ranker.score(X, y)
    x, labels = rare(0)
    model = MeasureClassifier(loss="f1", tol=1e-2).fit(x, labels)
    assert model.score(iter(x), iter(labels)) == model.score(x, labels)


N, P = 40, 3
Regressor = js.estimators.DecisionRegressor


def examples(decisions, n=N):
    random = np.random.default_rng(0)
    x, W = random.normal(size=(n, P)), random.normal(size=(P, decisions.size.value))
    return x, 3 + x @ W


PATHS, TWO_OF_FOUR = js.decisions.shortest_paths(ARCS, 0, 4), js.decisions.top_k(4, 2)


def test_decisions_costs_and_the_score():
    """Of the largest sums; of the least `test_instances_come_beside_the_rows`."""
    X, costs = examples(decisions := TWO_OF_FOUR)
    model = Regressor(decisions=decisions, C=20.0).fit(X, costs)
    predicted, found = model.predict_costs(X), model.predict(X)
    assert np.array_equal(found, js.decisions.decide(decisions, predicted))
    regret = js.decisions.regret(decisions, predicted, costs)
    assert model.score(X, costs) == pytest.approx(-regret, rel=1e-6) and regret < 0.05
    assert model.dual_ <= model.primal_ and model.status_ is js.Status.CONVERGED
    one = np.eye(N)[3]
    alone = js.decisions.regret(decisions, predicted[3:4], costs[3:4])
    assert model.score(X, costs, one) == pytest.approx(-alone, abs=1e-9)


@pytest.mark.thorough
def test_saved_and_loaded_explained_and_cloned(tmp_path):
    """A model that is trained, and of other decisions one of drawn weights."""
    fitted = Regressor(decisions=TWO_OF_FOUR, C=10.0).fit(*examples(TWO_OF_FOUR))
    for decisions in (
        TWO_OF_FOUR,
        PATHS,
        js.decisions.knapsack([2, 3, 1], np.inf),
        js.decisions.matchings(2, 3),
    ):
        X, costs = examples(decisions)
        model = fitted
        if decisions is not TWO_OF_FOUR:
            data = js.decisions.prepare(X, costs, decisions=decisions, constant=1.0)
            drawn = np.random.default_rng(1).normal(size=(P + 1, costs.shape[1]))
            model = js.trained(data, {"weights": drawn.astype(np.float32)})
        loaded = js.load(js.save(model, tmp_path / str(decisions.size.value)))
        assert np.array_equal(loaded.predict(X), model.predict(X))
        assert loaded.encoding.decisions.made == decisions.made
        assert loaded.encoding.decisions.sense == decisions.sense
    assert "constant" in str(js.explain(loaded)) and "constant" in str(js.explain(fitted))
    assert clone(fitted).get_params()["decisions"].made == TWO_OF_FOUR.made


def test_rows_of_all_kinds_and_a_pipeline():
    X, costs = examples(TWO_OF_FOUR)
    X[np.abs(X) < 0.5] = 0
    options = {"decisions": TWO_OF_FOUR, "C": 1.0, "tol": 1e-4}
    whole = Regressor(**options).fit(X, costs)
    named = [{str(j): value for j, value in enumerate(row) if value} for row in X]
    for rows in (csr_array(X), named):
        other = Regressor(**options).fit(rows, costs)
        assert other.primal_ == pytest.approx(whole.primal_, rel=2e-4)
        np.testing.assert_allclose(other.predict_costs(rows), whole.predict_costs(X), atol=0.05)
        assert other.score(rows, costs) == pytest.approx(whole.score(X, costs), abs=0.02)
    scaled = make_pipeline(StandardScaler(), Regressor(**options)).fit(X, costs)
    assert scaled.score(X, costs) <= 0


def test_instances_come_beside_the_rows():
    X, costs = examples(PATHS)
    ends = js.decisions.Ends(np.tile([0, 1], N // 2), np.tile([4, 3], N // 2))
    data = js.decisions.DecisionInput(X, ends)
    model = Regressor(decisions=PATHS, C=100.0).fit(data, costs)
    found, predicted = model.predict(data), model.predict_costs(data)
    assert np.array_equal(found, js.decisions.decide(PATHS, predicted, ends))
    regret = js.decisions.regret(PATHS, predicted, costs, ends)
    assert model.score(data, costs) == pytest.approx(-regret, rel=1e-6) and regret >= 0
    wrong = data._replace(instance=ends._replace(target=np.full(N, 6)))
    refused(r"instances.target\[0\] is 6", model.predict, wrong)


def test_what_does_not_fit_is_refused(tmp_path):
    X, costs = examples(decisions := TWO_OF_FOUR)
    refused("must be a Decisions", Regressor().fit, X, costs)
    refused(r"costs must be \[n = 40, d = 4\]", Regressor(decisions=decisions).fit, X, costs[:, :3])
    refused("NaN", Regressor(decisions=decisions).fit, X, costs * np.nan)
    model = Regressor(decisions=decisions).fit(X, costs)
    refused(r"y must be \[n = 40, d = 4\]", model.score, X, costs[:5])
    refused("columns", model.predict, X[:, :2])
    refused("log_loss", Regressor(decisions=decisions, objective="log_loss").fit, X, costs)

    def best(theta, instance):
        return decisions.best(theta, instance)

    mine = Regressor(decisions=js.decisions.own(4, best, "maximise")).fit(X, costs)
    assert np.array_equal(mine.predict(X), model.predict(X))
    refused("no code of yours", js.save, mine, tmp_path / "own")
