"""The k best matchings, by branching on the best (K. Murty, Operations Research 16, 1968).

Matchings but the best one differ from it at a first row: so they fall into sets, one a row t, that
share with it what the rows before t take and have something else at t. The best of a set is one
more cheapest assignment, of costs that forbid the rest: the k best come out distinct and in order.
Rows are those of `matching.Table`, which all take part.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.assignments.oracles.matching import Table, cheapest, matching_of, table_of
from jaxstruct.assignments.potentials import NONE, Matching, checked_potentials, score_matching
from jaxstruct.core.branching import k_best_by_branching
from jaxstruct.core.checks import checked_size
from jaxstruct.core.types import Array


class _Set(NamedTuple):
    """A set of matchings by its best one.

    Fields:
      best: its best matching. choices: [N] the same as the rows of the table take it.
      first: the row before which choices are fixed.
      forbidden: [M + 1] bool, what row `first` may not take.
    """

    best: Matching
    choices: Array
    first: Array
    forbidden: Array


class _Example(NamedTuple):
    """pairs, sizes, rows, columns as `best_matching` has them, and their table."""

    pairs: Array
    sizes: Array
    rows: Any
    columns: Any
    table: Table


def _best_of(one: _Example, table: Table, first: Array, forbidden: Array) -> _Set:
    choices, possible = cheapest(table)
    y = matching_of(table, choices, one.pairs.shape[0])
    score = score_matching(one.pairs, y, one.sizes, one.rows, one.columns)
    found = Matching(jnp.where(possible, y, NONE), jnp.where(possible, score, -jnp.inf))
    return _Set(found, choices, first, forbidden)


def _branches(one: _Example, parent: _Set) -> _Set:
    """The sets [N] into which a set falls without its best matching, one a row."""
    costs = one.table.costs
    N, width = costs.shape
    row, place = jnp.arange(N)[:, None], jnp.arange(width)[None]

    def branch(t: Array) -> _Set:
        own = jnp.arange(width) == parent.choices[t]
        forbidden = (parent.forbidden & (t == parent.first)) | own
        same = place == parent.choices[:, None]
        allowed = jnp.where(row < t, same, (row > t) | ~forbidden[None])
        table = one.table._replace(costs=jnp.where(allowed, costs, jnp.inf))
        found = _best_of(one, table, t, forbidden)
        inside = (t >= parent.first) & (t < one.table.count)
        score = jnp.where(inside, found.best.score, -jnp.inf)
        return found._replace(best=found.best._replace(score=score))

    return jax.lax.map(branch, jnp.arange(N, dtype=jnp.int32))


def k_best_matchings(
    pairs: Array, sizes: Array, k: int, rows: Any = None, columns: Any = None,
    above: Array | float = -jnp.inf, *, complete: bool,
) -> Matching:  # fmt: skip
    """The k matchings of the largest scores, the best first.

    Args:
      pairs, sizes, rows, columns, complete: as `best_matching`.
      k: at least 1, static.
      above: scalar; matchings whose score is not above it do not count.

    Returns:
      Matching: columns [k, R], all different, with scores [k] that do not rise. Where there are
      fewer matchings, NONE throughout and -inf.

    Raises:
      ValueError: as `best_matching`, or k is no integer of at least 1.
    """
    given, k = checked_potentials(pairs, sizes, rows, columns), checked_size("k", k)
    one = _Example(*given, table_of(*given, complete))
    nothing = jnp.zeros(one.table.costs.shape[1], bool)
    whole = _best_of(one, one.table, jnp.int32(0), nothing)
    found = k_best_by_branching(whole, partial(_branches, one), k, above)
    there = (found.score > -jnp.inf)[:, None]
    return found._replace(columns=jnp.where(there, found.columns, NONE))


def best_wrong_matching(
    pairs: Array, y: Array, sizes: Array, rows: Any = None, columns: Any = None, *, complete: bool
) -> Matching:
    """The best matching but the given one y [R]; NONE throughout and -inf where it is the only one.

    Args:
      pairs, sizes, rows, columns, complete: as `best_matching`; y is a matching that they allow.
    """
    two = k_best_matchings(pairs, sizes, 2, rows, columns, complete=complete)
    same = jnp.all(two.columns[0] == y)
    return jax.tree.map(lambda leaf: jnp.where(same, leaf[1], leaf[0]), two)
