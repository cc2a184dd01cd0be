"""experiments.constraint_counts on drawn homologues; table 5 from made-up rows."""

from __future__ import annotations

import pytest

from experiments.constraint_counts import PAPER, Options, counts_plots, make_table
from experiments.lib import common
from jaxstruct import Status
from tests.experiments.scripts import QUIET, strict_json


def small(folder="results", **changes) -> Options:
    return Options(
        parts=("homologues",), sizes=("3",), epsilons=("0.5",), epsilon_size=3, repeats=1,
        ways=("full", "fit"),
        look_ahead=1, output=str(folder), **QUIET,
    ).replace(**changes)  # fmt: skip


@pytest.fixture(scope="module")
def options(tmp_path_factory) -> Options:
    return small(tmp_path_factory.mktemp("counts"))


def test_every_way_is_solved_and_bounded(outcome: common.Outcome) -> None:
    rows = outcome.numbers["rows"]
    assert [(row["n"], row["epsilon"], row["way"]) for row in rows] == [
        (n, epsilon, way)
        for n, epsilon in ((3, 0.1), (3, 0.5)) for way in ("full", "fit")
    ]  # fmt: skip
    for row in rows:
        assert row["status"] is Status.EPSILON and row["primal"] >= row["dual"]
        assert 0 < row["support"] <= row["constraints"]
        if row["way"] == "fit":
            assert row["bound"] is None
        else:
            assert row["constraints"] <= row["bound"]
            assert row["oracle_calls"] == row["epochs"] * row["n"]
    optima = [row["dual"] for row in rows if (row["n"], row["epsilon"]) == (3, 0.1)]
    assert max(optima) <= min(row["primal"] for row in rows if row["n"] == 3) * (1 + 1e-4)
    by_epsilon = {row["epsilon"]: row["constraints"] for row in rows if row["way"] == "full"}
    assert by_epsilon[0.5] < by_epsilon[0.1]


def test_figure_2_is_drawn_for_each_way(outcome: common.Outcome) -> None:
    names = {path.name for path in outcome.files}
    wanted = {f"constraint_counts_homologues.{end}" for end in ("json", "csv")}
    wanted.add("constraint_counts_epsilon.png")
    assert wanted <= names and "constraint_counts_n.png" not in names  # there is one n alone
    assert len(strict_json(outcome.files[0])["rows"]) == 4
    rows = [
        row("homologues", "svm2", way, 10 * n, n) | {"epsilon": 0.1}
        for n in (1, 3, 9) for way in ("full", "fit")
    ]  # fmt: skip
    (left,) = counts_plots(small(), rows).values()
    assert [line[1:] for line in left.data.rows] == 2 * [(1, 10), (3, 30), (9, 90)]


def row(part, formulation, way, count, n=240):
    return {
        "part": part, "number": 0, "formulation": formulation, "n": n, "C": 1.0, "epsilon": 0.01,
        "way": way, "constraints": count, "status": Status.EPSILON, "support": 1, "epochs": 5,
        "oracle_calls": 9, "bound": 1e6 if way != "fit" else None, "primal": 1.0, "dual": 1.0,
        "seconds": 1.0,
    }  # fmt: skip


def test_the_papers_counts_stand_beside_ours() -> None:
    rows = [
        row("trees", "svm2", "full", 240),
        row("trees", "svm2", "fit", 360),
        row("trees", "svm2_margin", "full", 1000, 500),
        row("homologues", "svm2", "full", 100, 4),
        row("homologues", "svm2", "full", 120, 4),
    ]
    table = make_table(small(), rows)
    first, second, third = (dict(zip(table.columns, line, strict=True)) for line in table.rows)
    assert first["constraints", "paper"] == PAPER["svm2"] == "7494"
    assert first["constraints", "letter, QP over S"] == "240"
    assert first["constraints", "fit"] == "360"
    assert first["per example", "paper"] == pytest.approx(7494 / 4098)
    assert second["epochs", "paper"] == 16 and second["per example", "letter, QP over S"] == 2
    assert second["constraints", "fit"] is None
    assert third["constraints", "letter, QP over S"] == "110 ± 14"
    assert third["constraints", "paper"] is None
    assert any("Wall Street Journal" in note for note in table.notes)
