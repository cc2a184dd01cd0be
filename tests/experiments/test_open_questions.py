"""experiments.open_questions: its statistics by hand, its machines beside `fit`, and small runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from experiments.lib import common
from experiments.lib.report import Table
from experiments.open_questions import bounds, choice, command, sparseness
from experiments.open_questions.command import Options
from experiments.open_questions.data_sets import DATA_SETS
from jaxstruct import fit
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from tests.experiments.scripts import options_of, raising, strict_json


def test_ranks_and_the_critical_difference_are_demsars() -> None:
    losses = np.random.default_rng(0).random((14, 4))
    found = bounds.ranking_of(losses)
    assert found.difference == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), rel=1e-3)
    ranks = np.argsort(np.argsort(losses, axis=1), axis=1).mean(axis=0) + 1
    np.testing.assert_allclose(found.ranks, ranks)
    statistic = 12 * 14 / (4 * 5) * (np.sum(ranks**2) - 4 * 5**2 / 4)
    assert found.statistic == pytest.approx(statistic)
    assert found.p == pytest.approx(stats.chi2.sf(statistic, 3))
    assert bounds.ranking_of(np.array([[1.0, 1.0, 2.0]] * 3)).ranks.tolist() == [1.5, 1.5, 3.0]


def test_exponents_are_those_of_planted_power_laws() -> None:
    samples, values = np.repeat([0, 1, 2], 4), np.tile([0.01, 0.03, 0.1, 0.3], 3)
    counts = np.array([7.0, 50.0, 900.0])[samples] * values**-0.4
    found = sparseness.exponent_of(values, counts, samples)
    assert found.slope == pytest.approx(-0.4) and found.half < 1e-6
    noisy = counts * np.exp(np.random.default_rng(0).normal(scale=0.1, size=12))
    one = samples == 1
    found = sparseness.exponent_of(values[one], noisy[one], samples[one])
    want: Any = stats.linregress(np.log(values[one]), np.log(noisy[one]))
    assert found.slope == pytest.approx(want.slope)
    assert found.half == pytest.approx(stats.t.ppf(0.975, 2) * want.stderr)


@pytest.mark.thorough
@pytest.mark.parametrize("formulation", ["svm1_margin", "svm2_slack"])
def test_every_choice_ends_at_the_optimum_of_fit(formulation: str) -> None:
    n = 12  # as many as in the run of the command below, for its programs
    split = DATA_SETS["digits"].draw(0, (n, 0, 0), "float32")
    data = choice.of_split(split)
    solution = fit(split.problem, *split.train, formulation, 4.0, tolerance=1e-4)
    for rule in choice.RULES:
        machine = choice.Machine(data, FORMULATIONS[formulation], 4.0, 1e-4)
        found = choice.train(machine, rule, np.random.default_rng(0))
        assert found["primal"] - found["dual"] <= 1e-4 * found["primal"]
        assert solution.dual <= found["primal"] * (1 + 1e-6), rule
        assert found["dual"] <= solution.primal * (1 + 1e-6), rule
        assert found["support"] <= found["constraints"] <= len(data.losses)
        if rule in ("worst block", "all blocks"):
            assert found["calls"] == n * found["qps"]
        elif rule != f"{choice.K_BEST} best":
            assert found["constraints"] == found["qps"] <= found["calls"]


def test_strings_are_listed_as_the_machine_sees_them() -> None:
    split = DATA_SETS["strings"].draw(0, (8, 0, 0), "float32")
    solution = fit(split.problem, *split.train, "svm1_margin", 40.0, tolerance=1e-4)
    data = choice.listed("strings", 0, 8, "float32")
    machine = choice.Machine(data, FORMULATIONS["svm1_margin"], 40.0, 1e-4)
    found = choice.train(machine, "most violated", np.random.default_rng(0))
    assert found["dual"] == pytest.approx(solution.dual, rel=3e-4)


@pytest.mark.parametrize("formulation", sparseness.MARGINS)
def test_radius_and_loss_are_other_units_of_c_and_epsilon(formulation: str) -> None:
    """Powers of two, so that every number is the same but for its exponent."""

    def count(**changes: float) -> int:
        setting = sparseness.BASE | {"n": 6.0} | changes
        row = sparseness._counted(Options(), "digits", formulation, 0, setting, "float32")
        assert row["status"] == "EPSILON" and row["constraints"] <= row["bound"]
        product = row["constraints"] * row["worth"] * row["rise"]
        assert product == pytest.approx(row["bound"])
        return row["constraints"]

    assert count(R=0.5) == count(C=0.25) != count()
    linear = formulation == "svm1_margin"  # sqrt(Delta) is the margin of squared slacks
    same = {"C": 0.25, "epsilon": 0.025} if linear else {"epsilon": 0.05}
    assert count(Delta=4.0) == count(**same)


options = options_of(Options, data=("digits",), share=0.1, splits=1, samples=1, points=3, gap=0.1)


def test_every_question_has_its_files(options: Options, outcome: common.Outcome) -> None:
    names = {path.name for path in outcome.files}
    assert {f"open_questions_{each}.json" for each in options.questions} <= names
    assert not any(name.endswith(".png") for name in names)  # of one data set there is no picture
    paths = (path for path in outcome.files if path.suffix == ".json")
    rows = {path.stem: strict_json(path)["rows"] for path in paths}
    machines = rows["open_questions_bounds"]
    assert [row["formulation"] for row in machines] == list(FORMULATIONS)
    plain, *others = (row["test"] for row in machines if row["formulation"].startswith("svm1"))
    assert others == [plain, plain]  # the zero-one loss re-scales nothing
    runs = rows["open_questions_choice"]
    assert len(runs) == 2 * 2 * len(choice.RULES)
    counts = rows["open_questions_sparseness"]
    assert {row["factor"] for row in counts} == set(sparseness.VALUES)
    chosen = {"factor": "epsilon", "formulation": "svm1_margin"}.items()
    of_epsilon = [row["constraints"] for row in counts if chosen <= row.items()]
    drawn = sparseness.picture_of(counts).data
    assert isinstance(drawn, Table)
    assert [line[2] for line in drawn.rows] == of_epsilon[::-1]  # the smallest epsilon first


def test_what_was_measured_is_not_measured_again(options, outcome, monkeypatch) -> None:
    for part, name in ((bounds, "_split"), (sparseness, "_sample"), (choice, "_sample")):
        monkeypatch.setattr(part, name, raising(AssertionError("measured again")))
    again = command.run(options.replace(resume=True))
    assert again.numbers["rows"] == outcome.numbers["rows"]
