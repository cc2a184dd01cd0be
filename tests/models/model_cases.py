"""A small model of every output type, with random weights: no training, one program each."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxstruct import Prepared, alignments, chains, graphs, multiclass, strings, trees
from jaxstruct.models import TrainedModel
from jaxstruct.models.trained import trained

TREES = """(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat))))
(S (NP (DT a) (NN man)) (VP (VBZ sees) (NP (NP (PRP her)) (PP (IN in) (NP (NN town))))))"""
SEQUENCES = [[["a", "b"], ["b"], ["c"]], [], [{"b": 2.0}, ["a"]]]
TAGS = [["A", ("B", 1), "A"], [], [("B", 1), "A"]]
ROWS = [{"word": "x", "n": 2.0}, {"word": "y"}, {"caps": True}]
GRAPHS = [
    ({"p": ["f"], "q": ["g"], "r": []}, [("p", "q"), ("q", "r")], [["e"], {"w": 0.5}]),
    ({"s": ["g"], "t": ["f"]}, [("s", "t")], [{"w": 1.0}]),
]
ALIGNED = [("ACGT", "AC-T"), ("TTGACA", "T-GGCA")]
LISTS = [{"good": {"f": 1.0}, "bad": {"g": 1.0}}, {"x": ["g"], "y": ["f"], "z": ["h"]}]


def _barred() -> chains.Constraints:
    table = np.zeros((2, 2), bool)
    table[1, 1] = True
    return chains.Constraints(table, np.zeros(2, bool), np.zeros(2, bool))


CASES: dict[str, tuple[Prepared, Any]] = {
    "multiclass": (
        multiclass.prepare(
            ROWS, ["u", 1.5, True], classes=["u", 1.5, True],
            loss=np.array([[0, 1, 2], [1, 0, 1], [2, 1, 0]]),
        ), ROWS,
    ),
    "dense": (multiclass.prepare(np.eye(3), list("abc")), np.eye(3)),
    "chain": (
        chains.prepare(
            SEQUENCES, TAGS, start_stop=True, eta=np.float64(0.5), constraints=_barred()
        ), SEQUENCES,
    ),
    "weighted_grammar": (trees.prepare(TREES, read_words=True, loss="zero_one"), TREES),
    "pairwise_alignment": (alignments.prepare(ALIGNED, gaps="linear"), ALIGNED),
    "graph_labelling": (
        graphs.prepare(
            GRAPHS, [[*"ABA"], [*"BA"]], plans=True, ignore=("x",), node_weights=(2.0,)
        ), GRAPHS,
    ),
    "multi_label": (
        graphs.prepare_sets(ROWS, [{"u"}, {"v", 2}, set()], classes=[2, "u", "v"]), ROWS,
    ),
    "candidates": (strings.prepare(LISTS, ["good", "x"]), LISTS),
}  # fmt: skip
"""name -> (training set, data to predict)."""


def model_of(name: str, seed: int = 0) -> TrainedModel:
    """The model of a case, its weights drawn."""
    data, rng = CASES[name][0], np.random.default_rng(seed)
    shapes = {key: leaf.shape for key, leaf in data.problem.initial_weights.items()}
    w = {key: rng.normal(size=shape).astype(np.float32) for key, shape in shapes.items()}
    return trained(data, w)
