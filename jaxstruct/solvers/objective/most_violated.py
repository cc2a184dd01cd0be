"""The oracle of algorithm 3, line 7: the most violated output, by the shortest way there is.

H(y) = b(Delta) - s(Delta) (F(y_i) - F(y)), known potentials counted in F. Which program finds its
maximum depends on the formulation and on what the structure offers:

    best_wrong             s = b = 1 (SVM0, SVM1, SVM2): the best y != y_i
    loss_augmented_decode  s = 1, b = Delta (SVM1 margin), an additive loss: one plain decode
    best_by_level          any, where the loss takes few values: all levels in one program
    contenders             any, as above from two functions
    searched               slack re-scaling with an additive loss of many values: a search over
                           lambda in argmax F + lambda Delta, with a bound on what it may miss
    listed                 the same, then what it may have missed is listed, best first: called
                           where a run would end since the search finds nothing more

An oracle that returns a `Bounded` is inexact: the value is that of the output it found, the bound
follows from its own.

The slack of one example is a loss of its potentials, with a subgradient.

    l = xi = max(0, max_y b(Delta) - s(Delta) (F(y_i) - F(y)))     linear slack
    l = 1/2 xi^2                                                   squared slack

with b and s of `formulations`. Where y_hat attains a positive maximum, s (Psi-bar(y_hat) -
Psi-bar(y_i)) is a subgradient of xi in theta, Psi-bar(y) being d score(., y) / d theta.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.contract import Bounded, Problem, output_of
from jaxstruct.core.in_turn import where_needed
from jaxstruct.core.problem import difference
from jaxstruct.core.slack_search import SlackSearch, slack_search, tangent, with_listed
from jaxstruct.core.transposition import linear_part, scaled
from jaxstruct.core.types import AnyArray, Array, PyTree
from jaxstruct.solvers.objective.formulations import (
    Formulation,
    Penalty,
    penalty,
    power_of_loss,
    violation,
)

SEARCH_STEPS = 16
LISTED = 512
"""Outputs above the tangent that are listed: with 64, half of the runs of 5 words and two labels
stay open, with 512 none."""
CLOSE = 1e-6
"""Relative: of a bound that is as near to its value nothing is listed."""
MULTIPLIERS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Values of lambda at which a bounded decode bounds slack re-scaling, in units of 1."""


class Found(NamedTuple):
    """One example's most violated output.

    Fields:
      output: y_hat. loss: Delta(y_i, y_hat). value: H(y_hat).
      bound: at least max_y H(y); equal to value where the oracle is exact.
      claim: the H that the oracle claims of y_hat less the one that loss and score make of it.
    """

    output: PyTree
    loss: Array
    value: Array
    bound: Array
    claim: Array


class KnownMargin(NamedTuple):
    """What known potentials make of one output; zeros where there are none.

    Fields:
      margin: K(x, y_true) - K(x, y). size: at least what is summed for it.
    """

    margin: AnyArray = 0.0
    size: AnyArray = 0.0


def known_margin(problem: Problem, x: PyTree, y_true: PyTree, y: PyTree) -> KnownMargin:
    """The known part of the margin of ONE output."""
    if problem.model.known is None:
        return KnownMargin()
    theta = problem.model.known(x)
    sizes = jax.tree.map(jnp.abs, theta)
    truth, other = (problem.model.score(theta, one) for one in (y_true, y))
    reach = [jnp.abs(problem.model.score(sizes, one)) for one in (y_true, y)]
    return KnownMargin(truth - other, sum(reach))


def oracle_for(problem: Problem, formulation: Formulation) -> str:
    """The name of the program that serves this formulation; see the module.

    Raises:
      ValueError: the structure has no exact oracle and no search for it.
    """
    s, b = formulation.scale_power, formulation.bound_power
    if s == b == 0 and problem.oracles.best_wrong is not None:
        return "best_wrong"
    if (s, b) == (0, 1) and problem.oracles.loss_augmented_decode is not None:
        return "loss_augmented_decode"
    if problem.oracles.best_by_level is not None:
        return "best_by_level"
    if problem.oracles.contenders is not None:
        return "contenders"
    if s > 0 and problem.oracles.loss_augmented_decode is not None:
        return "searched"
    raise ValueError(
        f"{formulation.name} needs the loss levels of the outputs, which this problem does not "
        "have: choose another loss or formulation (svm1_margin serves every additive loss)"
    )


