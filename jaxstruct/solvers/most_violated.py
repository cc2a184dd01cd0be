"""The oracle of algorithm 3, line 7: the most violated output, by the shortest way there is.

H(y) = b(Delta) - s(Delta) (F(y_i) - F(y)). Which program finds its maximum depends on the
formulation and on what the structure offers:

    best_wrong   s = b = 1 (SVM0, SVM1, SVM2): the best y != y_i
    augmented    s = 1, b = Delta (SVM1 margin) with an additive loss: one plain decode
    best_level   any, where the loss takes few values: the best of every level, in one program
    contenders   any, as above from the required functions
    searched     slack re-scaling with an additive loss of many values: a search over lambda in
                 argmax F + lambda Delta, with an upper bound on what it may have missed
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.problem import Problem, scaled
from jaxstruct.core.slack_search import slack_search
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.formulations import Formulation, Penalty, power_of_loss, violation

SEARCH_STEPS = 16


class Found(NamedTuple):
    """One example's most violated output.

    Fields:
      output: y_hat. loss: Delta(y_i, y_hat). value: H(y_hat).
      bound: at least max_y H(y); equal to value where the oracle is exact.
    """

    output: PyTree
    loss: Array
    value: Array
    bound: Array


def oracle_for(problem: Problem, formulation: Formulation) -> str:
    """The name of the program that serves this formulation; see the module.

    Raises:
      ValueError: the structure has no exact oracle and no search for it.
    """
    s, b = formulation.scale_power, formulation.bound_power
    if s == b == 0 and problem.best_wrong is not None:
        return "best_wrong"
    if (s, b) == (0, 1) and problem.augmented is not None:
        return "augmented"
    if problem.best_level is not None:
        return "best_level"
    if problem.contenders is not None:
        return "contenders"
    if s > 0 and problem.augmented is not None:
        return "searched"
    raise ValueError(
        f"{formulation.name} needs the loss levels of the outputs, which this problem does not "
        "have: choose another loss or formulation (svm1_margin serves every additive loss)"
    )


def _same(a: PyTree, b: PyTree) -> Array:
    equal = jax.tree.map(lambda left, right: jnp.all(left == right), a, b)
    return jnp.all(jnp.stack(jax.tree.leaves(equal)))


def _of_output(problem: Problem, terms: Penalty, theta: PyTree, y_true: PyTree, y: PyTree) -> Found:
    """H of a wrong output; -inf where the oracle gave back y_true for want of another."""
    loss = problem.loss(y_true, y)
    margin = problem.score(theta, y_true) - problem.score(theta, y)
    value = jnp.where(_same(y_true, y), -jnp.inf, violation(loss, margin, terms))
    return Found(y, loss, value, value)


def _of_best_level(problem: Problem, terms: Penalty, theta: PyTree, y_true: PyTree) -> Found:
    losses = problem.level_losses(y_true)
    slopes = power_of_loss(losses, terms.scale_power)
    offsets = power_of_loss(losses, terms.bound_power) - slopes * problem.score(theta, y_true)
    y = problem.best_level(theta, y_true, offsets, slopes)
    return _of_output(problem, terms, theta, y_true, y)


def _of_contenders(problem: Problem, terms: Penalty, theta: PyTree, y_true: PyTree) -> Found:
    """A maximum over the loss levels (thesis 3.7.3: "a two stage approach"), lowest level first."""
    found = problem.contenders(theta, y_true)
    values = violation(found.losses, problem.score(theta, y_true) - found.scores, terms)
    level = jnp.argmax(values)
    y = problem.output(found.trace, level)
    return Found(y, found.losses[level], values[level], values[level])


def _of_augmented(problem: Problem, terms: Penalty, theta: PyTree, y_true: PyTree) -> Found:
    """y_i itself, of H = 0, where nothing is violated."""
    y = problem.augmented(theta, y_true, jnp.ones((), terms.cap.dtype))
    loss = problem.loss(y_true, y)
    margin = problem.score(theta, y_true) - problem.score(theta, y)
    value = violation(loss, margin, terms)
    return Found(y, loss, value, value)


def _of_search(problem: Problem, terms: Penalty, theta: PyTree, y_true: PyTree) -> Found:
    """The largest loss, which bounds the search, is that of a decode without potentials."""
    truth, one = problem.score(theta, y_true), jnp.ones((), terms.cap.dtype)
    furthest = problem.augmented(scaled(theta, 0), y_true, one)

    def augmented(scale: Array) -> tuple[PyTree, Array, Array]:
        y = problem.augmented(theta, y_true, scale)
        return y, problem.score(theta, y) - truth, problem.loss(y_true, y)

    delta_max = problem.loss(y_true, furthest)
    found = slack_search(augmented, delta_max, terms.scale_power, SEARCH_STEPS)
    return Found(found.y, found.loss, found.value, found.bound)


def most_violated(
    problem: Problem, oracle: str, terms: Penalty, theta: PyTree, y_true: PyTree
) -> Found:
    """The most violated output of ONE example.

    Args:
      problem: the structure. oracle: static, of `oracle_for`.
      terms: the formulation's numbers.
      theta, y_true: the potentials and the true output.
    """
    if oracle == "best_wrong":
        return _of_output(problem, terms, theta, y_true, problem.best_wrong(theta, y_true))
    programs = {
        "augmented": _of_augmented,
        "best_level": _of_best_level,
        "contenders": _of_contenders,
        "searched": _of_search,
    }
    return partial(programs[oracle], problem)(terms, theta, y_true)
