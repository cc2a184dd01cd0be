"""experiments.digits: the known optima to 1e-6, and what Ctrl-C leaves."""

from __future__ import annotations

import pytest

from experiments import digits
from experiments.digits import Options
from experiments.lib import common
from experiments.lib.peers import DIGITS_OPTIMA
from tests.experiments.scripts import QUIET, options_of, strict_json

options = options_of(
    Options, formulations=("svm1_margin",), c_over_n=("0.1",), tolerance=1e-9, x64=True
)


def test_the_known_optima_are_met(outcome):
    (row,) = outcome.numbers["rows"]
    optimum = DIGITS_OPTIMA[row["c_over_n"]]
    assert row["status"].name == "CONVERGED" and row["primal"] >= row["dual"]
    assert [row["primal"], row["dual"]] == pytest.approx([optimum] * 2, abs=1e-6)
    assert row["relative_gap"] == pytest.approx(1 - row["dual"] / row["primal"], abs=1e-15)
    assert row["test_error"] == pytest.approx(100 * 12 / 450)
    assert 0 < row["support_planes"] and row["oracle_calls"] >= 1347 * row["passes"]
    assert row["compilations"] == 0  # of the second training, which the row describes
    assert any("29.9341439 for C' = 0.1" in note for note in outcome.table.notes)
    record = strict_json(outcome.files[0])["record"]
    assert record["flags"]["tolerance"] == 1e-9 and record["dtype"] == "float64"


@pytest.mark.smoke
def test_a_part_of_the_examples_is_not_compared_with_the_optimum_of_all():
    row = {"formulation": "svm1", "c_over_n": 0.1}
    data = digits.load_digits_split()
    assert digits._known(Options(), data, row) == DIGITS_OPTIMA[0.1]
    part = data._replace(train_x=data.train_x[:9], train_y=data.train_y[:9])
    assert digits._known(Options(), part, row) is None
    assert digits._known(Options(seed=1), data, row) is None


def test_ctrl_c_keeps_the_trainings_that_are_done(tmp_path, monkeypatch):
    calls, fitted = [], digits.fitted

    def two_and_no_more(*arguments, **named):
        calls.append(1)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return fitted(*arguments, **named)

    monkeypatch.setattr(digits, "fitted", two_and_no_more)
    options = Options(  # as many examples as in a quick run of `reproduce`, for its programs
        formulations=("svm1",), c_over_n=("0.1", "1"), examples=200, tolerance=0.1,
        output=str(tmp_path), **QUIET,
    )  # fmt: skip
    with pytest.raises(common.Stopped, match="digits.stopped.json"):
        digits.run(options)
    (path,) = tmp_path.iterdir()
    content = strict_json(path)
    assert content["stopped"] is True and [row["c_over_n"] for row in content["rows"]] == [0.1]
    assert content["record"]["command"].count("python -m experiments.digits ") == 1
    monkeypatch.setattr(digits, "fitted", fitted)
    digits.run(options)
    assert path.name not in {each.name for each in tmp_path.iterdir()}
