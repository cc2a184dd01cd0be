"""experiments.snakes on a few drawn grids: the table, the pictures, and what an edge may know."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.corpora.snakes import Snakes
from experiments.lib import common
from experiments.snakes import Options, chosen_grids
from experiments.tasks.snakes import errors, grids_of, palette_of, problem_of
from jaxstruct import Ragged
from jaxstruct.solvers.validation.checks import checked_inputs
from tests.experiments.scripts import QUIET

COLOURS = np.array([[0, 0, 255], [255, 0, 0], [0, 255, 0]], np.uint8)


def drawn(seed: int, n: int) -> Snakes:
    """Rows of a snake that goes right, on two colours in turn; the rest is background."""
    rng = np.random.default_rng(seed)
    shapes = np.stack([rng.integers(2, 4, n), rng.integers(3, 5, n)], axis=1)
    pixels, labels = [], []
    for h, w in shapes:
        own = np.zeros((h, w), int)
        own[rng.integers(h)] = np.arange(1, w + 1)
        labels.append(own.ravel())
        pixels.append(COLOURS[np.where(own > 0, 1 + own % 2, 0).ravel()])
    return Snakes(shapes, np.concatenate(pixels), np.concatenate(labels).astype(np.int32))


def write(path, train: Snakes, test: Snakes) -> str:
    parts = {"train": train, "test": test}
    np.savez(path, **{f"{part}_{name}": leaf for part, own in parts.items()
                      for name, leaf in own._asdict().items()})  # fmt: skip
    return str(path)


@pytest.fixture(scope="module")
def options(tmp_path_factory) -> Options:
    folder = tmp_path_factory.mktemp("snakes")
    return Options(
        data_file=write(folder / "own.npz", drawn(0, 12), drawn(1, 6)), c_over_n=("1",),
        features=("windows",), passes=10, most_passes=5, picture_grids=3, output=str(folder),
        **QUIET,
    )  # fmt: skip


def test_windows_of_both_ends_find_the_snakes(outcome: common.Outcome) -> None:
    rows = {row["features"]: row for row in outcome.numbers["rows"]}
    assert list(rows) == ["windows"]
    assert rows["windows"]["test_cells"] < 15
    for row in rows.values():
        assert row["primal"] >= row["primal_found"] >= row["dual"] - 1e-3
        assert row["seconds"] > 0 and row["oracle_calls"] >= 12


def test_features_written_down() -> None:
    part = drawn(3, 2)
    grids = grids_of(part, palette_of(part.pixels))
    h, w = part.shapes[0]
    d = grids.number_of_features
    assert d == 9 * len(palette_of(part.pixels))
    assert grids.nodes[0].shape == (h * w, d)
    np.testing.assert_array_equal(grids.nodes[0].sum(axis=1).max(), min(h, 3) * min(w, 3))
    rows = grids.inputs("windows", "float32").edge_features[0]
    (a, b), right = grids.edges[0][0], rows[0].reshape(2, 2, d)
    np.testing.assert_array_equal(right[0], grids.nodes[0][[a, b]])
    assert not right[1].any() and not rows[-1].reshape(2, 2, d)[0].any()
    plain = grids.inputs("direction", "float32")
    assert plain.edge_features is None and Options().features == ("direction", "windows")
    np.testing.assert_array_equal(plain.kinds[0], np.diff(plain.edges[0])[:, 0] == w)
    problem = problem_of(grids, "direction", "reweighted", 2, "float32")
    (passed,) = checked_inputs(problem, plain).index
    assert sorted(passed) == [0, 1]


def test_errors_and_the_grids_shown_first() -> None:
    part = drawn(4, 3)
    grids = grids_of(part, palette_of(part.pixels))
    read = grids.y.rows.copy()
    read[grids.y.offsets[1]] += 1
    read = Ragged(read, grids.y.offsets, -1)
    assert errors(grids.y, read) == pytest.approx((100 / len(grids.y.rows), 100 / 3))
    assert chosen_grids(grids, read, 2) == [1, 0]
