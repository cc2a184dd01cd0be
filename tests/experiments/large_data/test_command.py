"""The growth of trainings: rows, slopes and what does not fit."""

from __future__ import annotations

import json

import numpy as np
import pytest

from experiments.large_data import command
from experiments.large_data.command import Options
from tests.experiments.scripts import kept_settings


def test_a_part_writes_its_row_and_leaves_no_store(tmp_path) -> None:
    rows = []
    for part in ("blocks", "fit"):
        options = Options((), ("60",), passes=2, blocks=3, part=part, output=str(tmp_path))
        with kept_settings():
            command.run_part(options)
        rows += json.loads((tmp_path / f"large_data_{part}_texts_60.json").read_text())["rows"]
    blocks, whole = rows
    assert (blocks["blocks"], blocks["rounds"], blocks["n"]) == (3, 2, 60)
    assert blocks["dual"] <= whole["primal"] and whole["dual"] <= blocks["primal"]
    assert blocks["round_seconds"] > 0 and blocks["peak"] >= blocks["before"] > 0
    assert blocks["foretold"] > 0 and "foretold" not in whole
    assert not list(tmp_path.glob("*.store"))
    table = command._table(Options(), [blocks, whole])
    assert [row[0] for row in table.rows] == ["texts", "texts"]
    command._plot([blocks, whole])


def test_slopes_are_of_logarithms() -> None:
    sizes = np.array([10.0, 100, 1000])
    assert command.slope(sizes, 3 * sizes**1.1) == pytest.approx(1.1)
    assert np.isnan(command.slope([1], [2]))


def test_a_part_is_of_one_size() -> None:
    with kept_settings(), pytest.raises(ValueError, match="one size of one task"):
        command.run_part(Options((), ("60", "70"), part="blocks"))
