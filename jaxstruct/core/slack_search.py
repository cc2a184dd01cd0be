"""Slack re-scaling with an oracle for margin re-scaling: search over its multiplier, with a bound.

Slack re-scaling needs max_y Delta^p (1 + f), where f(y) = F(y) - F(y_true) and Delta(y) is the loss
(p = 1: Delta (1 + f) of svm1_slack; p = 1/2: sqrt(Delta) (1 + f) of svm2_slack). Most structures
can only maximise f + lambda Delta. One such call, with the answer (f_k, Delta_k), says of every y

    f(y) <= U_k(Delta(y)),    U_k(D) = f_k - lambda_k (D - Delta_k),

hence value(y) <= h_k(Delta(y)) with h_k(D) = D^p (1 + U_k(D)). For D >= 0, h_k rises up to

    D* = p (1 + f_k + lambda_k Delta_k) / ((1 + p) lambda_k)

and falls from there (it only falls if 1 + U_k(0) < 0). Its derivative at Delta_k has the sign of
s_k = p (1 + f_k) - lambda_k Delta_k. Therefore

1. if s_k >= 0, no y with Delta(y) <= Delta_k has a larger value than h_k(Delta_k), which is the
   value of the answer itself: the answer becomes the left end of an interval of losses;
2. if s_k <= 0, the same holds of Delta(y) >= Delta_k: it becomes the right end (up to then
   Delta_max);
3. a y of a larger value than all answers so far has a loss strictly between the ends and lies under
   the line of either end. The largest of D^p (1 + min(U_left(D), U_right(D))) over the interval,
   or the best value found or 0 if that is larger, is a bound on the value of every y;
4. with two ends, the next lambda is the slope of their chord. If no y lies above the chord, all lie
   under it: it replaces both lines and the search is over. Otherwise the answer lies strictly
   between the ends, and 1 or 2 applies. Without a right end, take the D at which the bound is
   attained, and the f there whose value is the best found. The next lambda is the slope of the
   line from the left end to (D, f): if the answer is the left end again, it excludes this point.

5. all outputs that are better than the best one found lie above the tangent of its value there.
   Where a structure can list what is above it, best first, the maximum is among the list (of equal
   losses the best output is enough); a list that is cut off leaves outputs under a parallel through
   its last one.

An extreme point of the upper hull of all (Delta, f) between the ends lies above the chord. So a
search that ends before its last step has found the best of them: the value is exact if the best
output is an extreme point, and the bound says how far off it can be at most if not. (On the hull
the value has one peak: log value = p log D + log(1 + U) is concave.) What lies under the hull only
rule 5 finds.

Lambda oracles, and why slack re-scaling with them can only reach the hull: H. Choi, O. Meshi and
N. Srebro, "Fast and Scalable Structural SVM with Slack Rescaling", AISTATS 2016. The ends, the
choice of lambda and the bound are those derived above.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.contract import Bounded, Problem, output_of
from jaxstruct.core.types import Array, PyTree

LEAST_SLOPE = 1e-3
"""Not 0, since outputs are listed by f / lambda + Delta."""


class SlackSearch(NamedTuple):
    """The best output that a search met, and what it proved.

    Fields:
      y: the output, a pytree as the oracle returns it.
      loss: scalar Delta(y).
      advantage: scalar f(y) = F(y) - F(y_true).
      value: scalar Delta^p (1 + f).
      bound: scalar, at least 0 and at least the value of every output.
      calls: int32 scalar, oracle calls made.
      low, high: scalars, a better output has a loss between these.
    """

    y: PyTree
    loss: Array
    advantage: Array
    value: Array
    bound: Array
    calls: Array
    low: Array
    high: Array


class _Line(NamedTuple):
    """All outputs lie under it: f <= height - slope Delta."""

    height: Array
    slope: Array

    def at(self, loss: Array) -> Array:
        return self.height - self.slope * loss


class _End(NamedTuple):
    """An end of the interval of losses that may hold a better output, and its line."""

    loss: Array
    advantage: Array
    line: _Line


class _State(NamedTuple):
    """The interval that is left to search.

    Fields:
      left, right: its ends; two_ends says whether the right one is an output or Delta_max.
      done: nothing lies above the chord of the ends, or nothing is left between them.
      slope: the next lambda.
      best: the best output so far and the bound.
    """

    left: _End
    right: _End
    two_ends: Array
    done: Array
    slope: Array
    best: SlackSearch


def _choose(condition: Array, new: PyTree, old: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


def _value(power: Array, loss: Array, advantage: Array) -> Array:
    """What is maximised: Delta^p (1 + f)."""
    return jnp.where(loss > 0, loss**power * (1 + advantage), 0)


def _peak_of_line(line: _Line, power: Array, low: Array, high: Array) -> Array:
    """The loss in [low, high] at which D^p (1 + line) is largest."""
    top = power * (1 + line.height) / ((1 + power) * jnp.where(line.slope > 0, line.slope, 1))
    return jnp.clip(jnp.where(line.slope > 0, top, high), low, high)


def _peak(power: Array, state: _State) -> tuple[Array, Array]:
    """(loss, value): where in the interval an output could be best, and how good."""
    left, right = state.left, state.right
    steeper = right.line.slope - left.line.slope
    crossing = (right.line.height - left.line.height) / jnp.where(steeper > 0, steeper, 1)
    crossing = jnp.clip(jnp.where(steeper > 0, crossing, right.loss), left.loss, right.loss)
    a = _peak_of_line(left.line, power, left.loss, crossing)
    b = _peak_of_line(right.line, power, crossing, right.loss)
    at_a, at_b = (
        _value(power, loss, jnp.minimum(left.line.at(loss), right.line.at(loss))) for loss in (a, b)
    )
    return jnp.where(at_a >= at_b, a, b), jnp.maximum(at_a, at_b)


def _narrow(power: Array, state: _State, loss: Array, advantage: Array) -> _State:
    """The interval after the answer (loss, advantage) to the slope of the state: rules 1, 2, 4."""
    left, right, slope = state.left, state.right, state.slope
    line = _Line(advantage + slope * loss, slope)
    answer = _End(loss, advantage, line)
    between = (loss > left.loss) & (loss < right.loss)
    flat = state.two_ends & ~(between & (line.height > left.advantage + slope * left.loss))
    sign = power * (1 + advantage) - slope * loss
    is_left, is_right = ~flat & (sign >= 0), ~flat & (sign <= 0)
    new_left, new_right = _choose(is_left, answer, left), _choose(is_right, answer, right)
    # Where there is only one line so far, it stands in for that of the other end.
    left_line = _choose(flat | (state.best.calls == 0), line, new_left.line)
    right_line = _choose(flat | ~state.two_ends, line, new_right.line)
    return state._replace(
        left=new_left._replace(line=left_line),
        right=new_right._replace(line=right_line),
        two_ends=state.two_ends | is_right,
        done=flat,
    )


def _with_best(
    power: Array, best: SlackSearch, y: PyTree, loss: Array, advantage: Array
) -> SlackSearch:
    value = _value(power, loss, advantage)
    answer = best._replace(y=y, loss=loss, advantage=advantage, value=value)
    better = (value > best.value) | (best.calls == 0)
    return _choose(better, answer, best)._replace(calls=best.calls + 1)


def _with_bound(power: Array, state: _State) -> _State:
    """The bound of rule 3 and the next slope of rule 4."""
    left, right, best = state.left, state.right, state.best
    loss, height = _peak(power, state)
    reached = jnp.maximum(best.value, 0)
    lowered = reached / jnp.where(loss > 0, loss, 1) ** power - 1
    drop = left.advantage - jnp.where(state.two_ends, right.advantage, lowered)
    width = jnp.where(state.two_ends, right.loss, loss) - left.loss
    slope = drop / jnp.where(width > 0, width, 1)
    bound = jnp.maximum(reached, height)
    return state._replace(
        slope=jnp.maximum(slope, 0),
        done=state.done | ~(bound > reached) | ~(width > 0) | ~jnp.isfinite(slope),
        best=best._replace(bound=bound),
    )


def _start(output: PyTree, delta_max: Array | float, dtype: jnp.dtype) -> _State:
    """Before the first call, which has lambda = 0."""
    zero, no = jnp.zeros((), dtype), jnp.asarray(False)
    line = _Line(zero, zero)
    y = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), output)
    return _State(
        left=_End(zero, zero, line),
        right=_End(jnp.asarray(delta_max, dtype), zero, line),
        two_ends=no,
        done=no,
        slope=zero,
        best=SlackSearch(y, zero, zero, zero, zero, jnp.zeros((), jnp.int32), zero, zero),
    )


def slack_search(
    augmented: Callable[[Array], tuple[PyTree, Array, Array]],
    delta_max: Array | float,
    power: Array | float = 1.0,
    steps: Array | int = 10,
) -> SlackSearch:
    """Maximise Delta(y)^p (1 + f(y)) with an oracle for f + lambda Delta.

    Args:
      augmented: lambda -> (y, f, Delta) of an output that maximises f + lambda Delta, lambda >= 0 a
        scalar; y is a pytree of arrays, f = F(y) - F(y_true) and Delta scalars of one dtype. All
        outputs or all but y_true may take part; the right output itself has f = Delta = 0.
      delta_max: scalar, no loss is larger.
      power: p > 0; 1 for svm1_slack, 1/2 for svm2_slack.
      steps: at most so many oracle calls, at least 1 (may be traced). Under `vmap` all examples
        call until the last of them is done.

    Returns:
      `SlackSearch`. value <= max_y Delta^p (1 + f) <= bound, and bound >= 0, because a slack is
      never negative. The value is the maximum if it is attained at an extreme point of the upper
      hull of all (Delta, f) and the search ended before its last step; it also is if bound = value.
      The proof is in the module's docstring; it holds up to the rounding of f. Outputs of equal
      values: the one found first.

    Raises:
      ValueError: steps < 1.

    Source: see the module.
    """
    if isinstance(steps, int) and steps < 1:
        raise ValueError(f"steps: got {steps}, expected at least one oracle call")
    output, advantage, loss = jax.eval_shape(augmented, 0.0)
    dtype = jnp.result_type(advantage, loss)
    power = jnp.asarray(power, dtype)

    def body(state: _State) -> _State:
        y, *numbers = augmented(state.slope)
        advantage, loss = (jnp.asarray(number, dtype) for number in numbers)
        narrowed = _narrow(power, state, loss, advantage)
        best = _with_best(power, state.best, y, loss, advantage)
        return _with_bound(power, narrowed._replace(best=best))

    def unfinished(state: _State) -> Array:
        return ~state.done & (state.best.calls < steps)

    end = jax.lax.while_loop(unfinished, body, _start(output, delta_max, dtype))
    return end.best._replace(low=end.left.loss, high=end.right.loss)


def tangent(found: SlackSearch, power: Array | float) -> tuple[Array, Array]:
    """(lambda, height): nothing of f + lambda Delta <= height is better than the best found.

    All points (Delta, f) of one value lie on a convex curve f(D) = value / D^p - 1, whose tangent
    at D has the slope -p value / D^(p + 1): that of the best output, or -LEAST_SLOPE if it is less.
    """
    value = jnp.maximum(found.value, 0)
    loss = jnp.where(found.loss > 0, found.loss, jnp.inf)
    slope = jnp.maximum(power * value / loss ** (power + 1), LEAST_SLOPE)
    at = (power * value / slope) ** (1 / (power + 1))
    return slope, value / jnp.where(at > 0, at, 1) ** power - 1 + slope * at


def with_listed(
    found: SlackSearch, y: PyTree, loss: Array, advantage: Array, real: Array, power: Array | float
) -> SlackSearch:
    """The search after rule 5: the best of what it found and of a list, with the bound of the rest.

    Args:
      found: of `slack_search`. power: as there.
      y, loss, advantage: [k] the outputs of the largest f + lambda Delta that are above the height,
        both of `tangent`, with their Delta and f. real: [k] bool, which of them there are.
    """
    power = jnp.asarray(power, found.value.dtype)
    values = jnp.where(real, _value(power, loss, advantage), -jnp.inf)
    at = jnp.argmax(values)
    own = found._replace(
        y=jax.tree.map(lambda leaf: leaf[at], y),
        loss=loss[at],
        advantage=advantage[at],
        value=values[at],
    )
    best = _choose(own.value > found.value, own, found)
    slope, height = tangent(found, power)
    last = jnp.min(jnp.where(real, advantage + slope * loss, jnp.inf))
    line = _Line(jnp.where(jnp.all(real), last, height), slope)
    peak = _peak_of_line(line, power, found.low, found.high)
    reached = jnp.maximum(best.value, 0)
    rest = _value(power, peak, line.at(peak))
    return best._replace(bound=jnp.clip(rest, reached, jnp.maximum(found.bound, reached)))


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
