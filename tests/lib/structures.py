"""What the oracles of a problem find against all outputs, written once for all output types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxstruct as js
from tests.lib.enumeration import Listed, flat


class Every(NamedTuple):
    """All outputs of one example.

    Fields:
      outputs: [K, P] as `flat` lays them out. F, delta: [K], F is -inf where one is forbidden.
      true: the place of y. bound: [K] which have a constraint; None for all but y.
    """

    outputs: np.ndarray
    F: np.ndarray
    delta: np.ndarray
    true: int
    bound: np.ndarray | None = None


def _bare(found: Any) -> Any:
    return found.output if isinstance(found, js.Bounded) else found


def _asked(problem: js.Problem, theta: Any, y: Any, scales: Any, plain: bool) -> tuple:
    """(outputs in the order that `check_oracles` reads, their F and Delta, F of y, the levels)."""
    oracles, truth, levels = problem.oracles, problem.model.score(theta, y), None
    found = []
    if plain:
        found = [problem.model.decode(theta)]
        found += [oracles.best_wrong(theta, y)] if oracles.best_wrong is not None else []
    found = [jax.tree.map(lambda leaf: leaf[None], _bare(one)) for one in found]
    if oracles.loss_augmented_decode is not None:
        augmented = jax.vmap(lambda scale: _bare(oracles.loss_augmented_decode(theta, y, scale)))
        found.append(augmented(jnp.asarray(scales, truth.dtype)))
    if oracles.best_by_level is not None:
        levels = oracles.level_losses(y)
        alone = jnp.where(jnp.eye(len(levels), dtype=bool), 0, -jnp.inf).astype(levels.dtype)
        margin, slack = (levels - truth)[None], (levels * (1 - truth))[None]
        lines = jax.vmap(lambda *line: _bare(oracles.best_by_level(theta, y, *line)))
        slopes = jnp.concatenate([jnp.ones_like(alone), jnp.ones_like(margin), levels[None]])
        found.append(lines(jnp.concatenate([alone, margin, slack]), slopes))
    every = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *found)
    score = jax.vmap(problem.model.score, (None, 0))(theta, every)
    return every, score, jax.vmap(problem.model.loss, (None, 0))(y, every), truth, levels


_ask = jax.jit(jax.vmap(_asked, (None, 0, 0, None, None)), static_argnums=4)


def check_oracles(
    problem: js.Problem, theta: Any, y: Any, every: Callable[[int], Every],
    tolerance: float = 1e-9, scales: Sequence[float] = (0.5, 2.0), plain: bool = True,
) -> None:  # fmt: skip
    """Every oracle that a problem has finds a best output of its kind, F and Delta are as listed.

    These are the best and the best wrong output (not asked unless `plain`), the best of
    F + scale Delta, the most violated by margin and slack re-scaling, and the best of each level.
    """
    given = jax.device_get(_ask(problem, theta, y, tuple(scales), plain))
    outputs, score, loss, truth, levels = given
    assert score.dtype == loss.dtype == truth.dtype
    close, outputs = (
        partial(np.testing.assert_allclose, rtol=tolerance, atol=tolerance),
        flat(outputs, 2),
    )
    oracles = problem.oracles
    for i in range(len(truth)):
        own = every(i)
        F, delta, true = own.F, own.delta, own.true
        places = Listed([own.outputs], [F], np.zeros(1, bool)).places(0, outputs[i])
        close(score[i], F[places])
        close(loss[i], delta[places])
        close(truth[i], F[true])
        wrong = (np.arange(len(F)) != true) & (F > -np.inf)
        found = iter(places)
        if plain:
            close(F[next(found)], F.max())
            if oracles.best_wrong is not None:
                _check(F, next(found), wrong, wrong, true, close)
        if oracles.loss_augmented_decode is not None:
            for scale in scales:
                close((F + scale * delta)[next(found)], (F + scale * delta).max())
        if oracles.best_by_level is not None:
            bound = wrong if own.bound is None else own.bound & wrong
            gap = np.where(bound, F, 0) - F[true]
            of_levels = [next(found) for _ in levels[i]]
            _check(delta + gap, next(found), bound, wrong, true, close)
            _check(delta * (1 + gap), next(found), bound, wrong, true, close)
            _check_levels(levels[i], np.array(of_levels), own, bound, tolerance)


def _check(
    values: np.ndarray, place: int, bound: np.ndarray, wrong: np.ndarray, true: int, close: Callable
) -> None:
    """A best one of those that are bound, y where there is no other output."""
    assert wrong[place] if wrong.any() and bound.any() else place == true or wrong.any()
    if bound.any():
        close(values[place], values[bound].max())


def _check_levels(
    levels: np.ndarray, places: np.ndarray, own: Every, bound: np.ndarray, tolerance: float
) -> None:
    """No level's output is better than the best of its loss, and one of the levels has that."""
    scores = np.where(places == own.true, -np.inf, own.F[places])
    for level, score in zip(levels, scores, strict=True):
        at = bound & (np.abs(own.delta - level) < 1e-5)
        assert score == -np.inf or score <= own.F[at].max() + tolerance
    for value in set(own.delta[bound].round(6)):
        best = own.F[bound & (np.abs(own.delta - value) < 1e-5)].max()
        found = scores[np.abs(levels - value) < 1e-5].max()
        np.testing.assert_allclose(found, best, rtol=tolerance, atol=tolerance)
