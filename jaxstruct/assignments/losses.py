"""Losses of a matching against the true one, additive over pairs and unmatched items.

    rows    Delta = rows whose column, one or none, is wrong
    items   Delta = rows and columns whose partner, one or none, is wrong

and the same divided by the true pairs, or by the items in them, as "normalised_rows" and
"normalised_items". With t the true column of each row, a pair (i, j) costs 1 where t_i != j (2 of
`items`, since both are wrong then), and an unmatched item 1 where it has a true partner.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jaxstruct.core.checks import check_choice
from jaxstruct.core.types import Array, static

NAMES = ("rows", "items", "normalised_rows", "normalised_items")


@static
class MatchingLoss:
    """One of the losses of the module.

    Fields:
      of_columns: whether columns count, too. normalised: whether it is a share.
      dtype: of Delta.
    """

    of_columns: bool
    normalised: bool
    dtype: str


class Costs(NamedTuple):
    """What pairs [R, C] and unmatched rows [R] and columns [C] cost, anything on padding."""

    pairs: Array
    rows: Array
    columns: Array


def matching_loss(name: str, dtype: str) -> MatchingLoss:
    """The loss of a name.

    Raises:
      ValueError: an unknown name.
    """
    check_choice("loss", name, NAMES)
    return MatchingLoss("items" in name, name.startswith("normalised"), dtype)


def _unit(loss: MatchingLoss, y_true: Array) -> Array:
    """What one wrong item costs."""
    if not loss.normalised:
        return jnp.ones((), loss.dtype)
    pairs = jnp.maximum(jnp.sum(y_true >= 0), 1)
    return 1 / ((2 if loss.of_columns else 1) * pairs).astype(loss.dtype)


def delta(loss: MatchingLoss, y_true: Array, y: Array) -> Array:
    """Delta(y_true, y) of matchings [R] of one example, a scalar."""
    wrong = y != y_true
    count = jnp.sum(wrong)
    if loss.of_columns:
        left = ~jnp.any(y_true[:, None] == y[None], axis=1)
        count += jnp.sum(wrong & (y >= 0)) + jnp.sum((y_true >= 0) & left)
    return count.astype(loss.dtype) * _unit(loss, y_true)


def item_costs(loss: MatchingLoss, y_true: Array, C: int) -> Costs:
    """What is wrong with each pair and with each unmatched item, given the true matching [R]."""
    right, unit = y_true[:, None] == jnp.arange(C)[None], _unit(loss, y_true)
    missing = jnp.any(right, axis=0) & loss.of_columns
    return Costs(
        jnp.where(right, 0, (2 if loss.of_columns else 1) * unit),
        jnp.where(y_true >= 0, unit, 0),
        jnp.where(missing, unit, 0),
    )
