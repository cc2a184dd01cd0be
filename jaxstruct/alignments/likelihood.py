"""The conditional likelihood of one alignment, for `baselines.fit_random_field` and `losses`."""

from __future__ import annotations

from jaxstruct.alignments.losses import AlignmentOutput
from jaxstruct.alignments.oracles.sums import log_partition
from jaxstruct.alignments.structure import AlignmentTheta, is_local, pair_potentials
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import Array


def alignment_likelihood(problem: Problem, theta: AlignmentTheta, y: AlignmentOutput) -> Array:
    """-log P(y | x) = log Z - F(y) of one alignment: a pair hidden Markov model's, log-linear."""
    log_z = log_partition(pair_potentials(theta), theta.x.lengths, local=is_local(problem))
    return log_z - problem.model.score(theta, y)
