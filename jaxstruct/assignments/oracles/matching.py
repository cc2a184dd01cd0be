"""The best matching of two sets, complete or not, and the k best.

The best is the cheapest assignment of rows to columns. Where every item of the smaller set must be
matched, that set is made the rows; else all rows may leave by an exit. What an unmatched column
scores is lost by the row that takes it, so it is part of that row's cost.

The k best follow by branching on the best (K. Murty, Operations Research 16, 1968). Matchings but
the best one differ from it at a first row: so they fall into sets, one a row t, that share with it
what the rows before t take and have something else at t. The best of a set is one more cheapest
assignment, of costs that forbid the rest: the k best come out distinct and in order. Rows are those
of `Table`, which all take part.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.assignments.potentials import NONE, Matching, checked_potentials, score_matching
from jaxstruct.core.assigning import cheapest_assignment
from jaxstruct.core.branching import k_best_by_parts
from jaxstruct.core.checks import checked_size
from jaxstruct.core.types import Array


class Table(NamedTuple):
    """Costs of an assignment of which each row takes part.

    Fields:
      costs: [N, M + 1], inf where a pair is forbidden and on padding; the last column is the exit.
      count: int32, how many rows there are.
      flipped: bool, whether its rows are the columns of the potentials.
    """

    costs: Array
    count: Array
    flipped: Array


def _in_shape(costs: Array, N: int, M: int) -> Array:
    """Costs cut or filled up to [N, M]; what is cut off is padding."""
    costs = costs[:N, :M]
    missing = [(0, N - costs.shape[0]), (0, M - costs.shape[1])]
    return jnp.pad(costs, missing, constant_values=jnp.inf)


def table_of(pairs: Array, sizes: Array, rows: Any, columns: Any, complete: bool) -> Table:
    """The costs of one example; see `best_matching`."""
    R, C = pairs.shape
    inside = (jnp.arange(R)[:, None] < sizes[0]) & (jnp.arange(C)[None] < sizes[1])
    real = inside & (pairs > -jnp.inf)

    def costs(offset: Any, axis: int) -> Array:
        gains = pairs if offset is None else pairs - jnp.expand_dims(offset, 1 - axis)
        return jnp.where(real, -gains, jnp.inf)

    straight = costs(columns, 1)
    if not complete:
        exits = jnp.zeros(R, pairs.dtype) if rows is None else -rows
        table = jnp.concatenate([straight, exits[:, None]], axis=1)
        return Table(table, sizes[0], jnp.asarray(False))
    N, M = min(R, C), max(R, C)
    flipped = sizes[0] > sizes[1]
    turned = costs(rows, 0).T
    table = jnp.where(flipped, _in_shape(turned, N, M), _in_shape(straight, N, M))
    exits = jnp.full((N, 1), jnp.inf, pairs.dtype)
    return Table(jnp.concatenate([table, exits], axis=1), jnp.min(sizes), flipped)


def matching_of(table: Table, choices: Array, R: int) -> Array:
    """[R] the columns of the rows, from what each row of the table takes."""
    N, M = table.costs.shape[0], table.costs.shape[1] - 1
    real = (jnp.arange(N) < table.count) & (choices >= 0) & (choices < M)
    straight = jnp.pad(jnp.where(real, choices, NONE), (0, max(R - N, 0)), constant_values=NONE)
    at = jnp.where(real & table.flipped, choices, R)
    turned = jnp.full(R, NONE, jnp.int32).at[at].set(jnp.arange(N, dtype=jnp.int32), mode="drop")
    return jnp.where(table.flipped, turned, straight[:R].astype(jnp.int32))


def matched(
    table: Table, pairs: Array, sizes: Array, rows: Any, columns: Any
) -> tuple[Matching, Array]:
    """The cheapest matching of a table, scored by the potentials, and what its rows take."""
    choices = cheapest_assignment(jax.lax.stop_gradient(table.costs), table.count)
    possible = jnp.all((choices >= 0) | (jnp.arange(len(choices)) >= table.count))
    y = jnp.where(possible, matching_of(table, choices, pairs.shape[0]), NONE)
    score = score_matching(pairs, y, sizes, rows, columns)
    return Matching(y, jnp.where(possible, score, -jnp.inf)), choices


def best_matching(
    pairs: Array, sizes: Array, rows: Any = None, columns: Any = None, *, complete: bool
) -> Matching:
    """argmax of F over the matchings of ONE example; see `potentials`.

    Args:
      pairs: [R, C] potentials, -inf where a pair is forbidden. sizes: [2] int32, r and c; entries
        beyond are never read.
      rows: [R], columns: [C] potentials of unmatched items, finite; None for 0.
      complete: whether every item of the smaller set must be matched, static.

    Returns:
      Matching: columns [R] int32, NONE of unmatched rows and of padding, and its score, whose
      derivative counts the pairs. Of equal matchings one is taken by a fixed rule: rows look for a
      place in their order, at the nearest exit first and then at the lowest column. Padding does
      not change it. Where forbidden pairs leave no complete matching, NONE throughout and -inf.

    Raises:
      ValueError: shapes do not fit together, or a dtype is not what it should be.
    """
    pairs, sizes, rows, columns = checked_potentials(pairs, sizes, rows, columns)
    return matched(table_of(pairs, sizes, rows, columns, complete), pairs, sizes, rows, columns)[0]


class _Best(NamedTuple):
    """A matching as `Matching` has it, and as the rows of the table take it, choices [N]."""

    columns: Array
    score: Array
    choices: Array


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
    table = table_of(*given, complete)

    def best_of(allowed: Array | bool) -> _Best:
        own = table._replace(costs=jnp.where(allowed, table.costs, jnp.inf))
        found, choices = matched(own, *given)
        return _Best(*found, choices)

    def same(best: _Best) -> Array:
        return jnp.arange(table.costs.shape[1])[None] == best.choices[:, None]

    found = k_best_by_parts(best_of, same, table.costs, table.count, k, above, axis=0)
    there = (found.score > -jnp.inf)[:, None]
    return Matching(jnp.where(there, found.columns, NONE), found.score)


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
