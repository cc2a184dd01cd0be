"""The k best matchings, by branching on the best (K. Murty, Operations Research 16, 1968).

Matchings but the best one differ from it at a first row: so they fall into sets, one a row t, that
share with it what the rows before t take and have something else at t. The best of a set is one
more cheapest assignment, of costs that forbid the rest: the k best come out distinct and in order.
Rows are those of `matching.Table`, which all take part.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.assignments.oracles.matching import matched, table_of
from jaxstruct.assignments.potentials import NONE, Matching, checked_potentials
from jaxstruct.core.branching import k_best_by_parts
from jaxstruct.core.checks import checked_size
from jaxstruct.core.types import Array


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
