"""Weston and Watkins's machine as a structural one: an example for each constraint.

(2.27) and (2.28) have a slack for each of the n (k - 1) constraints <w_{y_i} - w_y, x_i> >= 1 -
xi_iy. An example (x_i, y_i, y) with two outputs, the true class and this one rival, has just that
constraint, and C is divided by the number of examples, which is n (k - 1): any of the solvers of
`jaxstruct.fit` serves. `weston_watkins` is faster.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import text_of
from jaxstruct.core.contract import Contenders, Model, Oracles, Problem, Space
from jaxstruct.core.problem import is_tested, make_problem
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import AnyArray, Array, PyTree
from jaxstruct.multiclass.structure import check_canonical, check_classes


class RivalPair(NamedTuple):
    """One constraint of Weston and Watkins as an example.

    Fields:
      x: the input. truth, rival: its class y_i and another one, y.
    """

    x: PyTree
    truth: AnyArray
    rival: AnyArray


def rival_pairs(
    problem: Problem, inputs: PyTree, labels: np.ndarray
) -> tuple[Problem, RivalPair, np.ndarray]:
    """Writes the machine as a structural one of n (k - 1) examples with two outputs each.

    `jaxstruct.fit(*rival_pairs(problem, x, y), "svm1", C)` minimises (2.27), with "svm2" (2.28),
    with "svm0" the hard margin, which Crammer and Singer's machine shares. Its weights are those
    of `problem`, which predicts with them.

    Args:
      problem: `multiclass` or `kernel_multiclass` without output features, k >= 2 classes.
      inputs: n examples, of arrays [n, ...] or `Ragged` stores. labels: [n] integers 0..k-1.

    Returns:
      (the problem of pairs, its inputs, its outputs: 0, the truth, for all of them). Example i is
      repeated k - 1 times, its rivals rising.

    Raises:
      ValueError: an argument does not fit.
    """
    k = check_canonical(problem)
    labels = np.asarray(labels)
    check_classes(k, labels)
    n = len(labels)
    which = np.repeat(np.arange(n), k - 1)
    ahead = np.tile(np.arange(k - 1), n)
    truth = labels[which]
    rival = ahead + (ahead >= truth)

    def repeated(leaf: AnyArray | Ragged) -> AnyArray | Ragged:
        return leaf.take(which) if isinstance(leaf, Ragged) else np.asarray(leaf)[which]

    x = jax.tree.map(repeated, inputs)
    pairs = RivalPair(x, truth.astype(np.int32), rival.astype(np.int32))
    return _pair_problem(problem), pairs, np.zeros(len(which), np.int32)


def _pair_problem(problem: Problem) -> Problem:
    model, space = problem.model, problem.space
    return make_problem(
        problem.initial_weights,
        Model(partial(_pair_potentials, model.potentials), _score, _decode, _loss),
        Oracles(contenders=_contenders, output=_output, all_outputs=_all_outputs),
        Space(
            add=partial(_pair_add, problem.initial_weights, space.add),
            gram_action=partial(_pair_gram_action, space.gram_action),
            squared_norm=space.squared_norm and partial(_pair_norm, space.squared_norm),
        ),
        partial(_check_pairs, problem.check),
        problem.padding,
        tested=is_tested(problem),
    )


def _check_pairs(check: Callable, pairs: RivalPair, outputs: np.ndarray | None = None) -> None:
    if not isinstance(pairs, RivalPair):
        raise ValueError(f"inputs must be a RivalPair (see rival_pairs), got {text_of(pairs)}")
    check(pairs.x, None if outputs is None else np.asarray(pairs.truth))


def _pair_potentials(potentials: Callable, w: PyTree, pair: RivalPair) -> Array:
    return potentials(w, pair.x)[jnp.stack([pair.truth, pair.rival])]


def _pair_add(zero: PyTree, add: Callable, w: PyTree, pairs: RivalPair, u: Array) -> PyTree:
    k, rows = jax.tree.leaves(zero)[0].shape[1], jnp.arange(len(u))
    table = jnp.zeros((len(u), k), u.dtype).at[rows, pairs.truth].add(u[:, 0])
    return add(w, pairs.x, table.at[rows, pairs.rival].add(u[:, 1]))


def _pair_gram_action(gram_action: Callable, pair: RivalPair, u: Array) -> Array:
    return gram_action(pair.x, u)


def _pair_norm(squared_norm: Callable, w: PyTree, pair: RivalPair) -> Array:
    return squared_norm(w, pair.x)


def _score(theta: Array, y: Array) -> Array:
    return theta[y]


def _decode(theta: Array) -> Array:
    return jnp.argmax(theta).astype(jnp.int32)


def _loss(y_true: Array, y: Array) -> Array:
    return jnp.where(y == y_true, 0.0, 1.0)


def _contenders(theta: Array, y_true: Array) -> Contenders:
    wrong = jnp.arange(2) != y_true
    return Contenders(wrong.astype(theta.dtype), jnp.where(wrong, theta, -jnp.inf), ())


def _output(trace: PyTree, level: Array) -> Array:
    del trace
    return level.astype(jnp.int32)


def _all_outputs(y_true: Array) -> Array:
    return jnp.stack([y_true, 1 - y_true]).astype(jnp.int32)
