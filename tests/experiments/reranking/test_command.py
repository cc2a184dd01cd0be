"""experiments.reranking on drawn words and trees: rows, files, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.lib import common
from experiments.reranking import command
from experiments.reranking.command import Options
from tests.experiments.handwriting.cases import random_words, write_letter_data
from tests.experiments.parsing.cases import drawn_trees, write_trees
from tests.experiments.scripts import kept_settings, parsed_options, strict_json


def options_in(folder, **changes) -> Options:
    write_letter_data(folder / "letter.data", random_words())
    return Options(
        tasks=("words", "trees"), machines=("svm1_margin", "perceptron"), k_words=3, k_trees=2,
        base_folds=2, letter_data=str(folder / "letter.data"), train_folds=("0", "1"),
        train_trees=write_trees(folder / "train.mrg", drawn_trees(0, 40)),
        test_trees=write_trees(folder / "test.mrg", drawn_trees(1, 30)),
        c_path=("0.01", "0.1"), least_seen=1, compilation_cache=False, progress=False,
        output=str(folder),
    )._replace(**changes)  # fmt: skip


@pytest.fixture(scope="module")
def outcome(tmp_path_factory) -> common.Outcome:
    with kept_settings():
        return command.run(options_in(tmp_path_factory.mktemp("reranking")))


def test_no_machine_beats_the_list(outcome: common.Outcome) -> None:
    rows = outcome.numbers["rows"]
    assert [(row["task"], row["who"]) for row in rows] == [
        (task, who)
        for task in ("words", "trees")
        for who in ("one best", "best of k", "svm1_margin", "perceptron")
    ]
    for task in ("words", "trees"):
        first, best, *machines = (row for row in rows if row["task"] == task)
        assert set(first["places"]) == {0} and max(best["places"]) > 0
        assert first["whole"] <= best["whole"] <= 100 and first["second"] < best["second"]
        for row in machines:
            assert row["whole"] <= best["whole"]
            assert len(row["places"]) == len(first["places"])
            moved = np.flatnonzero(row["places"])
            assert len(row["costs"]) == len(moved)
        assert machines[0]["status"] == "CONVERGED" and machines[0]["c_over_n"] in (0.01, 0.1)
        assert machines[0]["primal"] >= machines[0]["dual"] > 0
        assert len(machines[0]["c_path"]) == 2 and "c_over_n" not in machines[1]
    lists = outcome.numbers["lists"]
    assert lists["words"]["train"]["inputs"] == 16 and lists["words"]["test"]["inputs"] == 8
    assert lists["trees"]["train"]["inputs"] == 40


def test_trees_gain_what_the_grammar_cannot_say(outcome: common.Outcome) -> None:
    """A noun phrase that is a pronoun takes no prepositional phrase: a rule and the one above."""
    first, best, svm, _ = (row for row in outcome.numbers["rows"] if row["task"] == "trees")
    assert first["second"] < svm["second"] <= best["second"]


def test_the_table_and_the_pictures_are_written(outcome: common.Outcome) -> None:
    assert {path.name for path in outcome.files} == {
        "reranking.json", "reranking.csv", "reranking_words.png", "reranking_words.plot.csv",
        "reranking_trees.png", "reranking_trees.plot.csv",
    }  # fmt: skip
    (path,) = (path for path in outcome.files if path.suffix == ".json")
    assert len(strict_json(path)["rows"]) == 8
    assert outcome.table.rows[0][5:8] == [None] * 3


def test_what_is_refused(tmp_path) -> None:
    with kept_settings(), pytest.raises(ValueError, match="give both files, or neither"):
        command.run(options_in(tmp_path, test_trees=None))
    with kept_settings(), pytest.raises(ValueError, match="held_out: got 1.0, which holds out"):
        command.run(options_in(tmp_path, held_out=1.0, tasks=("words",)))


def test_flags_match_the_options() -> None:
    assert parsed_options(Options, "--tasks=trees", "--k_trees=3") == Options(
        tasks=("trees",), k_trees=3
    )
