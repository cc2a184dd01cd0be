"""experiments.alignment: trainings and resuming, on few small samples."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import alignment
from experiments.alignment import Mean, Options, best_gap_cost, distance, mean_of
from experiments.lib import common
from experiments.lib.report import Table
from jaxstruct import Status
from tests.experiments.scripts import QUIET, options_of, stop_after, strict_json

options = options_of(
    Options, sizes=("3",), samples=2, test_examples=10, epsilon=0.5, epsilons=("0.9", "0.5"),
    epsilon_size=3, readings=("end:0.01",), gap_costs=("1",), oracle_batch=1,
)  # fmt: skip


def part(outcome, name):
    return [row for row in outcome.numbers["rows"] if row["part"] == name]


def test_every_training_is_there_and_certified(outcome):
    for name, count in (("table", 2), ("generative", 2), ("epsilon", 4), ("reading", 2)):
        assert len(part(outcome, name)) == count, name
    for row in part(outcome, "table") + part(outcome, "epsilon") + part(outcome, "reading"):
        assert row["status"].name == "EPSILON"
        assert 0 <= row["gap"] == pytest.approx(row["primal"] - row["dual"])
        assert 0 < row["support_planes"] <= row["planes"] < row["plane_bound"]
        assert 0 <= row["train_error"] <= 100 and 0 <= row["test_error"] <= 100
    assert {row["gap_costs"][0] for row in part(outcome, "generative")} == {0.2}
    errors = [row["test_error"] for row in part(outcome, "table")]
    assert np.mean(errors) < 50  # chance takes a decoy in 91 % of the cases
    same = [row["primal"] for row in part(outcome, "epsilon") if row["epsilon"] == 0.5]
    assert same == [row["primal"] for row in part(outcome, "table")]


def test_means():
    assert mean_of([1.0, 3.0]) == Mean(2.0, 1.0)
    assert distance(Mean(2.0, 3.0), (7.0, 4.0)) == 1.0
    rows = [{"gap_costs": [0.2, 1.0], "test_errors": np.array([5.0, 4.0])}] * 2
    assert best_gap_cost(rows) == 1.0


def test_ctrl_c_keeps_the_samples_that_are_done_and_resume_goes_on(tmp_path, monkeypatch):
    trained = {"n": 4, "status": Status.EPSILON}
    monkeypatch.setattr(alignment, "svm_trial", stop_after(1, trained))
    monkeypatch.setattr(alignment, "generative_trial", stop_after(1, {"n": 4}))
    small = {"sizes": ("4",), "samples": 2, "test_examples": 5, "epsilons": ()}
    options = Options(output=str(tmp_path), **small, **QUIET)
    with pytest.raises(common.Stopped, match="--resume"):
        alignment.run(options)
    content = strict_json(tmp_path / "alignment.stopped.json")
    assert [row["part"] for row in content["rows"]] == ["table", "generative"]

    monkeypatch.setattr(alignment, "svm_trial", stop_after(1, trained | {"second": True}))
    monkeypatch.setattr(alignment, "generative_trial", stop_after(1, {"n": 4}))
    monkeypatch.setattr(alignment, "make_tables", lambda *_: (Table("T", ["a"], [[1]]), []))
    monkeypatch.setattr(alignment, "make_plots", lambda *_: {})
    rows = alignment.run(options.replace(resume=True)).numbers["rows"]
    found = [(row["sample"], row["part"], "second" in row) for row in rows]
    trials = [(0, "table", False), (0, "generative", False), (1, "table", True)]
    assert found == [*trials, (1, "generative", False)]
    assert rows[0]["status"] is rows[2]["status"] is Status.EPSILON
