"""Substitution scores and gap costs as weights, and the histogram of operations that is Psi.

    F(x, y, a; w) = sum over pairs of W[x^i, y^j] - cost of the gaps,     Psi = what a uses of each

(JMLR 4.4: "the histogram of alignment operations"). Weights w are {"substitution": W [A, A], "gap":
scalar} where every letter against a gap costs the same, or {"substitution", "gap_open",
"gap_extend"} where the first letter of a run has a cost of its own. Gaps are costs: Psi counts them
negatively.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.alignments.potentials import AlignmentPotentials, steps_of
from jaxstruct.core.contract import Space
from jaxstruct.core.transposition import sum_of_squares
from jaxstruct.core.types import Array, PyTree, Static

GAPS = ("linear", "affine")


class AlignmentCosts(NamedTuple):
    """What an alignment is scored with.

    Fields:
      substitution: [A, A], the row is the letter of the first sequence.
      gap_open, gap_extend: scalars, of the first letter of a run against a gap, of a later one.
    """

    substitution: Array
    gap_open: Array
    gap_extend: Array


class OperationCounts(NamedTuple):
    """What one alignment uses.

    Fields:
      cells: [L] int32 row and column of W as one number, A^2 where a step pairs nothing.
      opened, later: scalars, first and later letters of runs against a gap.
    """

    cells: Array
    opened: Array
    later: Array


class AlignmentTheta(NamedTuple):
    """Potentials of one input: the costs, and the letters x that they are looked up with."""

    costs: AlignmentCosts
    x: PyTree


class CostModel(NamedTuple):
    """What structures share whose outputs are alignments: functions of `make_problem`."""

    weights: PyTree
    potentials: Callable
    score: Callable
    space: Space


def initial_weights(alphabet_size: int, gaps: str, dtype: str) -> dict[str, Array]:
    """Zeros of every weight."""
    names = ("gap",) if gaps == "linear" else ("gap_open", "gap_extend")
    zeros = {name: np.zeros((), dtype) for name in names}
    return jax.device_put({"substitution": np.zeros((alphabet_size,) * 2, dtype), **zeros})


def alignment_costs(symmetric: Array | float, w: PyTree) -> AlignmentCosts:
    """The costs that weights stand for. `symmetric` 1: W counts as (W + W') / 2; 0: as it is."""
    substitution = w["substitution"]
    substitution = substitution + symmetric * (substitution.T - substitution) / 2
    if "gap" in w:
        return AlignmentCosts(substitution, w["gap"], w["gap"])
    return AlignmentCosts(substitution, w["gap_open"], w["gap_extend"])


def alignment_potentials(costs: AlignmentCosts, first: Array, second: Array) -> AlignmentPotentials:
    """Potentials of one pair of sequences of letters [M] and [N]; padding may hold anything."""
    A = costs.substitution.shape[0]
    rows = costs.substitution[jnp.clip(first, 0, A - 1)]
    return AlignmentPotentials(
        rows[:, jnp.clip(second, 0, A - 1)], costs.gap_open, costs.gap_extend
    )


def pair_potentials(theta: AlignmentTheta) -> AlignmentPotentials:
    """The potentials of one input as the oracles take them; its lengths are theta.x.lengths."""
    return alignment_potentials(theta.costs, theta.x.first, theta.x.second)


def seen(theta: AlignmentTheta) -> tuple[AlignmentPotentials, Array]:
    """(potentials, lengths) of one input, as the oracles take them."""
    return pair_potentials(theta), theta.x.lengths


def operation_counts(
    A: int, first: Array, second: Array, operations: Array, begin: Array
) -> OperationCounts:
    """The histogram of one alignment of letters first [M] and second [N], as a list."""
    steps = steps_of(operations, begin)
    row = first[jnp.clip(steps.i, 0, first.shape[0] - 1)]
    column = second[jnp.clip(steps.j, 0, second.shape[0] - 1)]
    cells = jnp.where(steps.paired, row * A + column, A * A).astype(jnp.int32)
    runs = (jnp.sum(each, dtype=jnp.int32) for each in (steps.opened, steps.later))
    return OperationCounts(cells, *runs)


def score_counts(costs: AlignmentCosts, counts: OperationCounts) -> Array:
    """F of one alignment."""
    flat = costs.substitution.reshape(-1)
    pairs = jnp.sum(flat.at[counts.cells].get(mode="fill", fill_value=0))
    return pairs - counts.opened * costs.gap_open - counts.later * costs.gap_extend


def combined_counts(
    costs: AlignmentCosts, counts: OperationCounts, coefficients: Array
) -> AlignmentCosts:
    """sum_k c_k d score / d costs of K alignments; counts have a leading axis K."""
    flat = jnp.zeros_like(costs.substitution).reshape(-1)
    spread = jnp.broadcast_to(coefficients[:, None], counts.cells.shape)
    flat = flat.at[counts.cells.reshape(-1)].add(spread.reshape(-1), mode="drop")
    opened, later = (-jnp.sum(coefficients * each) for each in counts[1:])
    return AlignmentCosts(flat.reshape(costs.substitution.shape), opened, later)


class _Tables(NamedTuple):
    """symmetric: 1 or 0. linear: whether a gap has one cost a letter, not two (affine)."""

    symmetric: Array
    linear: Static[bool]


def _potentials(tables: _Tables, w: PyTree, x: PyTree) -> AlignmentTheta:
    return AlignmentTheta(alignment_costs(tables.symmetric, w), jax.tree.map(jnp.asarray, x))


def _gram_action(tables: _Tables, x: PyTree, u: AlignmentTheta) -> AlignmentTheta:
    """A A' u: what adding u to the weights does to the costs; all inputs see the same ones."""
    del x
    W, opened, extended = u.costs
    W = W + tables.symmetric * (W.T - W) / 2
    if tables.linear.value:
        opened = extended = opened + extended
    return u._replace(costs=AlignmentCosts(W, opened, extended))


def _score(counts: Partial, theta: AlignmentTheta, y: PyTree) -> Array:
    return score_counts(theta.costs, counts(theta, y))


def _combine(counts: Partial, theta: AlignmentTheta, y: PyTree, c: Array) -> AlignmentTheta:
    every = jax.vmap(counts, (None, 0))(theta, y)
    return theta._replace(costs=combined_counts(theta.costs, every, c))


def cost_model(A: int, gaps: str, symmetric: bool, dtype: str, counts: Callable) -> CostModel:
    """Costs of A letters, learned.

    Args:
      gaps: of `GAPS`. symmetric: whether W counts as (W + W') / 2. dtype: of the weights.
      counts: (theta, y) -> the `OperationCounts` of an output.
    """
    tables = _Tables(jnp.asarray(float(symmetric), dtype), Static(gaps == "linear"))
    counts = Partial(counts)
    space = Space(
        gram_action=Partial(_gram_action, tables), combine=Partial(_combine, counts),
        squared_norm=sum_of_squares,
    )  # fmt: skip
    return CostModel(
        initial_weights(A, gaps, dtype), Partial(_potentials, tables), Partial(_score, counts),
        space,
    )  # fmt: skip