def proving(problem: Problem, oracle: str) -> str:
    """The program that proves more than this one of `oracle_for`, and takes longer; or this one."""
    return "listed" if oracle == "searched" and problem.oracles.best_above is not None else oracle


def terms_size(scale: Array, bound: Array, truth: Array, value: Array) -> Array:
    """At least s |F(y_i)| + s |F(y)| + |b|, the terms that H = value sums; truth: F(y_i)."""
    rest = jnp.where(jnp.isfinite(value), jnp.abs(value), 0)
    return 2 * (scale * jnp.abs(truth) + jnp.abs(bound)) + rest


def same_output(a: PyTree, b: PyTree) -> Array:
    """Whether two outputs are the same, padding included, whatever numbers stand beside."""
    pair = output_of(a), output_of(b)
    equal = jax.tree.map(lambda left, right: jnp.all(left == right), *pair)
    return jnp.all(jnp.stack(jax.tree.leaves(equal)))


def _parts(answer: PyTree | Bounded) -> tuple[PyTree, Array | None]:
    """(output, bound) of what an oracle returned; None: it is exact."""
    return (answer.output, answer.bound) if isinstance(answer, Bounded) else (answer, None)


def loss_of(problem: Problem, terms: Penalty, y_true: PyTree, y: PyTree) -> Array:
    """Delta(y_true, y) in the dtype of the run: a loss that counts errors may be an integer."""
    return jnp.asarray(problem.model.loss(y_true, y)).astype(terms.cap.dtype)


def _scores_of_both(problem: Problem, theta: PyTree, y_true: PyTree, y: PyTree) -> Array:
    """[2] F(y_i) and F(y), by one program for both: half the kernels of one for each."""
    both = jax.tree.map(lambda a, b: jnp.stack([a, b]), output_of(y_true), y)
    return jax.vmap(problem.model.score, (None, 0))(theta, both)


def _of_output(
    problem: Problem,
    terms: Penalty,
    y_true: PyTree,
    y: PyTree,
    margin: Array,
    bound: Array | None = None,
) -> Found:
    """H of a wrong output; -inf where the oracle gave back y_true for want of another."""
    loss = loss_of(problem, terms, y_true, y)
    value = jnp.where(same_output(y_true, y), -jnp.inf, violation(loss, margin, terms))
    bound = value if bound is None else jnp.maximum(value, bound)
    return Found(y, loss, value, bound, jnp.zeros_like(value))


def _of_best_wrong(problem: Problem, terms: Penalty, theta: PyTree, y_true: PyTree) -> Found:
    """b = s = 1: H = 1 - F(y_i) + F(y)."""
    y, best = _parts(problem.oracles.best_wrong(theta, y_true))
    truth, score = _scores_of_both(problem, theta, y_true, y)
    bound = None if best is None else 1 - truth + best
    return _of_output(problem, terms, y_true, y, truth - score, bound)


def _of_best_by_level(problem: Problem, terms: Penalty, theta: PyTree, y_true: PyTree) -> Found:
    losses = jnp.asarray(problem.oracles.level_losses(y_true)).astype(terms.cap.dtype)
    slopes = power_of_loss(losses, terms.scale_power)
    offsets = power_of_loss(losses, terms.bound_power)
    truth = problem.model.score(theta, output_of(y_true))
    offsets = offsets - slopes * truth
    y, bound = _parts(problem.oracles.best_by_level(theta, y_true, offsets, slopes))
    score = problem.model.score(theta, y)
    found = _of_output(problem, terms, y_true, y, truth - score, bound)
    claims = offsets + slopes * score - found.value
    nearest = claims[jnp.argmin(jnp.abs(claims))]  # which level it is of, the oracle does not say
    nearest = nearest if bound is None else jnp.minimum(jnp.max(claims), 0)  # a level may bound it
    return found._replace(claim=jnp.where(jnp.isneginf(found.value), 0, nearest))


