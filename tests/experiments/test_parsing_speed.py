"""The benchmark of the oracles of trees runs, and its table is that of its times."""

from __future__ import annotations

import json

import pytest

from experiments import parsing_speed


@pytest.mark.thorough
def test_small_run(tmp_path) -> None:
    names = ("tree", "pairs")
    options = parsing_speed.Options(
        sizes=("3x9x3",), oracles=names, batch=4, repeats=2, output=str(tmp_path), progress=False
    )
    rows = parsing_speed.run(options).numbers["rows"]
    assert [(row["oracle"], row["symbols"], row["rules"], row["tokens"]) for row in rows] == [
        (name, 3, 9, 3) for name in names
    ]
    for row in rows:
        assert 0 < row["least"] <= row["median"] and row["compile_seconds"] > 0
        assert row["kibibytes"] > 0 and 3 <= row["most"] <= 9
    saved = json.loads((tmp_path / "parsing_speed.json").read_text())
    assert [row["oracle"] for row in saved["rows"]] == list(names)


@pytest.mark.parametrize("name", parsing_speed.ORACLES)
def test_every_oracle_has_a_program(name: str) -> None:
    assert callable(parsing_speed._oracle(name, 4))
