"""Gradient steps whose rate falls as 1/t, for `stochastic_gradients`."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxstruct.core.types import Array, PyTree


class _Falling(NamedTuple):
    """The state of `falling_sgd`."""

    step: Array
    rate: Array
    ridge: Array


def _fall(updates: PyTree, state: Any, params: PyTree | None = None) -> tuple[PyTree, _Falling]:
    del params
    size = state.rate / (1 + state.rate * state.ridge * state.step)
    steps = jax.tree.map(lambda g: -size.astype(g.dtype) * g, updates)
    return steps, state._replace(step=state.step + 1)


def falling_sgd(rate: float, C: float) -> optax.GradientTransformation:
    """Plain steps of size rate / (1 + rate t / C), t = 0, 1, ..: C / t in the long run.

    Its numbers are in its state, so that all rates and all C share one compiled program.

    Args:
      rate: of the first step. C: the trade-off of the objective.
    """

    def init(params: PyTree) -> _Falling:
        del params
        return _Falling(jnp.float32(0), jnp.float32(rate), jnp.float32(1 / C))

    return optax.GradientTransformation(init, _fall)
