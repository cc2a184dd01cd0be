"""PairAligner: texts in, aligned rows out."""

from __future__ import annotations

import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import jaxstruct as js
from jaxstruct.estimators import PairAligner
from tests.estimators.cases import reordered
from tests.lib.refusals import refused

ROWS = [("ACGTTGCA", "ACG--GCA"), ("TTGACA", "T-GGCA"), ("GATTACA", "GA-TGCA")] * 2
PAIRS = [tuple(row.replace("-", "") for row in pair) for pair in ROWS]


def test_the_optimum_is_that_of_fit() -> None:
    model = PairAligner(3.0).fit(PAIRS, ROWS)
    solution = js.fit(*js.alignments.prepare(ROWS), "svm1_margin", C=3.0)
    assert model.primal_ >= solution.dual and solution.primal >= model.dual_
    assert model.predict(PAIRS)[0] == ROWS[0]
    assert model.costs_.substitution.shape == (4, 4) and model.costs_.gap_open > 0
    assert model.alphabet_.letters == "ACGT" or tuple(model.alphabet_.letters) == tuple("ACGT")


def test_log_loss_trains_pair_random_fields() -> None:
    model = PairAligner(3.0, objective="log_loss").fit(PAIRS, ROWS)
    assert model.dual_ <= model.primal_ <= model.dual_ * (1 + model.tol) + 1e-6
    assert model.predict(PAIRS)[0] == ROWS[0]


def test_the_score_counts_partners_of_letters() -> None:
    model = PairAligner(3.0).fit(PAIRS, ROWS)
    assert model.score(PAIRS[:1], ROWS[:1]) == 1.0
    moved = [("ACGTTGCA", "A--CGGCA")]  # C and G of the second row stand elsewhere: 6 of 14 differ
    assert model.score(PAIRS[:1], moved) == pytest.approx(1 - 6 / 14)
    assert model.score(PAIRS[:2], ROWS[:1] + [ROWS[1]], [1, 0]) == 1.0


@pytest.mark.thorough
def test_a_pipeline_and_a_grid_search() -> None:
    model = make_pipeline(FunctionTransformer(list), PairAligner(letters="ACGT"))
    grid = {"pairaligner__C": [1.0, 10.0]}
    search = GridSearchCV(model, grid, cv=reordered(6)).fit(PAIRS, ROWS)
    assert search.best_score_ > 0.8


def test_errors_name_the_pair() -> None:
    refused(r"y\[0\] aligns", lambda: PairAligner().fit([("AC", "AC"), *PAIRS[1:]], ROWS))