def _of_contenders(problem: Problem, terms: Penalty, theta: PyTree, y_true: PyTree) -> Found:
    """A maximum over the loss levels (thesis 3.7.3: "a two stage approach"), lowest level first."""
    found = problem.oracles.contenders(theta, y_true)
    truth = problem.model.score(theta, output_of(y_true))
    found = found._replace(losses=jnp.asarray(found.losses).astype(terms.cap.dtype))
    values = violation(found.losses, truth - found.scores, terms)
    level = jnp.argmax(values)
    y, bound = problem.oracles.output(found.trace, level), values[level]
    if found.bounds is not None:
        slopes = power_of_loss(found.losses, terms.scale_power)
        known = slopes > 0  # a level of scale 0 has H = b, whatever F is
        bounds = violation(found.losses, jnp.where(known, truth - found.bounds, 0), terms)
        bound = jnp.maximum(bound, jnp.max(bounds))
    loss, value = loss_of(problem, terms, y_true, y), values[level]
    own = violation(loss, truth - problem.model.score(theta, y), terms)
    own = jnp.where(same_output(y_true, y), 0, own)
    return Found(y, loss, value, bound, jnp.where(jnp.isneginf(value), 0, value - own))


def _of_loss_augmented(problem: Problem, terms: Penalty, theta: PyTree, y_true: PyTree) -> Found:
    """y_i itself, of H = 0, where nothing is violated."""
    one = jnp.ones((), terms.cap.dtype)
    y, best = _parts(problem.oracles.loss_augmented_decode(theta, y_true, one))
    truth, score = _scores_of_both(problem, theta, y_true, y)
    loss = loss_of(problem, terms, y_true, y)
    value = violation(loss, truth - score, terms)
    bound = value if best is None else jnp.maximum(value, best - truth)
    return Found(y, loss, value, bound, jnp.zeros_like(value))


def _bound_of_lines(power: Array, bounds: Array, multipliers: Array, delta_max: Array) -> Array:
    """At least max_y Delta^p (1 + f), given that f + lambda Delta <= B for some pairs (lambda, B).

    Delta^p (1 + B - lambda Delta) has its peak over 0 .. delta_max at p (1 + B) / ((1 + p) lambda).
    """
    steepness = jnp.where(multipliers > 0, (1 + power) * multipliers, 1)
    peak = jnp.where(multipliers > 0, power * (1 + bounds) / steepness, delta_max)
    peak = jnp.clip(peak, 0, delta_max)
    height = jnp.where(peak > 0, peak**power * (1 + bounds - multipliers * peak), 0)
    return jnp.maximum(jnp.min(height), 0)


def _bound_of_decodes(problem: Problem, terms: Penalty, theta: PyTree, y_true: PyTree) -> Array:
    """A bound for slack re-scaling from the bounds of plain loss-augmented decodes."""
    truth, dtype = problem.model.score(theta, output_of(y_true)), terms.cap.dtype
    decode = problem.oracles.loss_augmented_decode
    nothing = scaled(theta, jnp.zeros((), dtype))
    delta_max = decode(nothing, y_true, jnp.ones((), dtype)).bound
    multipliers = jnp.asarray(MULTIPLIERS, dtype)
    bounds = jax.lax.map(lambda scale: decode(theta, y_true, scale).bound, multipliers) - truth
    found = _bound_of_lines(terms.scale_power, bounds, multipliers, delta_max)
    return jnp.where(jnp.isfinite(delta_max), found, jnp.inf)


def _of_search(
    problem: Problem, terms: Penalty, theta: PyTree, y_true: PyTree, lists: bool = False
) -> Found:
    """The largest loss, which bounds the search, is that of a decode without potentials."""
    truth, one = problem.model.score(theta, output_of(y_true)), jnp.ones((), terms.cap.dtype)
    decode = problem.oracles.loss_augmented_decode
    furthest, largest = _parts(decode(scaled(theta, jnp.zeros((), terms.cap.dtype)), y_true, one))

    def augmented(scale: Array) -> tuple[PyTree, Array, Array]:
        y, _ = _parts(decode(theta, y_true, scale))
        return y, problem.model.score(theta, y) - truth, loss_of(problem, terms, y_true, y)

    delta_max = loss_of(problem, terms, y_true, furthest)
    found = slack_search(augmented, delta_max, terms.scale_power, SEARCH_STEPS)
    bound = found.bound
    if largest is not None:
        bound = jnp.maximum(found.value, _bound_of_decodes(problem, terms, theta, y_true))
    elif lists:
        found = _with_listed(problem, terms, theta, y_true, found)
        bound = found.bound
    return Found(found.y, found.loss, found.value, bound, jnp.zeros_like(found.value))


