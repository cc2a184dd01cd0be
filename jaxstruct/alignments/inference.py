"""What an alignment can be asked besides training: sums over alignments, the k best, samples.

P(y | x) = exp(F(x, y)) / Z(x) over all alignments of two sequences: a pair hidden Markov model,
log-linear.
"""

from __future__ import annotations

from jax.tree_util import Partial

from jaxstruct.alignments.losses import AlignmentOutput
from jaxstruct.alignments.oracles import sums
from jaxstruct.alignments.oracles.k_best import k_best_global, k_best_local
from jaxstruct.core.contract import Inference, Marginals
from jaxstruct.core.derived_inference import positions
from jaxstruct.core.static import Static
from jaxstruct.core.types import Array, PyTree


def _log_loss(
    seen: Partial, score: Partial, local: Static, theta: PyTree, y: AlignmentOutput
) -> Array:
    """-log P(y | x) = log Z - F(y) of one alignment."""
    potentials, lengths = seen(theta)
    return sums.log_partition(potentials, lengths, local=local.value) - score(theta, y)


def _marginals(seen: Partial, local: Static, theta: PyTree) -> Marginals:
    """[M, N] P(letter i is paired with letter j)."""
    potentials, lengths = seen(theta)
    found = sums.marginals(potentials, lengths, local=local.value)
    return Marginals(found.pairs, found.log_partition, positions(lengths[0], lengths[1]))


def _k_best(seen: Partial, local: Static, theta: PyTree, k: int) -> tuple[AlignmentOutput, Array]:
    potentials, lengths = seen(theta)
    found = (k_best_local if local.value else k_best_global)(potentials, lengths, k)
    return AlignmentOutput(found.operations, found.begin), found.score


def _sample(seen: Partial, local: Static, theta: PyTree, key: Array) -> AlignmentOutput:
    potentials, lengths = seen(theta)
    return AlignmentOutput(*sums.sample(potentials, lengths, key, local=local.value))


def alignment_inference(seen: Partial, score: Partial, local: bool) -> Inference:
    """The inference of two sequences.

    Args:
      seen: theta -> (potentials, lengths), as the oracles take them. score: of the model.
      local: whether the best two stretches are aligned, not all letters.
    """
    mode = Static(local)
    return Inference(
        log_loss=Partial(_log_loss, seen, score, mode),
        marginals=Partial(_marginals, seen, mode),
        k_best=Partial(_k_best, seen, mode),
        sample=Partial(_sample, seen, mode),
    )
