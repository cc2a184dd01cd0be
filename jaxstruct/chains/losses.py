"""Losses of label sequences.

    hamming             Delta = number of wrong labels                  (JMLR 5.2, thesis 4.4.4)
    normalised_hamming  Delta = number of wrong labels / length
    zero_one            Delta = 1 for any other sequence
    a function          Delta = f(number of wrong labels, length), f(0, .) = 0
    [S, S] numbers      Delta = sum_t cost[y_true^t, y^t], 0 on the diagonal

The first, second and last are additive over positions, all but the last depend on the Hamming level
alone; that decides which oracles serve them. Levels of the last are sums of costs counted in some
unit: where all costs are multiples of the unit, every output of a level has one loss; else a level
has the largest loss of its outputs, and bounds them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.checks import text_of
from jaxstruct.core.loss_functions import OF_JAX, cheapest, check_loss_function
from jaxstruct.core.spec import costs
from jaxstruct.core.types import Array, static

NAMES = ("hamming", "normalised_hamming", "zero_one")
UNITS = 64
"""Units of the largest cost at most."""
ROUNDING = 1e-6
"""Relative; of costs that are multiples of a unit."""
LEVELS = 1024
"""Levels at most, unless one unit is the largest cost: 4 ms a call for 9 labels and 100 tokens."""
FEW_UNITS, FEW_LEVELS = 16, 320
"""Units that are not exact exceed one of these at most. With 8, 16 and 32 units, bounds of 5
random weights and 20 tokens are 8e-4, 9e-5 and 3e-5 too large, at .15, .5 and .7 ms a call; 26
weights and 14 letters take .3, 1.4 and 9 ms. Of 8 trainings with random costs of 20 sequences of 5
tokens, none ends CONVERGED with 16 units, 4 do with 64."""


@static
class LossKind:
    """What a compiled program depends on.

    Fields:
      by_length: whether an additive loss is divided by the length.
      capped: all positive levels have one loss, so that two levels are all there is.
      dtype: of Delta.
      kinds: of each table of `ChainLoss.units` the values that it has off its diagonal, rising.
      exact: whether costs are multiples of the unit of the last of these tables.
    """

    by_length: bool
    capped: bool
    dtype: str
    kinds: tuple[tuple[int, ...], ...] = ()
    exact: bool = True


class ChainLoss(NamedTuple):
    """A loss of label sequences.

    Fields:
      of_level: (levels, length) -> Delta of Hamming levels, or None.
      costs: [S, S] of an additive loss, or None.
      kind: static.
      units: [n, S, S] int32 the costs in units, finer ones later; None where of_level is given.
    """

    of_level: Partial | None
    costs: Array | None
    kind: LossKind
    units: Array | None = None

    def check_additive(self) -> None:
        """Raise ValueError where no position has a share of its own in the loss."""
        if self.costs is None:
            raise ValueError(
                'the loss of the chain does not add up over positions: take loss="hamming", '
                '"normalised_hamming" or [S, S] costs'
            )


def _count(level: Array, length: Array) -> Array:
    del length
    return level


def _share(level: Array, length: Array) -> Array:
    return level / jnp.maximum(length, 1)


def _any(level: Array, length: Array) -> Array:
    del length
    return jnp.minimum(level, 1)


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
        expected = f"loss must be a function (level, length) -> a scalar Delta, {OF_JAX}"
        expected = f"{expected}; costs of pairs of labels go in as an [S, S] matrix"
        check_loss_function(loss, expected, np.int32, np.int32)
        function = loss if isinstance(loss, Partial) else Partial(loss)
        return ChainLoss(function, None, LossKind(False, False, dtype))
    advice = f"; or give a name of {NAMES}, or a function of (level, length)"
    table = costs("loss", loss, "S S", {"S": labels}, advice)
    units, exact = costs_in_units(table)
    wrong = ~np.eye(labels, dtype=bool)
    kinds = tuple(tuple(np.unique(unit[wrong]).tolist()) for unit in units)
    kind = LossKind(False, False, dtype, kinds, exact)
    return ChainLoss(None, jnp.asarray(table, dtype), kind, jnp.asarray(units))


def costs_in_units(costs: np.ndarray) -> tuple[np.ndarray, bool]:
    """([n, S, S] int32 costs in units, whether they are multiples of the last unit).

    The largest cost has 1 unit in the first table and at most twice as many as before in each
    later one, up to `UNITS`: of these numbers the one that rounds least. The last is the first that
    is exact, if any is. A cost > 0 is 1 unit at least.
    """
    shares = costs[costs > 0] / costs.max(initial=0)

    def misfit(most: int) -> float:
        units = np.maximum(np.rint(shares * most), 1)
        return float(np.abs(units / (shares * most) - 1).max(initial=0))

    found = [1]
    while misfit(found[-1]) > ROUNDING and found[-1] < UNITS:
        finer = range(found[-1] + 1, min(2 * found[-1], UNITS) + 1)
        found.append(min(finer, key=misfit))
    tables = np.zeros((len(found), *costs.shape), np.int32)
    tables[:, costs > 0] = [np.maximum(np.rint(shares * most), 1) for most in found]
    return tables, misfit(found[-1]) <= ROUNDING


def units_at(loss: ChainLoss, positions: int) -> tuple[int, bool]:
    """(which table of units serves sequences of T positions, whether it is exact)."""
    most = [kinds[-1] for kinds in loss.kind.kinds]
    last = len(most) - 1

    def serves(place: int) -> bool:
        levels, exact = most[place] * positions, loss.kind.exact and place == last
        few = exact or most[place] <= FEW_UNITS or levels <= FEW_LEVELS
        return levels <= LEVELS and few

    place = max(filter(serves, range(len(most))), default=0)
    return place, loss.kind.exact and place == last


def level_losses_of_costs(loss: ChainLoss, y_true: Array) -> Array:
    """[2 + T m] the largest Delta of the outputs of each level, m units of the largest cost.

    Level 0 is y_true alone, level 1 + k holds the others whose costs sum to k units; 0 where there
    is none. The recursion adds one position at a time.
    """
    assert loss.costs is not None and loss.units is not None, "costs"
    place, _ = units_at(loss, y_true.shape[0])
    costs, kinds, units = loss.costs, loss.kind.kinds[place], loss.units[place]
    nothing = jnp.asarray(-jnp.inf, loss.kind.dtype)
    largest = jnp.full(1 + y_true.shape[0] * kinds[-1], nothing).at[0].set(0)
    wrong = ~jnp.eye(len(units), dtype=bool)

    def add(largest: Array, label: Array) -> tuple[Array, None]:
        cost, unit, own = (table[jnp.maximum(label, 0)] for table in (costs, units, wrong))
        best = largest
        for kind in kinds:
            dearest = jnp.max(jnp.where(own & (unit == kind), cost, nothing))
            moved = jax.lax.pad(largest, nothing, [(kind, -kind, 0)])
            best = jnp.maximum(best, moved + dearest)
        return jnp.where(label >= 0, best, largest), None

    largest, _ = jax.lax.scan(add, largest, y_true)
    return jnp.concatenate([jnp.zeros_like(largest[:1]), jnp.maximum(largest, 0)])


def label_weights(weights: np.ndarray) -> np.ndarray:
    """[S, S] costs: a wrong label in place of the true label s costs weights[s].

    Raises:
      ValueError: weights are not one axis of finite numbers >= 0.
    """
    weights = costs("weights", weights, "S")
    return weights[:, None] * (1 - np.eye(len(weights)))


def position_costs(
    loss: ChainLoss, y_true: Array, length: Array, possible: Array | None = None
) -> Array:
    """[T, S] what each label would cost at each position, 0 on padding; of an additive loss.

    Args:
      possible: [T, S] bool, the labels that may be the true one, of which the cheapest counts; None
        where y_true is known.
    """
    assert loss.costs is not None, "an additive loss"
    if possible is None:
        costs = loss.costs[jnp.maximum(y_true, 0)]
    else:
        costs = cheapest(loss.costs, possible)
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
