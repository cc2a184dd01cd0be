"""The best wrong output of every loss level, whichever pair of oracles a structure gives."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct.core.contract import Bounded, Problem, output_of
from jaxstruct.core.types import Array, PyTree


def best_of_levels(problem: Problem, theta: PyTree, y_true: PyTree) -> tuple[Array, PyTree]:
    """(losses [L], outputs [L, ...]) of the levels of one example; y_true where a level is empty.

    An output of level l maximises F among the y != y_true of loss losses[l]. It comes from
    `contenders` and `output`, or from `best_by_level` with all other levels at -inf. Of a `Bounded`
    it is the output found.

    Raises:
      ValueError: the structure has no levels.
    """
    oracles = problem.oracles
    if oracles.best_by_level is not None:
        losses = oracles.level_losses(y_true)
        levels = jnp.arange(losses.shape[0])

        def best(level: Array) -> PyTree:
            offsets = jnp.where(levels == level, 0, -jnp.inf).astype(losses.dtype)
            found = oracles.best_by_level(theta, y_true, offsets, jnp.ones_like(offsets))
            return found.output if isinstance(found, Bounded) else found

        return losses, jax.lax.map(best, levels)
    if oracles.contenders is None:
        raise ValueError("the problem has no loss levels: see jaxstruct.Oracles")
    found, truth = oracles.contenders(theta, y_true), output_of(y_true)

    def of_level(level: Array) -> PyTree:
        y = oracles.output(found.trace, level)
        empty = jnp.isneginf(found.scores[level])
        return jax.tree.map(lambda a, b: jnp.where(empty, a, b).astype(a.dtype), truth, y)

    return found.losses, jax.lax.map(of_level, jnp.arange(found.losses.shape[0]))
