"""Labellers of graphs that two commands compare: how each is trained, and how each is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments.lib import fields
from experiments.lib.options import flag
from experiments.lib.progress import training_progress
from experiments.lib.record import Stopwatch
from jaxstruct import Problem, Ragged, Solution, fit, predict
from jaxstruct.baselines import fit_random_field
from jaxstruct.core.padding import bucketed_inputs, restored
from jaxstruct.core.types import Array, PyTree
from jaxstruct.graphs.inference import graph_potentials_of, with_log_loss
from jaxstruct.graphs.inputs import GraphInput
from jaxstruct.graphs.oracles.belief_propagation import belief_propagation
from jaxstruct.graphs.structure import graph_labelling
from jaxstruct.multiclass.structure import multiclass

LOG_LOSSES = {
    "logistic": "pseudo", "pseudo": "pseudo", "bethe": "bethe", "bound": "reweighted"
}  # fmt: skip
TRAINING = ("independent", "logistic", "svm", "pseudo", "bethe", "bound")
"""independent, logistic: nodes alone, by SVM and by likelihood; svm: with edges and the reweighted
oracle; pseudo, bethe, bound: log-linear models, see `graphs.with_log_loss`."""
EDGELESS = ("independent", "logistic")
MAXIMA = {"icm": "modes", "lbp": "propagation", "reweighted": "reweighted"}
"""Names in tables of oracles that look for the best labelling, and what `graph_labelling` calls
them."""
PREDICTION = (*MAXIMA, "marginals")
"""marginals: the likeliest label of each node, by loopy belief propagation with sums."""


class Options(fields.Tolerance, fields.Common):
    """How labellers are trained and read."""

    training: Sequence[str] = flag(
        TRAINING,
        "Ways to train: nodes alone by SVM (independent) and by likelihood (logistic); with edges "
        "by SVM, pseudo-likelihood, Bethe, tree-reweighted bound.",
        TRAINING,
        some=True,
    )
    prediction: Sequence[str] = flag(PREDICTION, "Oracles to predict with.", PREDICTION, some=True)
    c_over_n: float = flag(0.1, "C' = C / n.", above=0)
    passes: int = flag(20, "Passes of message passing, at most.", least=1)
    most_passes: int = flag(200, "Rounds of a training, at most.", least=1)
    tolerance: float = 1e-2


class Part(NamedTuple):
    """Some labelled graphs.

    Fields:
      x: graphs with their edges. alone: the same nodes without edges. y: labels, a store.
    """

    x: GraphInput
    alone: GraphInput
    y: Ragged


class Model(NamedTuple):
    """Which potentials there are: d, S, whether edges have two ends alike, passes, dtype."""

    features: int
    labels: int
    symmetric: bool
    passes: int
    dtype: str

    def problem(self, inference: str = "reweighted", *, edges: bool = True) -> Problem:
        """The structure with one oracle."""
        return graph_labelling(
            self.features, self.labels, edge_kinds=int(edges), symmetric=self.symmetric,
            inference=inference, passes=self.passes, dtype=self.dtype,
        )  # fmt: skip


class Stop(NamedTuple):
    """When training ends: the gap or the gradient, relative, and passes or iterations.

    Fields:
      progress: whether a bar shows, as `training_progress` takes it.
    """

    tolerance: float
    most_passes: int
    progress: bool | None = None


def trained(
    model: Model, part: Part, name: str, ratio: float, stop: Stop
) -> tuple[PyTree, dict[str, Any]]:
    """(weights, what to report) of one way of training.

    Args:
      model, part: potentials and training graphs. name: one of `TRAINING`.
      ratio: C' = C / n. stop: see `Stop`.
    """
    edges = name not in EDGELESS
    problem, x = model.problem(edges=edges), part.x if edges else part.alone
    watch, C = Stopwatch(), ratio * len(part.y)
    if name in LOG_LOSSES:
        field = fit_random_field(
            with_log_loss(problem, LOG_LOSSES[name]), x, part.y, C, tolerance=stop.tolerance,
            max_iterations=stop.most_passes,
        )  # fmt: skip
        report = {"primal": field.objective, "dual": None, "passes": field.evaluations}
        found: Any = field
    elif not edges:
        found = _trained_alone(model, part, C, stop)
        found = found._replace(weights={"nodes": found.weights["weights"]})
        report = {"primal": found.primal, "dual": found.dual, "passes": found.statistics.passes}
    else:
        with training_progress(stop.most_passes, name, stop.progress, stop.tolerance) as update:
            found = fit(
                problem, x, part.y, "svm1_margin", C, tolerance=stop.tolerance,
                max_passes=stop.most_passes, callback=update,
            )  # fmt: skip
        report = {"primal": found.primal, "dual": found.dual, "passes": found.statistics.passes}
    own = {"training": name, "c_over_n": ratio, "status": found.status}
    return found.weights, own | watch.numbers(found.weights) | report


def _trained_alone(model: Model, part: Part, C: float, stop: Stop) -> Solution:
    """The SVM of nodes alone: its Hamming loss falls apart into a multiclass machine of all nodes.

    C' max_y [sum over nodes] is the sum of the C' max over nodes, so both have one optimum.
    """
    rows = jax.tree.map(
        lambda store: store.rows, part.alone.nodes, is_leaf=lambda leaf: isinstance(leaf, Ragged)
    )
    problem = multiclass(model.features, model.labels, dtype=model.dtype)
    return fit(
        problem, rows, part.y.rows, "svm1_margin", C * len(part.y.rows) / len(part.y),
        tolerance=stop.tolerance,
    )  # fmt: skip


def read_by(
    model: Model, part: Part, name: str, weights: PyTree, prediction: Sequence[str]
) -> dict[str, Any]:
    """Oracle -> labels (a `Ragged`) as predicted; without edges all are the best of each node."""
    if name in EDGELESS:
        alone = predict(model.problem("modes", edges=False), weights, part.alone)
        return dict.fromkeys(prediction, alone)
    return {
        oracle: predict(model.problem(MAXIMA[oracle]), weights, part.x)
        if oracle in MAXIMA
        else _by_marginals(model.problem(), weights, part.x)
        for oracle in prediction
    }


@jax.jit
def _likeliest(problem: Problem, weights: PyTree, x: GraphInput) -> Array:
    def of_one(own: GraphInput) -> Array:
        graph = graph_potentials_of(problem.model.potentials(weights, own))
        return belief_propagation(graph, schedule="serial", passes=100, damping=0.1).labels

    return jax.vmap(of_one)(x)


def _by_marginals(problem: Problem, weights: PyTree, x: GraphInput) -> Ragged:
    buckets = bucketed_inputs(problem.padding, x)
    found = tuple(np.asarray(_likeliest(problem, weights, part)) for part in buckets.parts)
    return restored(problem.padding, buckets, found)


def of_pictures(prediction: Sequence[str]) -> str:
    """The oracle whose labels a picture shows: the reweighted one, or the last one of those."""
    return "reweighted" if "reweighted" in prediction else prediction[-1]


def in_pictures(training: Sequence[str]) -> list[str]:
    """The labellers that a picture shows: the first of nodes alone, the first with edges."""
    alone = [name for name in training if name in EDGELESS]
    joined = [name for name in training if name not in EDGELESS]
    return alone[:1] + joined[:1]


def notes_of(passes: int, node: str) -> list[str]:
    """What the names in a table stand for. passes: of the oracle, at most. node: what one is."""
    return [
        f"independent, logistic: {node}s alone, by SVM and by likelihood; svm: svm1_margin, "
        f"Hamming loss, tree-reweighted oracle of {passes} passes at most; pseudo, "
        "bethe, bound: log-linear models by pseudo-likelihood, by loopy belief propagation and by "
        "the tree-reweighted bound of log Z. Objectives of different kinds do not compare.",
        "icm, lbp, reweighted look for the best labelling; marginals takes the likeliest label of "
        f"each {node}.",
    ]


def error_of(y: Ragged, read: Ragged) -> float:
    """Nodes labelled wrong, in %."""
    return 100 * float((y.rows != read.rows).mean())
