"""What the tables and plots show, beside the paper and without it."""

from __future__ import annotations

import pytest
from scipy.stats import ttest_1samp

from experiments.named_entities import report
from experiments.named_entities.command import Options
from experiments.named_entities.report import CHOSEN, PAPER_SVM, Row, table_three, table_two
from jaxstruct import Status
from tests.experiments.named_entities.cases import corpora


def measured_fold(error, **numbers):
    """What one training might have measured."""
    scores = {"token_error": error, "precision": 50.0, "recall": 40.0, "f1": 44.4}
    return {"train": scores | {"token_error": 0.5}, "test": scores, "seconds": 1.0,
            "compile_seconds": 0.5} | numbers  # fmt: skip


def test_table_3_shows_the_paper_beside_the_means(sentences):
    solved = {"support": 20, "status": Status.EPSILON}
    folds = tuple(
        measured_fold(error, constraints=count, average_loss=loss, **solved)
        for error, count, loss in ((4, 100, 1.1), (6, 110, 1.3))
    )
    rows = [
        Row("SVM", "", "degree 2", C, form, True, folds) for form in PAPER_SVM for C in ("1/n", "1")
    ]
    corpus, _ = corpora(sentences)
    table = table_three(Options(table_3_C=("1/n", "1")), corpus, rows)
    assert [row[:2] for row in table.rows] == [
        [name, C] for C in ("1/n", "1") for name in ("SVM2", "SVM2 Δs", "SVM2 Δm")
    ]
    assert [tuple(row[2:-1:2]) for row in table.rows] == [*PAPER_SVM.values()] * 2
    assert {tuple(row[3::2]) + (row[-1],) for row in table.rows} == {
        ("0.50 ± 0.00", "5.00 ± 1.41", "105 ± 7", "1.20 ± 0.14", "20 ± 0")
    }
    second = table_two(Options(), corpus, rows)
    assert [row[2:5] for row in second.rows] == [[C, "5.08", "5.00 ± 1.41"] for C in ("1/n", "1")]
    others = table_three(Options(sentences=16), corpus, rows).columns
    assert not any("paper" in column for column in others)  # of other sentences than the paper's


def test_differences_are_tested_over_folds_and_sentences(sentences):
    """Five sentences of one fold, all better by a token: 2 of 32 draws of signs are as far off."""
    ours, theirs = (
        tuple(measured_fold(error, wrong=wrong) for error, wrong in folds)
        for folds in (
            ((4.0, [0, 1, 0]), (5.0, [0, 2]), (6.0, [1])),
            ((5.0, [1, 2, 1]), (6.5, [0, 3]), (8.0, [2])),
        )
    )
    rows = [
        Row("SVM", "", "degree 2", CHOSEN, "svm2", True, ours),
        Row("SVM", "", "degree 2", "1/n", "svm2", True, theirs),
        Row("CRF", "", "linear", CHOSEN, None, True, theirs),
    ]
    (line,) = report.differences(Options(), rows).rows
    assert line[:3] == ["CRF", "linear", "-1.50 ± 0.50"]
    assert line[3] == pytest.approx(ttest_1samp([-1, -1.5, -2], 0).pvalue)
    assert line[4:7] == ["3 of 3", 0.25, "5, 0"] and line[7] == pytest.approx(2 / 32)
    chosen = zip(theirs, "aba", strict=True)
    row = Row("HMM", "", "words", CHOSEN, None, True)._replace(
        folds=tuple(fold | {"setting": word} for fold, word in chosen)
    )
    assert table_two(Options(), corpora(sentences)[0], [row]).rows[0][2] == "a x2, b"
