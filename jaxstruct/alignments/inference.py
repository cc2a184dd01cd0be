"""What an alignment can be asked besides training: sums over alignments, the k best, samples.

P(y | x) = exp(F(x, y)) / Z(x) over all alignments of two sequences: a pair hidden Markov model,
log-linear.
"""

from __future__ import annotations

from collections.abc import Callable

from jax.tree_util import Partial

from jaxstruct.alignments.costs import AlignmentTheta, seen
from jaxstruct.alignments.losses import AlignmentOutput
from jaxstruct.alignments.oracles import sums
from jaxstruct.alignments.oracles.k_best import k_best_global, k_best_local
from jaxstruct.core.contract import Inference, Marginals
from jaxstruct.core.derived_inference import positions
from jaxstruct.core.static import Static
from jaxstruct.core.types import Array


def _log_loss(score: Partial, local: Static, theta: AlignmentTheta, y: AlignmentOutput) -> Array:
    """-log P(y | x) = log Z - F(y) of one alignment."""
    return sums.log_partition(*seen(theta), local=local.value) - score(theta, y)


def _marginals(local: Static, theta: AlignmentTheta) -> Marginals:
    """[M, N] P(letter i is paired with letter j)."""
    potentials, lengths = seen(theta)
    found = sums.marginals(potentials, lengths, local=local.value)
    return Marginals(found.pairs, found.log_partition, positions(lengths[0], lengths[1]))


def _k_best(local: Static, theta: AlignmentTheta, k: int) -> tuple[AlignmentOutput, Array]:
    found = (k_best_local if local.value else k_best_global)(*seen(theta), k)
    return AlignmentOutput(found.operations, found.begin), found.score


def _sample(local: Static, theta: AlignmentTheta, key: Array) -> AlignmentOutput:
    return AlignmentOutput(*sums.sample(*seen(theta), key, local=local.value))


def alignment_inference(score: Callable, local: Static) -> Inference:
    """The inference of two sequences.

    Args:
      score: of the model. local: whether the best two stretches are aligned, not all letters.
    """
    return Inference(
        log_loss=Partial(_log_loss, score, local),
        marginals=Partial(_marginals, local),
        k_best=Partial(_k_best, local),
        sample=Partial(_sample, local),
    )
