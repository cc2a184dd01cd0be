"""What the next round needs, and what a person wants to see of one."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from jaxstruct.core.contract import Problem
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.n_slack.working_sets import WorkingSets
from jaxstruct.solvers.objective.certificate import Certificate
from jaxstruct.solvers.objective.scaling import Ray


class State(NamedTuple):
    """What the next step needs.

    Fields:
      weights: w of the dual variables (or, in the full variant, of span).
      sets: the working sets with the dual variables beta.
      span: [N, K] with w = Phi span in the full variant; None where the next full step starts from
        beta itself (after a subspace round, or after a plane was evicted).
      sigma: proximal step length of the full variant.
      clock: rounds so far.
      block_gaps: [N] each example's part of the duality gap at its last oracle call, or None.
      slots: [N, active] slots that the last oracle call chose for restricted sweeps, or None.
      gaps: [STALL_ROUNDS] the relative gaps of the last rounds, infinite before there were any.
      full: whether the full variant has taken over, where the variant is chosen by the run.
    """

    weights: PyTree
    sets: WorkingSets
    span: Array | None
    sigma: float
    clock: int
    block_gaps: np.ndarray | None
    slots: Array | None = None
    gaps: np.ndarray | None = None
    full: int = 0


class Info(NamedTuple):
    """What a person wants to see of a step.

    Fields:
      certificate: primal, dual, violation and the rest at the new w, or None in a round that was
        not certified.
      estimate: the same numbers from the oracle calls of the exact pass, each at the w it met, so
        proof of nothing; the certificate where there is one.
      planes_added: in this round. overflow: examples that had no slot for a violated output.
      oracle_calls: in this round, of single examples; those of weight 0 and rows of padding, which
        the oracle sees too, are not counted. seconds: of each part, by name.
      slack: [N] slack of every row of the task at w, or None as the certificate.
      ray: for the multiples of w, or None: see `cutting_plane.least_multiple_of`.
    """

    certificate: Certificate | None
    estimate: Certificate
    planes_added: int
    overflow: int
    oracle_calls: int
    seconds: dict[str, float]
    slack: np.ndarray | None
    ray: Ray | None = None


def own_weights(problem: Problem) -> PyTree:
    """The initial weights in buffers of their own, which programs take over."""
    return jax.tree.map(partial(jax.device_put, may_alias=False), problem.initial_weights)
