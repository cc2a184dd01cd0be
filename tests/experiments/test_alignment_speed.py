"""The benchmark of the alignment oracles runs, and its rates are those of its times."""

from __future__ import annotations

import pytest

from experiments import alignment_speed
from tests.experiments.scripts import kept_settings, strict_json


@pytest.mark.thorough
def test_small_run(tmp_path) -> None:
    options = alignment_speed.Options(
        sizes=("3x4",), batch=4, peer_pairs=2, repeats=2, output=str(tmp_path), progress=False
    )
    with kept_settings():
        outcome = alignment_speed.run(options)
    rows = outcome.numbers["rows"]
    assert [row["oracle"] for row in rows] == [
        *alignment_speed.ORACLES, "Biopython, local score", "Biopython, local alignment",
    ]  # fmt: skip
    for row in rows:
        assert row["pairs"] == (2 if "Biopython" in row["oracle"] else 4)
        assert 0 < row["least"] <= row["median"]
        assert row["pairs_per_second"] == pytest.approx(1e3 * row["pairs"] / row["least"])
    assert strict_json(tmp_path / "alignment_speed.json")["rows"][0]["M"] == 3
