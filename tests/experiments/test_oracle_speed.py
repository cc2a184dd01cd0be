"""experiments.oracle_speed: every family is timed, beside what is installed."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import oracle_speed
from experiments.oracle_speed import Options
from experiments.tasks.oracle_cases import FAMILIES, Case


@pytest.mark.parametrize("family", FAMILIES)
def test_a_case_has_data_for_its_programs(family: str) -> None:
    make, sizes, words = FAMILIES[family]
    assert len(words.split(" x ")) == len(sizes[0])
    case = make(np.random.default_rng(0), 2, "float32", *sizes[0])
    assert case.count >= 2 and case.ours
    for call, count in case.others.values():
        assert len(call()) == count


def test_programs_take_turns(tmp_path, monkeypatch) -> None:
    def made(random, batch, dtype, size):
        del random
        data = np.ones((batch, size), dtype)
        return Case(batch, (data,), {"double": lambda x: 2 * x}, {"other": (lambda: [1], 1)})

    monkeypatch.setitem(oracle_speed.FAMILIES, "chains", (made, ((3,), (4,)), "words"))
    options = Options(families=("chains",), sizes=1, batch=2, repeats=1, output=str(tmp_path))
    rows = oracle_speed.run(options).numbers["rows"]
    assert [(row["size"], row["program"]) for row in rows] == [("3", "double"), ("3", "other")]
    assert rows[0]["ratio"] == 1 and all(row["processor"] >= 0 for row in rows)
