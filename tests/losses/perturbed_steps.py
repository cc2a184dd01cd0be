"""A perturbed loss of any output type, over a batch: it is positive, and a step lowers it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import jaxstruct as js
from jaxstruct.core.padding import padded


def check_perturbed_loss_falls(data: js.Prepared, name: str, rate: float = 0.05) -> None:
    """One step down the slope of the mean loss in the weights of this name."""
    x, y = padded(data.problem.padding, *data[1:])
    keys = jax.random.split(jax.random.key(0), len(jax.tree.leaves(y)[0]))

    @jax.jit
    @jax.value_and_grad
    def loss(w):
        theta = jax.vmap(data.problem.model.potentials, (None, 0))(w, x)
        each = jax.vmap(js.losses.perturbed, (None, 0, 0, 0))(data.problem, theta, y, keys)
        return jnp.mean(each)

    w = data.problem.initial_weights
    value, slope = loss(w)
    assert value > 0 and np.abs(slope[name]).max() > 0.1
    moved, _ = loss(w | {name: w[name] - rate * slope[name]})
    assert moved < value
