"""Table 3's constraints by the printed algorithm, on made-up sentences."""

from __future__ import annotations

import pytest

from experiments.named_entities import command as named_entities
from experiments.named_entities import growth
from experiments.named_entities.command import Options
from tests.experiments.named_entities.cases import CHEAP
from tests.experiments.scripts import strict_json


@pytest.mark.thorough
def test_constraints_are_counted_for_each_size_and_way(archive, tmp_path, monkeypatch):
    """A larger epsilon needs fewer; a second run trains nothing anew."""
    monkeypatch.setattr(growth, "LOOK_AHEAD", 1)
    monkeypatch.setattr(growth, "FACTORS", (growth.PRINTED, growth.Way("epsilon", epsilon=0.9)))
    options = Options(path=archive, output=str(tmp_path), **CHEAP).replace(
        growth=True, sizes=("8",), factor_size=8, growth_formulations=("svm2",), epsilon=0.05,
        max_passes=100,
    )  # fmt: skip
    outcome = named_entities.run(options)
    monkeypatch.setattr(growth, "count", None)
    again = named_entities.run(options.replace(resume=True))
    rows = strict_json(outcome.files[0])["rows"]
    assert [(row["n"], row["changed"]) for row in rows] == [(8, ""), (8, "epsilon")]
    large, loose = rows
    assert large["constraints"] > loose["constraints"] > 0
    smaller = large | {"n": 2, "constraints": 3}
    points = growth.growth_plot([large, smaller]).data.rows
    assert [row[1:] for row in points] == [(2, 3), (8, large["constraints"])]
    for row in rows:
        assert row["status"] == "EPSILON" and row["support"] <= row["constraints"]
        assert 1 <= row["average_loss"] <= 7
    assert again.table == outcome.table and outcome.table.columns[0] == "machine"
    with pytest.raises(ValueError, match="factor_size: got 64, but .* 8 sent"):
        named_entities.run(options.replace(factor_size=64))
