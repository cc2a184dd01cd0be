"""What can be asked of the potentials of one sequence: the best, k best, levels, sums, samples."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.checks import checked_size
from jaxstruct.core.derived_inference import or_padding
from jaxstruct.core.lengths import checked_length
from jaxstruct.core.semiring import Best, Ranked, Sums
from jaxstruct.core.spec import one_example
from jaxstruct.core.types import Array
from jaxstruct.segments.oracles.semi_markov import forward, trace_back
from jaxstruct.segments.potentials import SegmentPotentials


class Segmentation(NamedTuple):
    """codes: [T] int32, or [k, T], see `potentials`. score: F, or [k]."""

    codes: Array
    score: Array


class SegmentMarginals(NamedTuple):
    """segments: [T, L, S] probability of each segment, 0 of padding. log_partition: log Z."""

    segments: Array
    log_partition: Array


def checked(potentials: SegmentPotentials, length: Array) -> tuple[SegmentPotentials, Array]:
    """Potentials and length of one sequence as arrays of one floating dtype.

    Raises:
      ValueError: a shape does not fit, or the potentials are no floating-point numbers.
    """
    potentials = one_example(
        "potentials", potentials, {}, segments="T L S", transitions="S S", start="S", stop="S"
    )
    return potentials, checked_length(length, potentials.segments.shape[0])


def viterbi(potentials: SegmentPotentials, length: Array) -> Segmentation:
    """The best segmentation of one sequence.

    Args:
      potentials: of one sequence. length: int32 scalar, 0 <= length <= T.

    Returns:
      Its codes and score. Ties go to the lowest label of the last segment, then to its shortest
      length, and so on towards the front.

    Raises:
      ValueError: a shape or a dtype does not fit.
    """
    potentials, length = checked(potentials, length)
    found = forward(Best(), potentials, length)
    return Segmentation(trace_back(Best(), potentials, length, found), found.total)


def k_best(potentials: SegmentPotentials, length: Array, k: int) -> Segmentation:
    """The k best segmentations, all different, the best first.

    Args:
      k: how many, a Python integer. Others as in `viterbi`.

    Returns:
      codes [k, T] and scores [k]; -1 throughout and -inf where there are fewer.

    Raises:
      ValueError: k < 1; a shape or a dtype does not fit.
    """
    rule = Ranked(checked_size("k", k))
    potentials, length = checked(potentials, length)
    found = forward(rule, potentials, length)
    codes = jax.vmap(lambda at: trace_back(rule, potentials, length, found, at))(jnp.arange(k))
    scores = jnp.stack(found.total)
    return Segmentation(or_padding(codes, scores), scores)


def log_partition(potentials: SegmentPotentials, length: Array) -> Array:
    """log sum_y exp F(y) over all segmentations of one sequence, as `viterbi` takes them."""
    return forward(Sums(), *checked(potentials, length)).total


def marginals(potentials: SegmentPotentials, length: Array) -> SegmentMarginals:
    """P of each segment under exp F / Z: the derivative of log Z in its potential."""
    potentials, length = checked(potentials, length)

    def of(segments: Array) -> Array:
        return log_partition(potentials._replace(segments=segments), length)

    total, found = jax.value_and_grad(of)(potentials.segments)
    return SegmentMarginals(found, total)


def sample(potentials: SegmentPotentials, length: Array, key: Array) -> Array:
    """[T] codes of a segmentation drawn from exp F / Z: forward sums, drawn back from the end."""
    potentials, length = checked(potentials, length)
    found = forward(Sums(), potentials, length)
    return trace_back(Sums(), potentials, length, found, key=key)
