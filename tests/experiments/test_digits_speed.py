"""The speed benchmark runs, times both machines, and reaches the levels it reports."""

from __future__ import annotations

import json
import math

import pytest

from experiments import digits_speed


@pytest.mark.thorough
def test_small_run(tmp_path) -> None:
    options = digits_speed.Options(
        c_over_n=("0.1",), repeats=1, output=str(tmp_path), progress=False
    )
    outcome = digits_speed.run(options)
    machines = [row["machine"] for row in outcome.numbers["rows"]]
    assert machines == ["jaxstruct, with compiling", "jaxstruct", "liblinear"]
    for row in outcome.numbers["rows"]:
        near, nearer = (row["seconds"][level] for level in digits_speed.LEVELS)
        assert 0 < near <= nearer and math.isfinite(nearer)
        assert row["cpu"] > 0 and row["wall"] > 0
    saved = json.loads((tmp_path / "digits_speed.json").read_text())
    assert [row["machine"] for row in saved["rows"]] == machines
