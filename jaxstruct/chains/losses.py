"""Losses of label sequences.

    hamming             Delta = number of wrong labels                  (JMLR 5.2, thesis 4.4.4)
    normalised_hamming  Delta = number of wrong labels / length
    zero_one            Delta = 1 for any other sequence
    a function          Delta = f(number of wrong labels, length), f(0, .) = 0
    [S, S] numbers      Delta = sum_t cost[y_true^t, y^t], 0 on the diagonal

The first, second and last are additive over positions, all but the last depend on the Hamming level
alone; that decides which oracles serve them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.checks import as_numbers, text_of
from jaxstruct.core.static import static
from jaxstruct.core.types import Array

NAMES = ("hamming", "normalised_hamming", "zero_one")


@static
class LossKind:
    """What a compiled program depends on.

    Fields:
      by_length: whether an additive loss is divided by the length.
      capped: all positive levels have one loss, so that two levels are all there is.
      dtype: of Delta.
    """

    by_length: bool
    capped: bool
    dtype: str


class ChainLoss(NamedTuple):
    """A loss of label sequences.

    Fields:
      of_level: (levels, length) -> Delta of Hamming levels, or None.
      costs: [S, S] of an additive loss, or None.
      kind: static.
    """

    of_level: Partial | None
    costs: Array | None
    kind: LossKind


def _count(level: Array, length: Array) -> Array:
    del length
    return level


def _share(level: Array, length: Array) -> Array:
    return level / jnp.maximum(length, 1)


def _any(level: Array, length: Array) -> Array:
    del length
    return jnp.minimum(level, 1)


def _check_function(function: Callable) -> None:
    """Raise ValueError unless a loss function makes a scalar of a level and a length."""
    number = jax.ShapeDtypeStruct((), jnp.int32)
    expected = (
        "loss must be a function (level, length) -> a scalar Delta, of JAX numbers (jnp.where, not "
        "if)"
    )
    try:
        found = jax.eval_shape(function, number, number)
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        raise ValueError(f"{expected}; it raised {type(error).__name__}: {first[:200]}") from error
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(found)]
    if shapes != [()] or not hasattr(found, "dtype"):
        raise ValueError(
            f"{expected}, got {type(found).__name__} of shapes {shapes[:3]}: costs of pairs of "
            "labels go in as an [S, S] matrix"
        )
    if not jnp.issubdtype(found.dtype, jnp.number):
        raise ValueError(f"{expected}, got dtype {found.dtype}")


def chain_loss(
    loss: str | Callable[[Array, Array], Array] | np.ndarray, labels: int, dtype: str
) -> ChainLoss:
    """The loss that a name, a function of the Hamming level or a cost matrix stands for.

    Raises:
      ValueError: an unknown name, a function that makes no scalar, or costs that are not [S, S],
        finite, >= 0, 0 on the diagonal.
    """
    ones = jax.device_put((1 - np.eye(labels)).astype(dtype))
    if isinstance(loss, str):
        table = {
            "hamming": ChainLoss(Partial(_count), ones, LossKind(False, False, dtype)),
            "normalised_hamming": ChainLoss(Partial(_share), ones, LossKind(True, False, dtype)),
            "zero_one": ChainLoss(Partial(_any), None, LossKind(False, True, dtype)),
        }
        if loss not in table:
            raise ValueError(
                f"loss is {text_of(loss)}; choose one of {NAMES}, a function of (level, length), "
                "or an [S, S] matrix of costs"
            )
        return table[loss]
    if callable(loss):
        _check_function(loss)
        function = loss if isinstance(loss, Partial) else Partial(loss)
        return ChainLoss(function, None, LossKind(False, False, dtype))
    expected = f"a name of {NAMES}, a function, or [{labels}, {labels}] costs"
    costs = as_numbers("loss", loss, expected)
    if costs.shape != (labels, labels) or not np.isfinite(costs).all() or (costs < 0).any():
        raise ValueError(
            f"loss must be [S, S] = [{labels}, {labels}] finite costs >= 0, got shape {costs.shape}"
        )
    if np.diagonal(costs).any():
        raise ValueError("loss must be 0 on its diagonal: a right label costs nothing")
    return ChainLoss(None, jnp.asarray(costs, dtype), LossKind(False, False, dtype))


def label_weights(weights: np.ndarray) -> np.ndarray:
    """[S, S] costs: a wrong label in place of the true label s costs weights[s].

    Raises:
      ValueError: weights are not one axis of finite numbers >= 0.
    """
    weights = as_numbers("weights", weights, "[S] finite numbers >= 0")
    if weights.ndim != 1 or not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(f"weights must be [S] finite numbers >= 0, got shape {weights.shape}")
    return weights[:, None] * (1 - np.eye(len(weights)))


def position_costs(loss: ChainLoss, y_true: Array, length: Array) -> Array:
    """[T, S] what each label would cost at each position, 0 on padding; of an additive loss."""
    assert loss.costs is not None, "an additive loss"
    costs = loss.costs[jnp.maximum(y_true, 0)]
    costs = jnp.where((y_true >= 0)[:, None], costs, 0)
    return costs / jnp.maximum(length, 1) if loss.kind.by_length else costs


def delta(loss: ChainLoss, y_true: Array, y: Array) -> Array:
    """Delta(y_true, y) of label sequences [T] with -1 on padding."""
    real = y_true >= 0
    length = jnp.sum(real)
    if loss.of_level is not None:
        level = jnp.sum(real & (y != y_true))
        return jnp.asarray(loss.of_level(level, length), loss.kind.dtype)
    assert loss.costs is not None, "an additive loss"
    costs = loss.costs[jnp.maximum(y_true, 0), jnp.maximum(y, 0)]
    return jnp.sum(jnp.where(real, costs, 0))