def _with_listed(
    problem: Problem, terms: Penalty, theta: PyTree, y_true: PyTree, found: SlackSearch
) -> SlackSearch:
    """The search with what stands above its tangent, of examples whose bound is not reached."""

    def compute(given: tuple) -> SlackSearch:
        problem, terms, theta, y_true, found = given
        slope, height = tangent(found, terms.scale_power)
        truth = problem.model.score(theta, output_of(y_true))
        above = height / slope + truth / slope  # in units of F / lambda + Delta
        ys, real = problem.oracles.best_above(scaled(theta, 1 / slope), y_true, LISTED, above)
        advantage = jax.vmap(problem.model.score, (None, 0))(theta, ys) - truth
        losses = jax.vmap(partial(loss_of, problem, terms, y_true))(ys)
        return with_listed(found, ys, losses, advantage, real, terms.scale_power)

    need = found.bound > jnp.maximum(found.value, 0) + CLOSE * jnp.maximum(found.bound, 1)
    return where_needed(compute, need, (problem, terms, theta, y_true, found), found)


_PROGRAMS = {
    "best_wrong": _of_best_wrong,
    "loss_augmented_decode": _of_loss_augmented,
    "best_by_level": _of_best_by_level,
    "contenders": _of_contenders,
    "searched": _of_search,
    "listed": partial(_of_search, lists=True),
}


def most_violated(
    problem: Problem, oracle: str, terms: Penalty, theta: PyTree, y_true: PyTree
) -> Found:
    """The most violated output of ONE example.

    Args:
      problem: the structure. oracle: static, of `oracle_for`.
      terms: the formulation's numbers.
      theta, y_true: the potentials and the true output.
    """
    return _PROGRAMS[oracle](problem, terms, theta, y_true)


@partial(jax.jit, static_argnums=1)
def most_violated_of_batch(
    problem: Problem, oracle: str, terms: Penalty, w: PyTree, x: PyTree, y_true: PyTree
) -> tuple[PyTree, Found, KnownMargin]:
    """(A_x w, the most violated outputs, their known margins) of a batch; traced once for all.

    Args:
      problem, oracle, terms: of `most_violated`.
      w: the weights. x, y_true: [B, ...] the inputs and the true outputs.
    """
    theta = jax.vmap(problem.model.potentials, (None, 0))(w, x)
    found = jax.vmap(partial(most_violated, problem, oracle, terms))(theta, y_true)
    if problem.model.known is None:
        return theta, found, KnownMargin()
    theta = jax.vmap(linear_part(problem.model.potentials), (None, 0))(w, x)
    return (
        theta,
        found,
        jax.vmap(partial(known_margin, problem))(x, output_of(y_true), found.output),
    )


class Hinge(NamedTuple):
    """The loss of one example.

    Fields:
      value: l of the output that was found. bound: at least l; the value of an exact oracle.
      slope: a subgradient in theta, shaped as theta, its integers in place.
    """

    value: Array
    bound: Array
    slope: PyTree


def hinge_terms(formulation: Formulation, dtype: str | np.dtype) -> Penalty:
    """The numbers of a formulation for `hinge`; C and the dual play no part."""
    terms = penalty(formulation, 1.0, np.ones(1), 1, str(np.dtype(dtype)))
    return terms._replace(cap=jnp.ones((), dtype), ridge=jnp.zeros((), dtype))


def hinge(
    problem: Problem, oracle: str, squared: bool, terms: Penalty, theta: PyTree, y: PyTree
) -> Hinge:
    """The slack of ONE example, by one search for the most violated output.

    Args:
      problem: the structure. oracle: static, of `oracle_for`.
      squared: static, whether the slack is squared. terms: of `hinge_terms`.
      theta, y: the potentials and the true output.
    """
    found = most_violated(problem, oracle, terms, theta, y)
    slack, bound = (jnp.maximum(value, 0) for value in (found.value, found.bound))
    factor = jnp.where(found.value > 0, -power_of_loss(found.loss, terms.scale_power), 0)
    if squared:
        factor, slack, bound = factor * slack, slack * slack / 2, bound * bound / 2
    return Hinge(slack, bound, scaled(difference(problem, theta, y, found.output), factor))
