"""experiments.matching_speed on small sets: all programs find the best matching."""

from __future__ import annotations

import pytest

from experiments import matching_speed
from experiments.matching_speed import Options
from tests.experiments.scripts import kept_settings


@pytest.mark.thorough
def test_all_programs_find_the_best(tmp_path) -> None:
    small = Options(sizes=("5x5", "4x7"), batch=8, repeats=1, progress=False, output=str(tmp_path))
    with kept_settings():
        rows = matching_speed.run(small).numbers["rows"]
    assert [row["program"] for row in rows] == ["jaxstruct", "optax", "SciPy"] * 2
    for row in rows:
        assert abs(row["below"]) < 1e-6 and row["processor"] > 0
