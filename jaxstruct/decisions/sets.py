"""What a decision set is: its decisions are vectors of integers, and an oracle finds the best one.

    y*(theta) = argmax_y <theta, y>,    theta = -c of "minimise", theta = v of "maximise"

Costs c (or values v) are what users have; theta is seen by oracles alone. The sense is said once,
where a set is made, and everything on it follows. A forbidden coordinate has theta = -inf: a
decision with y_j != 0 there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.assignments.oracles.matching import best_matching
from jaxstruct.core.checks import NoOutput, check_choice, check_flag, check_record, checked_size
from jaxstruct.core.device import on_device
from jaxstruct.core.spec import array
from jaxstruct.core.types import AnyArray, Array, PyTree, Static

SENSES = {"minimise": -1, "maximise": 1}
NONE = -1
"""What a vector holds throughout where there is no decision."""


class Decisions(NamedTuple):
    """A decision set; `shortest_paths`, `knapsack`, `top_k`, `matchings` and `own` make one.

    It is a pytree, so that a compiled function may take it as an argument.

    Fields:
      best: (theta [d], instance) -> y [d] int32 of ONE example, an argmax, or NONE throughout.
      check: (instances, n) -> None on the host, before anything compiles.
      size: d. sense: "minimise" or "maximise".
      made: (the name of its maker, its arguments), for model files; None of `own`.
      bounded: best with a bound of the maximum, a `Bounded`; None where best is exact.
    """

    best: Partial
    check: Partial
    size: Static[int]
    sense: Static[str]
    made: Static[tuple[str, tuple] | None] = Static(None)
    bounded: Partial | None = None

    @property
    def sign(self) -> int:
        """What turns costs into theta: -1 of "minimise", 1 of "maximise"."""
        return SENSES[self.sense.value]


def decision_set(
    best: Callable, check: Callable, size: int, sense: str, made: tuple[str, dict] | None = None
) -> Decisions:
    """The record, checked; made: the name of the maker and its arguments, hashable ones."""
    check_choice("sense", sense, tuple(SENSES))
    plain = None if made is None else (made[0], tuple(made[1].items()))
    best, check = (f if isinstance(f, Partial) else Partial(f) for f in (best, check))
    return Decisions(best, check, Static(size), Static(sense), Static(plain))


def no_instances(instances: PyTree, n: int) -> None:
    """The check of a set that is the same for all examples."""
    del n
    if jax.tree.leaves(instances):
        raise ValueError("instances must be (): this set is the same for all examples")


def _without_bound(best: Partial, theta: Array, instance: PyTree) -> Array:
    return best(theta, instance).output


def own(
    size: int,
    best: Callable,
    sense: str,
    check: Callable[[PyTree, int], None] = no_instances,
    *,
    bounded: bool = False,
) -> Decisions:
    """A set of your own.

    Args:
      size: d, the length of a decision.
      best: (theta [d], instance) -> y [d] integers, an argmax of <theta, y> of ONE example; see
        the module for theta. It is called under `jax.vmap` and `jax.jit`. A solver in Python is one
        by `jaxstruct.host_oracle`. To `fit`, instances are integers or booleans: real numbers would
        be taken for a part of theta.
      sense: "minimise" or "maximise": what <c, y> is to be.
      check: (instances, n) -> None, raises ValueError of instances [n, ..] that do not fit.
      bounded: best returns `jaxstruct.Bounded(y, bound)` with at least max <theta, y>, since y is
        not quite the best: real numbers in parts of a denominator, a solver that stops at a gap.
        Certificates of `fit` count the bound.

    Raises:
      ValueError: an argument does not fit.
    """
    check_flag("bounded", bounded)
    if not callable(best) or not callable(check):
        raise ValueError("best and check must be functions")
    best = best if isinstance(best, Partial) else Partial(best)
    found = Partial(_without_bound, best) if bounded else best
    made = decision_set(found, check, checked_size("size", size), sense)
    return made._replace(bounded=best) if bounded else made


def inner(theta: AnyArray, y: AnyArray) -> Array:
    """<theta, y> over the last axis, where forbidden coordinates of y = 0 count nothing."""
    y = y.astype(theta.dtype)
    return jnp.sum(jnp.where(y != 0, theta * y, 0), axis=-1)


def checked_set(decisions: Any) -> Decisions:
    """The set; ValueError where it is none."""
    check_record("decisions", decisions, Decisions, "jaxstruct.decisions.shortest_paths")
    return decisions


def checked_vector(name: str, value: Any, decisions: Decisions) -> Array:
    """The costs of ONE example as an array [d] of floats; ValueError where they are none."""
    found = jnp.asarray(value)
    found = found if jnp.issubdtype(found.dtype, jnp.floating) else found.astype(float)
    return array(name, found, "d", None, {"d": decisions.size.value}, advice="; use jax.vmap")


@jax.jit
def best_of_batch(decisions: Decisions, costs: Array, instances: PyTree) -> Array:
    """[n, d] the best decisions under costs [n, d]."""
    return jax.vmap(decisions.best)(decisions.sign * costs, instances)


def decide(decisions: Decisions, costs: AnyArray, instances: PyTree = ()) -> np.ndarray:
    """The best decisions of n examples, by one batched call of the oracle.

    Args:
      decisions: the set.
      costs: [n, d] costs c or values v; inf forbids a coordinate of a minimum, -inf of a maximum.
      instances: what differs from example to example, leaves [n, ..]; see the maker of the set.

    Returns:
      [n, d] int32. Of equal decisions the one that the maker of the set says.

    Raises:
      ValueError: an argument does not fit; an example has no decision (`NoOutput`).
    """
    decisions = checked_set(decisions)
    costs = array("costs", costs, "n d", "numbers", {"d": decisions.size.value})
    _refuse_nan(decisions, costs)
    decisions.check(instances, len(costs))
    if not len(costs):
        return np.zeros(costs.shape, np.int32)
    floats = costs if costs.dtype.kind == "f" else costs.astype(np.float64)
    found = np.asarray(best_of_batch(decisions, on_device(floats), instances))
    none = np.flatnonzero((found == NONE).all(axis=1))
    if none.size:
        raise NoOutput(none, ["its costs forbid every decision"] * len(none))
    return found


def _refuse_nan(decisions: Decisions, costs: np.ndarray) -> None:
    wrong = np.isnan(costs) | (decisions.sign * costs == np.inf)
    if wrong.any():
        i, j = np.argwhere(wrong)[0]
        better = {-1: "-inf", 1: "inf"}[decisions.sign]
        raise ValueError(f"costs[{i}, {j}] is NaN or {better}: {decisions.sense.value} has no end")


def regret(
    decisions: Decisions, predicted: AnyArray, costs: AnyArray, instances: PyTree = ()
) -> float:
    """How much worse decisions under predicted costs are, normalised by the best ones.

        sum_i |<c_i, y*(c^_i)> - <c_i, y*(c_i)>| / sum_i |<c_i, y*(c_i)>|

    The difference has the sign of a loss in both senses. Ties of predicted costs go as in `decide`.

    Args:
      predicted, costs: [n, d] c^ and the true c, finite. instances: as in `decide`.

    Returns:
      A number >= 0; 0 where nothing is lost, inf where the best decisions sum to 0 and others do
      not.

    Raises:
      ValueError: as `decide`.

    Source: A. Elmachtoub and P. Grigas, "Smart predict, then optimize", Management Science 2022.
    """
    found, best = (decide(decisions, each, instances) for each in (predicted, costs))
    return regret_of(decisions, found, best, costs)


def regret_of(decisions: Decisions, found: np.ndarray, best: np.ndarray, costs: AnyArray) -> float:
    """`regret` of decisions that were made, [n, d] each."""
    costs = np.asarray(costs, np.float64)
    reached, optimum = (np.sum(np.where(y != 0, costs * y, 0), axis=1) for y in (found, best))
    lost, size = decisions.sign * np.sum(optimum - reached), np.sum(np.abs(optimum))
    return float(lost / size) if size else float(np.inf if lost > 0 else 0.0)


def _top(k: Static[int], theta: Array, instance: PyTree) -> Array:
    del instance
    values, places = jax.lax.top_k(theta, k.value)
    chosen = jnp.zeros(theta.shape, jnp.int32).at[places].set(1)
    return jnp.where(values[-1] > -jnp.inf, chosen, NONE)


def top_k(n: int, k: int, *, sense: str = "maximise") -> Decisions:
    """Exactly k of n things, each a 1 in y [n]; of equal ones the first.

    Raises:
      ValueError: an argument does not fit.
    """
    n = checked_size("n", n)
    k = checked_size("k", k, 1, n)
    made = {"n": n, "k": k, "sense": sense}
    return decision_set(Partial(_top, Static(k)), no_instances, n, sense, ("top_k", made))


def _matched(shape: Static[tuple[int, int]], theta: Array, instance: PyTree) -> Array:
    del instance
    R, C = shape.value
    pairs, sizes = theta.reshape(R, C), jnp.asarray([R, C], jnp.int32)
    found = best_matching(pairs, sizes, complete=True)
    y = (found.columns[:, None] == jnp.arange(C)[None]).astype(jnp.int32).reshape(R * C)
    return jnp.where(found.score > -jnp.inf, y, NONE)


def matchings(rows: int, columns: int, *, sense: str = "minimise") -> Decisions:
    """One-to-one matchings of rows and columns, all of the smaller set matched.

    y [rows columns] has a 1 at r columns + c where row r and column c are matched. Ties as in
    `jaxstruct.assignments.best_matching`.

    Raises:
      ValueError: an argument does not fit.
    """
    shape = checked_size("rows", rows), checked_size("columns", columns)
    made = {"rows": rows, "columns": columns, "sense": sense}
    best = Partial(_matched, Static(shape))
    return decision_set(best, no_instances, rows * columns, sense, ("matchings", made))
