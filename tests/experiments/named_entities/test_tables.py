"""Tables 2 and 3: folds, machines, resumed and stopped runs."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.named_entities import command as named_entities
from experiments.named_entities import tables
from experiments.named_entities.command import Options
from experiments.named_entities.report import CHOSEN, PAPER_SVM, Row
from experiments.tasks import taggers as methods
from tests.experiments.named_entities.cases import CHEAP, corpora
from tests.experiments.scripts import strict_json


@pytest.mark.thorough
def test_every_machine_is_measured_on_every_fold_and_written(archive, tmp_path, monkeypatch):
    """One test, so that the programs are compiled in one worker only."""
    options = Options(path=archive, output=str(tmp_path), **CHEAP)
    outcome = named_entities.run(options)
    rows = {(row.name, row.tokens): row for row in outcome.numbers["rows"]}
    assert set(rows) == {
        ("commonest label", "none"), ("HMM", "words"), ("HMM, spelling", "words"),
        ("CRF", "linear"), ("SVM", "degree 2"), ("perceptron", "degree 2"),
        ("perceptron, averaged", "degree 2"),
    }  # fmt: skip
    yardstick = [fold["test"]["token_error"] for fold in rows["commonest label", "none"].folds]
    for row in rows.values():
        assert len(row.folds) == 2 and all(fold["seconds"] > 0 for fold in row.folds)
        errors = [fold["test"]["token_error"] for fold in row.folds]
        assert row.method == "commonest label" or np.mean(errors) < np.mean(yardstick), row.name
    for fold in rows["SVM", "degree 2"].folds:
        assert fold["test"]["token_error"] < 20 and 1 <= fold["average_loss"] <= 7
        assert fold["constraints"] >= fold["support"] > 0 and fold["C"] == 8
        assert fold["status"].name == "EPSILON" and fold["violation"] <= 0.1
    check_files(outcome)
    check_resumed(options, outcome, monkeypatch)


def check_files(outcome):
    content = strict_json(outcome.files[0])
    names = {path.name for path in outcome.files if path.suffix == ".csv"}
    others = {f"named_entities{end}.csv" for end in ("_differences", "_table_3", "")}
    assert names == others | {"named_entities.plot.csv"}
    shown = outcome.files[1].read_text(encoding="utf-8")
    assert not any(figure in shown for figure in ("paper", "9.36", "5.17", "5.94", "5.08"))
    row = next(row for row in content["rows"] if row["method"] == "CRF")
    errors = [fold["test"]["token_error"] for fold in row["folds"]]
    assert f"{np.mean(errors):.2f},{np.std(errors, ddof=1):.2f}" in shown


def check_resumed(options, outcome, monkeypatch):
    """An interrupted run goes on: only what was not measured, or measured otherwise, is trained."""
    folder = outcome.files[0].parent / tables.FOLDER
    kept = sorted(path.name for path in folder.iterdir())
    assert len(kept) == 2 * 6 and "SVM_degree_2_svm2_1_fold0.json" in kept
    trained = []
    monkeypatch.setattr(methods, "fit", lambda *_, **__: trained.append(1) or 1 / 0)
    again = named_entities.run(options.replace(resume=True))
    assert again.table == outcome.table and not trained
    (folder / "SVM_degree_2_svm2_1_fold0.json").unlink()
    for changed in (options.replace(resume=True), options.replace(resume=True, seed=1)):
        with pytest.raises(ZeroDivisionError):
            named_entities.run(changed)
    assert len(trained) == 2


def test_the_words_of_methods_name_the_machines_of_both_tables():
    options = Options(C=("1/n", "1"), table_3_C=("1/n", "1"))
    jobs = tables._jobs(options)
    named = {
        room: [(row.name, row.tokens, row.setting, row.formulation) for job in own
               for row in job.rows]
        for room, own in jobs.items()
    }  # fmt: skip
    assert named["kernel"] == [
        ("perceptron", "degree 2", CHOSEN, None),
        ("perceptron, averaged", "degree 2", CHOSEN, None), ("SVM", "degree 2", CHOSEN, "svm2"),
        *(("SVM", "degree 2", C, form) for form in PAPER_SVM for C in ("1/n", "1")),
    ]  # fmt: skip
    assert named["linear"][-1] == ("SVM", "linear", CHOSEN, "svm2")
    compared = [row.method for own in jobs.values() for job in own for row in job.rows
                if row.compared and row.setting == CHOSEN]  # fmt: skip
    assert compared == ["HMM", "CRF", "perceptron", "SVM"]
    every = tables._jobs(options.replace(inner_folds=0, smoothing=("1",)))
    svms = [(job.rows[0].formulation, *job.settings) for job in every["kernel"]
            if job.rows[0].method == "SVM"]  # fmt: skip
    assert svms == [(form, C) for form in PAPER_SVM for C in ("1/n", "1")]


def test_every_machine_takes_its_setting_of_least_inner_error(sentences):
    """Made-up errors: the last setting is best in the inner folds and the first in the outer."""
    corpus, _ = corpora(sentences)
    outer = methods.fold_of(corpus, np.arange(4, 16), np.arange(4))
    inner: list[methods.Fold] = []

    def train(fold, problem, setting):
        if fold.used is None:
            assert list(fold.parts["test"]) == [0, 1, 2, 3]
        else:
            inner.append(fold)
        errors = {"a": (3.0, 1.0), "b": (2.0, 1.0), "c": (1.0, 2.0)}[setting]
        return tuple({"test": {"token_error": e}, "machine": setting} for e in errors)

    row = Row("CRF", "", "linear", CHOSEN, None, True)
    job = tables.Job((row, row._replace(variant="averaged")), ("a", "b", "c"), train)
    first, second = tables.train_at_best(job, outer, None, 2, 0)
    assert (first["setting"], first["machine"]) == ("c", "c")
    assert (second["setting"], second["machine"]) == ("a", "a"), "of equal ones the first"
    assert first["inner_errors"] == {"a": 3.0, "b": 2.0, "c": 1.0}
    assert len(inner) == 2 * 3
    held = [set(fold.parts["test"]) for fold in (inner[0], inner[3])]
    assert held[0] | held[1] == set(range(4, 16)) and not held[0] & held[1]
    for fold in inner:
        names = [fold.whole.sentences[i] for i in fold.parts["train"]]
        assert list(methods.seen(fold).sentences) == names
        assert np.array_equal(4 + np.flatnonzero(fold.used == 0), fold.parts["test"])
