"""experiments.solver_seeds: which figures move, and by how much."""

from __future__ import annotations

import re

import numpy as np
import pytest

from experiments import solver_seeds
from experiments.lib import common
from experiments.lib.report import Table
from experiments.reproduce.command import EXPERIMENTS
from experiments.solver_seeds import Options, moving_figures
from tests.experiments.scripts import kept_settings


def drawn(error: float, spread: float) -> Table:
    columns = ["machine", ("test", "error %"), ("train", "error %"), "s"]
    rows = [["SVM", f"{error} ± {spread}", 1.5, error], ["paper", "7.0 ± 1", None, None]]
    return Table("Drawn", columns, rows)


def test_figures_are_read_and_compared() -> None:
    found = list(moving_figures([drawn(4.0, 1.0), drawn(7.0, 2.0)], re.compile("error")))
    assert [(row["row"], row["column"]) for row in found] == [
        ("SVM", "test: error %"), ("SVM", "train: error %"), ("paper", "test: error %"),
    ]  # fmt: skip
    first, second, paper = found
    assert (first["mean"], first["least"], first["most"], first["spread"]) == (5.5, 4, 7, 1.5)
    assert first["deviation"] == pytest.approx(np.sqrt(4.5))
    assert second["deviation"] == 0 and second["spread"] is None
    assert paper["least"] == paper["most"] == 7


def test_rows_are_named_by_the_cells_before_their_figures() -> None:
    rows = [["SVM", "0.1", 300, "4.5 ± 1"], ["SVM", "1", 300, "4.0 ± 1"]]
    table = Table("Drawn", ["machine", "C / n", "n", "error %"], rows)
    found = list(moving_figures([table, table], re.compile("error")))
    assert [row["row"] for row in found] == ["SVM, 0.1, 300", "SVM, 1, 300"]


@pytest.mark.thorough
def test_the_solver_alone_has_another_seed(monkeypatch, tmp_path) -> None:
    """The data's seed and the flags of the table stay; the gap is what was asked."""
    seen = []

    def run(options) -> common.Outcome:
        seen.append(options)
        return common.Outcome(drawn(float(options.solver_seed), 1.0), {}, ())

    snakes = next(each for each in EXPERIMENTS if each.name == "snakes")
    monkeypatch.setattr(solver_seeds, "SEEDED", {"snakes": snakes._replace(run=run)})
    options = Options(
        tables=("snakes",), seeds=3, seed=7, stop_at=1e-4, progress=False,
        compilation_cache=False, output=str(tmp_path),
    )  # fmt: skip
    with kept_settings():
        outcome = solver_seeds.run(options)
    assert [own.solver_seed for own in seen] == [0, 1, 2]
    assert {own.settings().seed for own in seen} == {0, 1, 2}
    assert {(own.seed, own.tolerance, own.picture_grids) for own in seen} == {(7, 1e-4, 0)}
    assert len({own.output for own in seen}) == 3
    assert [row[:3] for row in outcome.table.rows] == [["snakes", "SVM", "test: error %"]]
    assert "2 figures" in outcome.table.notes[1]
