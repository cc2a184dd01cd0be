"""experiments.denoising on small grids: both tables, the picture, and what is refused."""

from __future__ import annotations

import numpy as np

from experiments.denoising import TRUTH, Drawing, Options, drawn_grids
from experiments.lib import common
from tests.experiments.scripts import options_of

options = options_of(
    Options, labels=("2",), size=3, grids=6, sweeps=30, coupling=1.5, noise=1.0, passes=20,
    training=("logistic", "svm"), prediction=("icm", "reweighted"), exact_grids=2, repeats=1,
    picture_grids=2,
)  # fmt: skip
"""Grids of the size that `lib/test_graph_training.py` has, whose programs serve them."""


def test_edges_help(outcome: common.Outcome) -> None:
    rows = {row["training"]: row for row in outcome.numbers["rows"]}
    assert list(rows) == ["logistic", "svm"]
    errors = {name: row["test_errors"]["reweighted"] for name, row in rows.items()}
    assert errors["svm"] < errors["logistic"]
    assert rows["logistic"]["test_errors"]["icm"] == errors["logistic"]
    assert rows["svm"]["primal"] >= rows["svm"]["dual"]


def test_oracles_stand_in_their_order(outcome: common.Outcome) -> None:
    rows = {row["inference"]: row for row in outcome.numbers["oracles"]}
    assert rows["reweighted"]["bound"] >= rows["reweighted"]["value"] - 1e-4
    assert rows["reweighted"]["value"] >= rows["icm"]["value"] > rows[TRUTH]["value"] - 5
    for name in ("icm", "lbp", "reweighted", TRUTH):
        assert rows[name]["below"] >= -1e-3
    assert rows["icm"]["bound"] is None and rows[TRUTH]["wrong"] == 0
    assert rows["reweighted"]["below"] <= rows["icm"]["below"]
    assert 0 <= rows["reweighted"]["proven"] <= 100 and rows["lbp"]["milliseconds"] > 0


def test_neighbours_cling_together_and_channels_are_noisy() -> None:
    rng = np.random.default_rng(0)
    loose, tight = (
        drawn_grids(rng, 20, Drawing(8, 4, coupling, 40, 0.5)) for coupling in (0.01, 1.5)
    )
    equal = [np.mean(own.y[:, 1:] == own.y[:, :-1]) for own in (loose, tight)]
    assert abs(equal[0] - 0.25) < 0.05 and equal[1] > 0.7
    noise = tight.channels - np.eye(4)[tight.y]
    assert abs(noise.std() - 0.5) < 0.02 and abs(noise.mean()) < 0.02
