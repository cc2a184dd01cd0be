"""Sums over all alignments: log Z, probabilities of pairs, exact samples.

    p(y) = exp(F(y) - log Z),    log Z = log sum_y exp F(y)

over all strings of operations y, of all letters (global) or of any two stretches (local; the empty
alignment counts once), by `recursion` with log sum exp for the maximum. Two strings that differ in
the order of gaps alone are two outputs.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.alignments.oracles import recursion
from jaxstruct.alignments.potentials import AlignmentPotentials, checked_pair
from jaxstruct.core.scores import draw, noise
from jaxstruct.core.semiring import Sums
from jaxstruct.core.types import Array

_RULE = Sums()


class AlignmentMarginals(NamedTuple):
    """Expected counts under p(y) of ONE pair of sequences.

    Fields:
      pairs: [M, N] p(letter i of the first is paired with letter j of the second), 0 beyond the
        lengths.
      opened, later: scalars, the expected number of runs against a gap, and of their later letters.
      log_partition: scalar log Z.
    """

    pairs: Array
    opened: Array
    later: Array
    log_partition: Array


def _filled(
    local: bool, potentials: AlignmentPotentials, lengths: Array
) -> tuple[recursion.Given, recursion.States, tuple]:
    """The recursion of one pair of sequences, a batch of one, and its ends."""
    M, N = potentials.pairs.shape
    real = (jnp.arange(M) < lengths[0])[:, None] & (jnp.arange(N) < lengths[1])[None]
    clean = potentials._replace(pairs=jnp.where(real, potentials.pairs, -jnp.inf))
    clean, lengths = jax.tree.map(lambda leaf: leaf[..., None], (clean, lengths))
    given = recursion.Given(clean, lengths, jnp.zeros(1, clean.pairs.dtype))
    kept = recursion.values(_RULE, local, given)
    return given, kept, recursion.ends(_RULE, local, given, kept)


def _log_partition(local: bool, potentials: AlignmentPotentials, lengths: Array) -> Array:
    return _RULE.reduce(_filled(local, potentials, lengths)[2][0])[0]


def log_partition(potentials: AlignmentPotentials, lengths: Array, *, local: bool) -> Array:
    """log Z over all alignments of one pair of sequences.

    Args:
      potentials: of one pair of sequences of at most M and N letters; pairs of -inf are forbidden.
      lengths: [2] int32, 0 <= lengths <= (M, N).
      local: whether over any two stretches; else over all letters.

    Returns:
      A scalar, finite, since gaps are always allowed. Its derivatives are expected counts.

    Raises:
      ValueError: shapes do not fit together, or a dtype is not what it should be.

    Source: Bucher and Hofmann, "A sequence similarity search algorithm based on a probabilistic
    interpretation of an alignment scoring system", ISMB 1996; Durbin et al. 1998, chapter 4.
    """
    return _log_partition(local, *checked_pair(potentials, lengths))


def marginals(
    potentials: AlignmentPotentials, lengths: Array, *, local: bool
) -> AlignmentMarginals:
    """Probabilities of pairs and expected counts of gaps under p(y), of one pair of sequences.

    Args:
      potentials, lengths, local: as in `log_partition`.

    Raises:
      ValueError: as `log_partition`.
    """
    potentials, lengths = checked_pair(potentials, lengths)
    value, counts = jax.value_and_grad(partial(_log_partition, local))(potentials, lengths)
    return AlignmentMarginals(counts.pairs, -counts.gap_open, -counts.gap_extend, value)


def sample(
    potentials: AlignmentPotentials, lengths: Array, key: Array, *, local: bool
) -> tuple[Array, Array]:
    """One alignment drawn from p(y): the end from its probability, then backward step by step.

    Args:
      potentials, lengths, local: as in `log_partition`.
      key: a random key of its own for every alignment; `vmap` over keys alone fills one table.

    Returns:
      (operations [M + N] int32 with PADDING at the end, begin [2] int32). Probabilities are exact
      up to the rounding of sums.

    Raises:
      ValueError: as `log_partition`.
    """
    potentials, lengths = checked_pair(potentials, lengths)
    given, kept, (values, d, i) = _filled(local, potentials, lengths)
    of_end, of_steps = jax.random.split(key)
    cell = draw(of_end, values[:, 0])
    end = d[cell], i[cell], jnp.zeros(1, jnp.int32)
    length, source = sum(potentials.pairs.shape), recursion.by_values(_RULE, local, given, kept)
    gumbel = noise(of_steps, (length + 1, 4, 1), values.dtype)
    operations, begin = recursion.trace_back(source, end, length, gumbel)
    return operations[..., 0], begin[..., 0]
