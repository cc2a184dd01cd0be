"""Derivatives of oracles against central differences, forward, in reverse, under vmap and jit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

STEP = 1e-6


def random_directions(seed: int, tree: Any) -> Any:
    """Normal numbers in the places of finite ones, zeros elsewhere (forbidden, never read)."""
    random = np.random.default_rng(seed)

    def of_leaf(leaf: Any) -> np.ndarray:
        drawn = random.normal(size=leaf.shape)
        return (
            drawn
            if isinstance(leaf, jax.ShapeDtypeStruct)
            else np.where(np.isfinite(leaf), drawn, 0.0)
        )

    return jax.tree.map(of_leaf, tree)


def assert_derivatives(scores: Callable, given: Any, seed: int = 0) -> None:
    """jvp and vjp of floats in float64 are what central differences say; away from ties.

    Args:
      scores: given -> arrays of scores, finite or -inf.
      given: a pytree of floating-point arrays, with a batch if `scores` has one.
    """
    direction = random_directions(seed, given)
    weights = random_directions(seed + 1, jax.eval_shape(scores, given))

    @partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    def evaluated(given: Any, direction: Any, weights: Any) -> tuple:
        found, along = jax.linearize(scores, given)  # half the program of a jvp and a vjp
        (gradient,) = jax.linear_transpose(along, given)(weights)
        return found, along(direction), gradient

    def moved(step: float) -> tuple:  # the same program again: compiling takes longer than it runs
        there = jax.tree.map(lambda p, d: p + step * d, given, direction)
        return evaluated(there, direction, weights)

    (found, dots, gradient), (ahead, *_), (behind, *_) = map(moved, (0.0, STEP, -STEP))
    total = 0.0
    for value, dot, a, b in zip(*map(jax.tree.leaves, (found, dots, ahead, behind)), strict=True):
        real = np.isfinite(value)
        wanted = (np.where(real, a, 0) - np.where(real, b, 0)) / (2 * STEP)
        np.testing.assert_allclose(dot, wanted, rtol=0, atol=1e-6)
        assert not np.asarray(dot)[~real].any()
        total += np.abs(wanted).sum()
    assert total > 1
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    forth, back = (
        sum(np.vdot(a, b) for a, b in zip(*map(jax.tree.leaves, pair), strict=True))
        for pair in ((weights, dots), (gradient, direction))
    )
    np.testing.assert_allclose(forth, back, rtol=1e-9, atol=1e-9)
