"""Which ways serve a problem: by what its theta is."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.confidence import of_dynamic_programs, of_graphs
from jaxstruct.confidence.of_lists import CANDIDATES, CLASSES, LISTED, TWO_BEST
from jaxstruct.confidence.ways import Ways
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import Array, PyTree
from jaxstruct.graphs import GraphTheta, SetTheta
from jaxstruct.multiclass.structure import is_multiclass
from jaxstruct.strings.structure import CandidateScores


def ways_of(problem: Problem, theta: PyTree) -> Ways:
    """The ways of a problem.

    Args:
      problem: any. theta: of one example, or its shapes.

    Raises:
      ValueError: nothing is known of its outputs but the best one.
    """
    found = of_dynamic_programs.ways_of_theta(theta)
    if found is not None:
        return found
    if isinstance(theta, (GraphTheta, SetTheta)):
        return of_graphs.ways_of_theta(problem, theta)
    if isinstance(theta, CandidateScores):
        return CANDIDATES
    if is_multiclass(problem):
        return CLASSES
    oracles = problem.oracles
    if oracles.all_outputs is not None:
        return LISTED
    if oracles.best_wrong is not None or oracles.contenders is not None:
        return TWO_BEST
    raise ValueError(
        "problem knows its best output only: give its Oracles best_wrong, or contenders and "
        "output, for the two best, or all_outputs for all"
    )


def ways_at_the_door(problem: Problem, weights: PyTree, inputs: PyTree, wanted: str) -> Ways:
    """The ways of a problem, one of which is wanted.

    Args:
      weights: w. inputs: padded, [n, ..]. wanted: a field of `Ways`.

    Raises:
      ValueError: as `ways_of`, or the structure has not what is wanted.
    """
    one = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(np.shape(leaf)[1:], jnp.result_type(leaf)), inputs
    )
    ways = ways_of(problem, jax.eval_shape(problem.model.potentials, weights, one))
    if getattr(ways, wanted) is None:
        name = {"log_loss": "probabilities", "sample": "samples"}.get(wanted, wanted)
        raise ValueError(f"problem has no {name}: {ways.why}")
    return ways


def loss_of_one(problem: Problem, weights: PyTree, x: PyTree, y: PyTree, b: Array) -> Array:
    """-log p(y | x) of one example, padded, under b F."""
    theta = problem.model.potentials(weights, x)
    return ways_of(problem, theta).log_loss(problem, theta, y, b)
