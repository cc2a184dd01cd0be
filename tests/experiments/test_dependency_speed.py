"""experiments.dependency_speed on short sentences: all programs find the best trees."""

from __future__ import annotations

import shutil

import pytest

from experiments import dependency_speed
from experiments.dependency_speed import Options
from tests.experiments.scripts import kept_settings


@pytest.mark.thorough
def test_all_programs_find_the_best(tmp_path) -> None:
    """Of 200 random sentences, with many circles, and of as many with few."""
    small = Options(lengths=("7",), batch=200, repeats=1, progress=False, output=str(tmp_path))
    with kept_settings():
        rows = dependency_speed.run(small).numbers["rows"]
    assert [row["program"] for row in rows].count("jaxstruct") == 4
    assert sum(row["program"] == "plain C" for row in rows) == 4 * bool(shutil.which("cc"))
    for row in rows:
        assert abs(row["below"]) < 1e-5 and row["processor"] > 0
