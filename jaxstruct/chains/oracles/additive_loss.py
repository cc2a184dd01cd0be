"""An additive loss folded into the emissions: one plain decode is then a loss-augmented one.

Let Delta(y_true, y) = sum_t weights[t, y^t] [y^t != y_true^t]. The most violated constraint of
margin re-scaling is argmax_y F(y) + scale Delta: the Viterbi sequence of other emissions (thesis
4.4.2). The lambda oracle of slack re-scaling is the same.
"""

from __future__ import annotations

import jax.numpy as jnp

from jaxstruct.chains.oracles.potential_checks import checked_chain, checked_labels
from jaxstruct.chains.potentials import ChainPotentials, sequence_mask
from jaxstruct.core.types import Array


def loss_augmented(
    potentials: ChainPotentials, y_true: Array, length: Array, weights: Array, scale: Array
) -> ChainPotentials:
    """Potentials whose score is F(y) + scale Delta(y_true, y).

    Delta(y_true, y) = sum over t < length of weights[t] [y^t != y_true^t]; with weights [T, S] it
    is weights[t, y^t] [y^t != y_true^t].

    Args:
      potentials: of one chain of T positions and S labels.
      y_true: [T] int32, PADDING beyond the length.
      length: int32 scalar.
      weights: [T], or [T, S] by the wrong label; entries beyond the length are never read.
      scale: a scalar, as 1 for margin re-scaling or lambda for a search.

    Returns:
      The potentials with other emissions, in their dtype.

    Raises:
      ValueError: shapes do not fit together, or a dtype is not what it should be.
    """
    potentials, length = checked_chain(potentials, length)
    y_true = checked_labels(y_true, potentials)
    emissions = potentials.emissions
    T, S = emissions.shape
    weights = jnp.asarray(weights, emissions.dtype)
    if weights.shape not in ((T,), (T, S)):
        raise ValueError(f"weights must be [T] = [{T}] or [T, S] = [{T}, {S}], got {weights.shape}")
    table = jnp.broadcast_to(weights if weights.ndim == 2 else weights[:, None], (T, S))
    wrong = y_true[:, None] != jnp.arange(S)[None]
    counted = wrong & sequence_mask(length, T)[:, None]
    scale = jnp.asarray(scale, emissions.dtype)
    augmented = emissions + jnp.where(counted, scale * table, 0)
    return potentials._replace(emissions=augmented)
