"""What the tables and plots show, beside the paper and without it."""

from __future__ import annotations

import pytest

from experiments.named_entities.command import Options
from experiments.named_entities.report import PAPER_SVM, Row, error_plot, table_three, table_two
from jaxstruct import Status
from tests.experiments.named_entities.cases import corpora


@pytest.mark.parametrize("changed", [{}, {"sentences": 16}, {"language": "ned"}])
def test_the_paper_stands_only_beside_its_own_sentences(sentences, changed):
    options, known = Options(**changed), not changed
    numbers = {"constraints": 9, "support": 2, "average_loss": 1.0, "status": Status.EPSILON}
    row = Row("SVM", "", "degree 2", "1", "svm2", True, (measured_fold(4.0, **numbers),))
    corpus, _ = corpora(sentences)
    plot = error_plot(options, [row])
    assert ("paper" in plot.data.columns) == known
    assert ("5.08" in table_two(options, corpus, [row]).rows[0]) == known
    third = table_three(options, corpus, [row])
    assert ("2824 ± 106" in third.rows[0]) == known
    assert len(third.rows[0]) == len(third.columns)


def measured_fold(error, **numbers):
    """What one training might have measured."""
    scores = {"token_error": error, "precision": 50.0, "recall": 40.0, "f1": 44.4}
    return {"train": scores | {"token_error": 0.5}, "test": scores, "seconds": 1.0,
            "compile_seconds": 0.5} | numbers  # fmt: skip


def test_table_3_shows_the_paper_beside_the_means(sentences):
    folds = [
        {"constraints": count, "support": 20, "average_loss": loss, "status": Status.EPSILON}
        for count, loss in ((100, 1.1), (110, 1.3))
    ]
    folds = tuple(measured_fold(error, **fold) for error, fold in zip((4, 6), folds, strict=True))
    rows = [
        Row("SVM", "", "degree 2", C, form, True, folds) for form in PAPER_SVM for C in ("1", "n")
    ]
    corpus, _ = corpora(sentences)
    table = table_three(Options(kernel_C=("1", "n")), corpus, rows)
    assert [row[:2] for row in table.rows] == [
        [name, C] for C in ("1", "n") for name in ("SVM2", "SVM2 Δs", "SVM2 Δm")
    ]
    assert [tuple(row[2:-1:2]) for row in table.rows] == [*PAPER_SVM.values()] * 2
    assert {tuple(row[3::2]) + (row[-1],) for row in table.rows} == {
        ("0.50 ± 0.00", "5.00 ± 1.41", "105 ± 7", "1.20 ± 0.14", "20 ± 0")
    }
    second = table_two(Options(), corpus, rows)
    assert [row[2:5] for row in second.rows] == [[C, "5.08", "5.00 ± 1.41"] for C in ("1", "n")]


def test_tables_leave_out_what_was_not_measured(sentences):
    corpus, _ = corpora(sentences)
    fold = measured_fold(10.0)
    fold["test"] |= {"precision": None, "recall": None, "f1": None}
    fold["train"] |= {"token_error": 10.0}
    row = Row("HMM", "", "words", None, None, True, (fold,))
    table = table_two(Options(), corpus, [row])
    assert table.rows == [
        ["HMM", "words", None, "9.36", "10.00", "10.00", *[None] * 3, "1.0", "0.5"]
    ]
    assert not table_three(Options(), corpus, [row]).rows
