"""The benchmark of the chain oracles runs, and its ratios are those of its times."""

from __future__ import annotations

import json

import pytest

from experiments import decoding_speed


@pytest.mark.thorough
def test_small_run(tmp_path) -> None:
    options = decoding_speed.Options(
        sizes=("3x4",), exact=("3x2",), batch=8, repeats=2, output=str(tmp_path), progress=False
    )
    outcome = decoding_speed.run(options)
    rows = outcome.numbers["rows"]
    names = [(row["oracle"], row["labels"], row["length"], row["units"]) for row in rows]
    assert names == [
        ("Viterbi", 3, 4, 1), ("Hamming levels", 3, 4, 2), ("k best", 3, 4, 2),
        ("Viterbi", 3, 2, 1), ("Hamming levels", 3, 2, 3),
    ]  # fmt: skip
    for row, base in zip(rows, (rows[0],) * 3 + (rows[3],) * 2, strict=True):
        assert 0 < row["least"] <= row["median"] and row["compile_seconds"] > 0
        assert row["ratio"] == pytest.approx(row["processor"] / base["processor"])
        assert row["sequences_per_second"] == pytest.approx(8e3 / row["least"])
        assert row["mebibytes"] >= 0
    saved = json.loads((tmp_path / "decoding_speed.json").read_text())
    assert [row["oracle"] for row in saved["rows"]] == [row["oracle"] for row in rows]
