"""experiments.random_field_certificates on random words and made-up news."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from experiments.corpora.conll2002 import Conll2002
from experiments.lib import common
from experiments.random_field_certificates import command, methods, tasks
from experiments.random_field_certificates.command import Options
from experiments.random_field_certificates.methods import reached
from tests.experiments.handwriting_cases import random_words, write_letter_data
from tests.experiments.named_entities.cases import news
from tests.experiments.scripts import kept_settings, stop_after, strict_json

PEER = importlib.util.find_spec("pycrfsuite") is not None


def options_in(folder, **changes) -> Options:
    write_letter_data(folder / "letter.data", random_words())
    return Options(
        data=("words",), letter_data=str(folder / "letter.data"), sentences=8, epochs=30, batch=2,
        group=2, c_over_n=0.5, svm_tolerance=1e-2, evaluate_every=10, progress=False,
        output=str(folder),
    ).replace(**changes)  # fmt: skip


@pytest.fixture(scope="module")
def outcome(tmp_path_factory) -> common.Outcome:
    with kept_settings():
        return command.run(options_in(tmp_path_factory.mktemp("fields")))


def test_every_method_proves_its_end_point(outcome: common.Outcome) -> None:
    rows = {row["method"]: row for row in outcome.numbers["rows"]}
    assert list(rows) == [name for name in methods.METHODS if PEER or name != "crfsuite"]
    best = rows["lbfgs"]["primal"]
    for name in ("lbfgs", "dual", "stochastic", *["crfsuite"] * PEER):
        assert rows[name]["dual"] <= best * (1 + 1e-5) and rows[name]["excess"] >= -1e-6
        assert rows[name]["primal"] >= best * (1 - 1e-5), name
    assert rows["lbfgs"]["relative_gap"] < 1e-5 and rows["dual"]["relative_gap"] <= 1e-4
    assert 0 < rows["dual"]["reached"] <= 2 * rows["dual"]["wall"]  # two clocks
    assert rows["stochastic"]["excess"] < 0.1 and len(rows["stochastic"]["curve"]) == 3
    assert rows["svm"]["status"] == "CONVERGED"
    assert rows["svm_stochastic"]["primal"] >= rows["svm"]["dual"]
    assert all(0 <= row["test_error"] <= 100 for row in rows.values())


def test_the_table_and_the_picture_are_written(outcome: common.Outcome) -> None:
    assert {path.name for path in outcome.files} == {
        "random_field_certificates.json", "random_field_certificates.csv",
        "random_field_certificates_words.png", "random_field_certificates_words.plot.csv",
    }  # fmt: skip
    (path,) = (path for path in outcome.files if path.suffix == ".json")
    assert len(strict_json(path)["rows"]) == len(outcome.table.rows)


@pytest.mark.thorough
def test_sentences_and_their_strings(tmp_path, monkeypatch) -> None:
    """CRFsuite's weights, read by their strings, have our optimum: features, labels, C agree."""
    corpus = Conll2002(news(8), news(2, seed=1), news(4, seed=2))
    monkeypatch.setattr(tasks, "load_conll2002", lambda *_: corpus)
    wanted = ("lbfgs", "crfsuite") if PEER else ("lbfgs",)
    options = options_in(tmp_path, data=("sentences",), methods=wanted)
    with kept_settings():
        rows = command.run(options).numbers["rows"]
    assert [row["method"] for row in rows] == list(wanted)
    assert rows[0]["title"] == "8 Spanish sentences" and rows[0]["test_error"] < 30
    np.testing.assert_allclose(rows[-1]["primal"], rows[0]["primal"], rtol=1e-4)
    assert rows[-1]["test_error"] == rows[0]["test_error"] and rows[-1]["relative_gap"] < 1e-2


@pytest.mark.thorough
def test_words_by_a_kernel(tmp_path) -> None:
    """(<x, z> + 1)^2 separates random letters; CRFsuite, which reads strings, is left out."""
    wanted = ("lbfgs", "crfsuite", "stochastic")
    options = options_in(tmp_path, data=("kernel_words",), methods=wanted, kernel_examples=8)
    with kept_settings():
        rows = command.run(options).numbers["rows"]
    assert [row["method"] for row in rows] == ["lbfgs", "stochastic"]
    assert rows[0]["relative_gap"] < 1e-4 and rows[1]["primal"] > rows[0]["dual"]
    assert rows[0]["c_over_n"] == 10.0 and rows[0]["title"] == "8 OCR words, kernel"
    pixels = np.random.default_rng(0).integers(0, 2, (3, 5)).astype(float)
    gram = tasks._kernel_rows(pixels, pixels)
    np.testing.assert_allclose(np.diagonal(gram), 1, rtol=1e-6)
    expected = (pixels @ pixels.T + 1) ** 2
    roots = np.sqrt(np.diagonal(expected))
    np.testing.assert_allclose(gram, expected / np.outer(roots, roots), rtol=1e-6)


def test_a_level_is_reached_at_the_first_point_below_it() -> None:
    curve = np.array([[1.0, 10.0, 5.0], [2.0, 8.0, 7.9], [3.0, 8.0, 8.0]])
    assert reached(curve, 0.0125) == 2.0 and reached(curve, 1e-9) == 3.0
    assert reached(curve[:1], 0.1) is None and reached(np.zeros((0, 3)), 0.1) is None


def test_ctrl_c_keeps_the_tasks_that_were_finished(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(command, "measurements", stop_after(1, [{"primal": 1.0}]))
    monkeypatch.setitem(command.TASKS, "sentences", lambda *_: None)
    with kept_settings(), pytest.raises(common.Stopped):
        command.run(options_in(tmp_path, data=("words", "sentences")))
    content = strict_json(tmp_path / "random_field_certificates.stopped.json")
    assert content["rows"] == [{"primal": 1.0}]
