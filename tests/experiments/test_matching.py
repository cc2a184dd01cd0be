"""experiments.matching on few point sets, in this process: table, picture, refusals."""

from __future__ import annotations

import numpy as np

from experiments import matching
from experiments.lib import common
from experiments.matching import Options
from experiments.tasks.point_sets import Drawing, drawn_pairs, pair_features, shape_contexts
from tests.experiments.scripts import options_of

options = options_of(
    Options, settings=("partial",), draws=1, train=20, validation=20, test=30, points=("6", "8"),
    turn=0.2, c_over_n=("0.1",), tolerance=1e-2, apart=False,
)  # fmt: skip


def test_an_assignment_helps(outcome: common.Outcome) -> None:
    rows = {row["method"]: row for row in outcome.numbers["rows"]}
    assert list(rows) == list(matching.METHODS)
    assert rows["assigned"]["wrong"] < rows["pairs"]["wrong"]
    assert rows["svm"]["wrong"] < rows["equal"]["wrong"] - 5
    for row in rows.values():
        assert 0 < row["f1"] < 100 and len(row["shown"]) == 30


def test_point_sets_are_drawn_as_they_say() -> None:
    pairs = drawn_pairs(np.random.default_rng(0), 50, Drawing((5, 9), 0.0, 0.0, 0.3, 0.5))
    counts = np.array([(len(p.first), len(p.second), len(p.matching)) for p in pairs])
    assert counts[:, 0].min() == 5 and counts[:, 0].max() == 9
    assert 0.6 < counts[:, 2].sum() / counts[:, 0].sum() < 0.8
    for pair in pairs:  # without turn and noise a move is left
        rows, columns = np.transpose(pair.matching)
        moves = pair.second[columns] - pair.first[rows]
        np.testing.assert_allclose(moves, np.broadcast_to(moves[0], moves.shape), atol=1e-12)
    contexts = shape_contexts(pairs[0].first)
    np.testing.assert_allclose(contexts.sum(axis=1), 1)
    np.testing.assert_allclose(contexts, shape_contexts(3 * pairs[0].first + 7))
    features = pair_features(pairs[0])
    assert features.shape == (counts[0, 0], counts[0, 1], 64) and features.max() <= 0
