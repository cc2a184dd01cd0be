"""experiments.multi_label on drawn sets: training by prediction, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.lib import common
from experiments.multi_label import Options
from tests.experiments.scripts import QUIET


def write(path) -> str:
    """Three labels; the third is in the set where just one of the others is."""
    rng, parts = np.random.default_rng(0), {}
    for part, n in (("train", 32), ("test", 16)):
        x = rng.normal(size=(n, 4)).astype(np.float32)
        y = (x[:, :2] + 0.3 * rng.normal(size=(n, 2)) > 0).astype(np.int8)
        parts[f"{part}_x"], parts[f"{part}_y"] = x, np.c_[y, y[:, :1] ^ y[:, 1:]]
    np.savez(path, **parts)
    return str(path)


@pytest.fixture(scope="module")
def options(tmp_path_factory) -> Options:
    folder = tmp_path_factory.mktemp("multi_label")
    return Options(
        data_file=write(folder / "own.npz"), training=("edgeless", "exact"),
        prediction=("exact", "greedy"), held_out=0.2, output=str(folder), **QUIET,
    )  # fmt: skip


def test_rows_say_what_is_proven(outcome: common.Outcome) -> None:
    rows = {row["training"]: row for row in outcome.numbers["rows"]}
    assert list(rows) == ["edgeless", "exact"]
    for row in rows.values():
        assert row["status"].name == "CONVERGED" and row["primal"] >= row["dual"]
    assert len(rows["exact"]["held_out_errors"]) == 2 and rows["exact"]["c_over_n"] in (0.1, 1)
    assert all(0 <= error < 50 for row in rows.values() for error in row["test_errors"].values())
    assert list(rows["exact"]["test_errors"]) == ["exact", "greedy"]
