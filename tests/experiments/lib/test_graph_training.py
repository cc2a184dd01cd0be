"""experiments.lib.graph_training: every way to train and to read, on grids of two labels."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from experiments.denoising import Drawing, drawn_grids
from experiments.lib.graph_training import (
    EDGELESS,
    PREDICTION,
    TRAINING,
    Model,
    Stop,
    error_of,
    of_pictures,
    read_by,
    trained,
)
from jaxstruct import Ragged, Status, fit
from jaxstruct.graphs.inference import graph_potentials_of
from jaxstruct.graphs.oracles.enumeration import all_scores, labelling

MODEL, STOP = Model(3, 2, True, 20, "float32"), Stop(1e-2, 100, False)
PART = drawn_grids(np.random.default_rng(0), 6, Drawing(3, 2, 1.5, 20, 0.8)).part("float32")


@pytest.mark.parametrize("name", TRAINING)
def test_every_way_trains_and_is_read(name: str) -> None:
    weights, row = trained(MODEL, PART, name, 0.5, STOP)
    assert row["training"] == name and row["status"] is Status.CONVERGED
    assert row["primal"] > 0 and (row["dual"] is None) == (name not in ("independent", "svm"))
    assert ("pairs" in weights) == (name not in EDGELESS)
    read = read_by(MODEL, PART, name, weights, PREDICTION)
    assert list(read) == list(PREDICTION)
    for labelled in read.values():
        assert error_of(PART.y, labelled) < 40
        np.testing.assert_array_equal(labelled.offsets, PART.y.offsets)
    if name in EDGELESS:
        assert len({error_of(PART.y, labelled) for labelled in read.values()}) == 1


def test_nodes_alone_are_a_multiclass_machine() -> None:
    """Its optimum is that of the graphs without edges, by another solver."""
    _, row = trained(MODEL, PART, "independent", 0.5, Stop(1e-4, 100, False))
    graphs = fit(
        MODEL.problem(edges=False), PART.alone, PART.y, "svm1_margin", 0.5 * len(PART.y),
        tolerance=1e-4,
    )  # fmt: skip
    assert row["primal"] == pytest.approx(graphs.primal, rel=2e-4)
    assert row["dual"] == pytest.approx(graphs.dual, rel=2e-4)


def test_marginals_are_those_of_enumeration() -> None:
    """Loopy belief propagation on 3 x 3 cells that attract a little has the likeliest labels."""
    nodes = np.array([[1, -1], [-1, 1], [0, 0]], np.float32)
    weights = {"nodes": nodes, "pairs": np.float32(0.2) * np.eye(2, dtype=np.float32)[None]}
    read = read_by(MODEL, PART, "svm", weights, ("marginals",))["marginals"]
    problem = MODEL.problem()
    scores_of = jax.jit(
        lambda weights, x: all_scores(graph_potentials_of(problem.model.potentials(weights, x)))
    )
    labels = np.asarray(labelling(np.arange(512), 9, 2))
    for i, own in enumerate(read):
        x = PART.x._replace(
            nodes=PART.x.nodes[i], edges=PART.x.edges[i], number_of_nodes=np.int32(9),
            number_of_edges=np.int32(12),
        )  # fmt: skip
        scores = np.asarray(scores_of(weights, x))
        p = np.exp(scores - scores.max()) @ labels / np.exp(scores - scores.max()).sum()
        clear = np.abs(p - 0.5) > 0.02
        np.testing.assert_array_equal(own[clear], (p > 0.5)[clear])


def test_errors_and_what_a_picture_shows() -> None:
    y = Ragged(np.array([0, 1, 1, 0], np.int32), np.array([0, 1, 4]), -1)
    assert error_of(y, Ragged(np.array([0, 1, 0, 1], np.int32), y.offsets, -1)) == 50
    assert of_pictures(PREDICTION) == "reweighted" and of_pictures(("icm", "lbp")) == "lbp"
