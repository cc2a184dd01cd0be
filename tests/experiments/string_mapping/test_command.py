"""experiments.string_mapping on a small draw: tables, files and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.lib import common
from experiments.string_mapping import command as string_mapping
from experiments.string_mapping.command import Options
from tests.experiments.scripts import kept_settings, parsed_options, strict_json


def options_in(folder, **changes) -> Options:
    return Options(
        strings=40, folds=2, repeats=1, reading_repeats=1, readings=("C / n = 1 / n",),
        methods=("baseline", "k-NN", "KDE", "SVM2 Δm"),
        compilation_cache=False, progress=False, output=str(folder),
    )._replace(**changes)  # fmt: skip


@pytest.fixture(scope="module")
def outcome(tmp_path_factory) -> common.Outcome:
    with kept_settings():
        return string_mapping.run(options_in(tmp_path_factory.mktemp("string_mapping")))


def test_rows_have_every_fold_and_measure(outcome: common.Outcome) -> None:
    rows = outcome.numbers["rows"]
    assert [row["method"] for row in rows] == ["baseline", "k-NN", "KDE", "SVM2 Δm"]
    for row in rows:
        each = np.array(row["errors"])
        assert each.shape == (1, 2, 3)
        np.testing.assert_allclose(row["mean"], each.mean(axis=(0, 1)))
        loss, zero_one, distance = row["mean"]
        assert 0 <= loss <= zero_one <= 1 and loss <= distance / np.sqrt(2) <= zero_one
        assert len(row["details"]) == 2
    assert all(one["status"] == "CONVERGED" for row in rows[3:] for one in row["details"])


def test_a_reading_changes_what_it_says(outcome: common.Outcome) -> None:
    rows, others = outcome.numbers["rows"], outcome.numbers["readings"]
    assert {row["reading"] for row in others} == {"C / n = 1 / n"}
    for row, other in zip(rows, others, strict=True):
        if row["method"].startswith("SVM"):
            assert (row["details"][0]["C"], other["details"][0]["C"]) == (20, 1)
        else:
            assert row["errors"] == other["errors"]


def test_tables_are_written(outcome: common.Outcome) -> None:
    names = {path.name for path in outcome.files}
    stems = ("string_mapping.json", "string_mapping_readings.json")
    assert names >= {*stems, "string_mapping.csv", "string_mapping_readings.csv"}
    assert {"string_mapping.png", "string_mapping.plot.csv"} <= names
    for path in outcome.files:
        if path.name in stems:
            assert len(strict_json(path)["rows"]) == 4
    assert outcome.table.rows[0][1] == "0.903 ± 0.026"


def test_measures_near_the_papers_are_named() -> None:
    near = string_mapping._near({"method": "SVM2", "mean": (0.73, 0.95, 0.85)})
    assert near == "1 - L, distance"
    assert string_mapping._near({"method": "SVM2", "mean": (0.1, 0.1, 0.1)}) == "none"


@pytest.mark.parametrize("text", ["many", "0", "inf"])
def test_another_C_is_refused(text: str, tmp_path) -> None:
    with kept_settings(), pytest.raises(ValueError, match="C: got .*, expected n or a number"):
        string_mapping.run(options_in(tmp_path, C=text))


def test_flags_match_the_options() -> None:
    assert parsed_options(Options, "--noise=deletions", "--C=1", "--readings=") == Options(
        noise="deletions", C="1", readings=()
    )
