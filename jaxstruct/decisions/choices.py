"""The k best of n things, and matchings of two sets as decisions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from jaxstruct.assignments.oracles.matching import best_matching
from jaxstruct.core.checks import checked_size
from jaxstruct.core.types import Array, PyTree, Static
from jaxstruct.decisions.sets import NONE, Decisions, decision_set, no_instances


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
