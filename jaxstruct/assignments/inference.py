"""What a matching can be asked besides training: the k best. Sums over matchings are permanents."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.assignments.oracles.k_best import k_best_matchings
from jaxstruct.assignments.potentials import MatchingTheta, oracle_arguments
from jaxstruct.core.contract import Inference, InferenceFacts
from jaxstruct.core.derived_inference import with_raised
from jaxstruct.core.static import Static
from jaxstruct.core.types import Array, PyTree

ADVICE = (
    "the sum over all matchings is a permanent, which cannot be computed but for a few items; "
    "jaxstruct.losses.perturbed, structured_hinge and perceptron need the best matching alone, and "
    "jaxstruct.confidence.k_best shows how far the next ones are"
)


def _k_best(
    complete: Static, theta: MatchingTheta, k: int, above: Array | float = -jnp.inf
) -> tuple[Array, Array]:
    arguments = *oracle_arguments(theta), k, theta.rows, theta.columns, above
    found = k_best_matchings(*arguments, complete=complete.value)
    return found.columns, found.score


def number_of_matchings(r: int, c: int, complete: bool) -> int:
    """Matchings of r rows and c columns where no pair is forbidden."""
    if complete:
        return math.perm(max(r, c), min(r, c))
    return sum(math.comb(r, m) * math.perm(c, m) for m in range(min(r, c) + 1))


def _most_outputs(complete: Static, inputs: PyTree) -> int:
    sizes = np.unique(np.asarray(inputs.sizes).reshape(-1, 2), axis=0).tolist()
    return max((number_of_matchings(r, c, complete.value) for r, c in sizes), default=1)


def matching_inference(complete: bool, raised: Partial) -> Inference:
    """The inference of matchings.

    Args:
      complete: of `best_matching`.
      raised: (theta, y_true) -> theta whose score is F(y) + Delta(y_true, y).
    """
    own = Inference(
        k_best=Partial(_k_best, Static(complete)),
        most_outputs=Partial(_most_outputs, Static(complete)),
        facts=InferenceFacts(advice=ADVICE),
    )
    return with_raised(own, raised)
