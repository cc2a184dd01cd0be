"""experiments.clinc150_whole: the objective, and both contenders on a tiny corpus."""

from __future__ import annotations

import json

import numpy as np
import pytest

from experiments import clinc150_whole
from experiments.clinc150_whole import Options
from experiments.lib import common
from experiments.lib.peers import objective
from tests.experiments.scripts import kept_settings, strict_json

DOMAINS = {"money": ["pay", "save"], "food": ["cook", "eat"]}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Both contenders, run in this process for speed instead of in processes of their own."""
    folder, random = tmp_path_factory.mktemp("corpus"), np.random.default_rng(0)

    def part(size):
        words = [f"word{i}" for i in range(15)]
        return [
            [" ".join([*random.choice(words, 3), *random.choice([intent, "hm"], 1)]), intent]
            for intent in sum(DOMAINS.values(), [])
            for _ in range(size)
        ]

    corpus = {"train": part(12), "val": part(1), "test": part(10)}
    (folder / "data_full.json").write_text(json.dumps(corpus), encoding="utf-8")
    (folder / "domains.json").write_text(json.dumps(DOMAINS), encoding="utf-8")
    options = Options(
        path=str(folder), output=str(tmp_path_factory.mktemp("out")),
        svc_tolerances=("0.1", "1e-6"), tolerance=1e-4, progress=False,
    )  # fmt: skip

    def here(options, name):
        clinc150_whole.run_contender(options)
        return strict_json(common.Path(options.output) / f"{name}.json")["rows"]

    with kept_settings(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(clinc150_whole, "run_apart", here)
        return clinc150_whole.run(options)


def test_the_objective_is_that_of_its_definition():
    random = np.random.default_rng(0)
    w, x, y = random.normal(size=(3, 4)), random.normal(size=(5, 3)), np.array([0, 3, 1, 1, 2])
    slacks = [
        max(0, max(1 + x[i] @ w[:, c] - x[i] @ w[:, y[i]] for c in range(4) if c != y[i]))
        for i in range(5)
    ]
    expected = 0.5 * np.sum(w**2) + 0.7 * sum(slacks)
    assert objective(w, x, y, 0.7) == pytest.approx(expected, rel=1e-12)


def test_both_contenders_meet_at_one_optimum(outcome):
    rows = outcome.numbers["rows"]
    bound = outcome.numbers["dual_bound"]
    ours, theirs = rows[:2], rows[2:]
    assert all(0 <= row["above_dual"] <= 1.1e-4 for row in ours)
    assert theirs[-1]["above_dual"] <= 1e-4 and theirs[-1]["objective"] >= bound
    assert min(row["above_best"] for row in rows) == 0
    assert ours[0]["accuracy"] == pytest.approx(theirs[-1]["accuracy"], abs=5)


def test_rows_hold_time_memory_and_status(outcome):
    for row in outcome.numbers["rows"]:
        assert row["wall_seconds"] > 0 and row["cpu_seconds"] > 0 and row["queries"] == 48
        assert row["peak_memory"] >= row["memory_before"] > 1e7
    assert [row["status"] for row in outcome.numbers["rows"]] == ["CONVERGED"] * 2 + [None] * 2


def test_files_hold_the_numbers(outcome):
    content = strict_json(outcome.files[0])
    assert content["dual_bound"] == outcome.numbers["dual_bound"]
    assert len(content["rows"]) == len(outcome.table.rows) == 4
