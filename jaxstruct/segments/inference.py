"""What segmentations can be asked besides training: sums, the k best, samples.

P(y | x) = exp(F(x, y)) / Z(x) over all segmentations: the semi-Markov random field of Sarawagi and
Cohen. What Delta raises are the tokens, so that the loss has to be additive.
"""

from __future__ import annotations

import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.contract import Inference, Marginals
from jaxstruct.core.derived_inference import positions, with_raised
from jaxstruct.core.finite import inf_unless
from jaxstruct.core.static import Static
from jaxstruct.core.types import Array, PyTree
from jaxstruct.segments.oracles import decoding
from jaxstruct.segments.potentials import SegmentTheta, is_allowed, token_parts


def _log_loss(allowed: Partial, theta: SegmentTheta, y: Array) -> Array:
    """-log P(y | x). The parts of F(y) are taken off the tokens before the sum over segmentations:
    log Z and F(y) would be large and nearly equal, and their difference coarse in float32."""
    tokens = theta.tokens.at[:, 0].add(-token_parts(theta, y)[:, None])
    potentials, length = allowed(theta._replace(tokens=tokens))
    possible = is_allowed(potentials, y)
    return inf_unless(possible, decoding.log_partition(potentials, length))


def _marginals(allowed: Partial, theta: SegmentTheta) -> Marginals:
    """[T, L, S] the probability of the segment with first token t, length l + 1 and label s."""
    found = decoding.marginals(*allowed(theta))
    return Marginals(found.segments, found.log_partition, positions(theta.length))


def _k_best(allowed: Partial, theta: SegmentTheta, k: int) -> tuple[Array, Array]:
    potentials, length = allowed(theta)
    found = decoding.k_best(potentials, length, k)
    return found.codes, found.score


def _sample(allowed: Partial, theta: SegmentTheta, key: Array) -> Array:
    potentials, length = allowed(theta)
    return decoding.sample(potentials, length, key)


def _most_segmentations(sizes: Static, inputs: PyTree) -> int:
    labels, longest = sizes.value
    counts = [1]
    for _ in range(int(np.max(inputs.length, initial=0))):
        counts.append(labels * sum(counts[-longest:]))
    return counts[-1]


def segment_inference(labels: int, longest: int, allowed: Partial, raised: Partial) -> Inference:
    """The inference of segmentations.

    Args:
      labels: S. longest: L. allowed: theta -> (`SegmentPotentials`, length).
      raised: (theta, y_true) -> theta whose score is F(y) + Delta(y_true, y); it raises ValueError
        where the loss is not additive.
    """
    own = Inference(
        *(Partial(one, allowed) for one in (_log_loss, _marginals, _k_best, _sample)),
        most_outputs=Partial(_most_segmentations, Static((labels, longest))),
    )
    return with_raised(own, raised)
