"""The recursion of all chain oracles, forward and back, batch last, over any `core.semiring`.

A chain of order o remembers its last o labels: values are [S, *C, B] of the state at position t,
its label y^t with C = (), or (y^{t-1}, y^t) with C = (S,); leading axes are those of the semiring.
A step takes the label of axis 0 out, and a mere reshape moves the axes up by one:

    values'[.., s'] = [plus_s values[s, ..] times table[s, .., s']] times addend[.., s']

Way back, predecessors are found again from the values, for the one state that a path is in; storing
them for all states would cost more than it saves. The state of a path is one number, y^t or
y^{t-1} S + y^t.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.chains.potentials import PADDING, ChainPotentials
from jaxstruct.core.batch_last import batch_size
from jaxstruct.core.loops import scan_first
from jaxstruct.core.semiring import Best, lift
from jaxstruct.core.types import Array, PyTree

COLUMNS = 512
"""Examples at a time on a CPU: 4,096 chains of 50 positions and 26 labels take Viterbi 8 us each in
such blocks, 25 at once (log Z 8 and 30)."""


class Step(NamedTuple):
    """What changes from position to position; for all of them with a leading axis of T - 1.

    Fields:
      index: t of the step from position t to t + 1.
      emissions: [S, B] of position t + 1.
      transitions, triples: of this step, or None where they are constant (or absent).
      ways: [S, B] the steps that the labels of position t + 1 make from place to place, or None.
    """

    index: Array
    emissions: Array
    transitions: Array | None
    triples: Array | None
    ways: Any


def all_steps(potentials: ChainPotentials, ways: Any = None) -> Step:
    """The steps of a chain, to scan over."""
    emissions, transitions, _, _, triples = potentials
    count = emissions.shape[0] - 1
    if triples is not None and triples.ndim == 5:
        before = jnp.zeros((1, *triples.shape[1:]), triples.dtype)
        triples = jnp.concatenate([before, triples])[:count]
    return Step(
        jnp.arange(count),
        emissions[1:],
        transitions if transitions.ndim == 4 else None,
        triples if triples is not None and triples.ndim == 5 else None,
        None if ways is None else ways[1:],
    )


def table_and_addend(potentials: ChainPotentials, step: Step) -> tuple[Array, Array]:
    """The table [S, *C, S, 1 or B] and the addend [*C, S, 1 or B] of one step."""
    transitions = potentials.transitions if step.transitions is None else step.transitions
    if potentials.triples is None:
        return transitions, step.emissions
    triples = potentials.triples if step.triples is None else step.triples
    table = jnp.where(step.index == 0, 0, triples)  # the first step has no label before it
    return table, step.emissions[None] + transitions


def first_scores(potentials: ChainPotentials, batch: int) -> Array:
    """[S, *C, B] of position 0; before it there is only the dummy label 0."""
    score = potentials.emissions[0]
    if potentials.start is not None:
        score = score + potentials.start
    score = jnp.broadcast_to(score, (score.shape[0], batch))
    if potentials.triples is None:
        return score
    dummy = jnp.arange(score.shape[0])[:, None, None] == 0
    return jnp.where(dummy, score[None], -jnp.inf)


def forward(
    rule: Best,
    potentials: ChainPotentials,
    length: Array,
    ways: Array | None = None,
    *,
    keep: bool = True,
) -> tuple[PyTree, PyTree]:
    """Run the recursion. After the last position of a sequence its values stay the same.

    It ends with the longest sequence of the batch, however far they are padded.

    Args:
      potentials: batch last. length: [1 or B].
      ways: [T, S, 1 or B] the steps that labels make from place to place, or None.
      keep: whether to return the values of all positions.

    Returns:
      Values of whole sequences by their last states, and those at positions 0..T - 2 (0 from the
      last one of the longest sequence on).
    """
    second = potentials.triples is not None
    first = rule.of(first_scores(potentials, batch_size(potentials, length, ways)))
    first = first if ways is None else rule.moved(first, ways[0])

    def body(values: PyTree, step: Step) -> tuple[PyTree, PyTree]:
        table, addend = table_and_addend(potentials, step)
        new = rule.moved(rule.contract(values, table), step.ways)
        new = rule.times(new, addend)
        on = step.index + 1 < length
        return jax.tree.map(lambda a, b: jnp.where(on, a, b), new, values), values if keep else None

    steps = all_steps(potentials, ways)
    last, every = scan_first(body, first, steps, jnp.max(length) - 1)
    if potentials.stop is not None:
        last = rule.times(last, potentials.stop[None] if second else potentials.stop)
    return last, every


def last_first(values: PyTree, potentials: ChainPotentials) -> PyTree:
    """[.., c S, B]: values of states ordered by the last label, then by the one before it."""
    if potentials.triples is None:
        return values

    def swapped(leaf: Array) -> Array:
        return jnp.swapaxes(leaf, -3, -2).reshape(*leaf.shape[:-3], -1, leaf.shape[-1])

    return jax.tree.map(swapped, values)


def state_of(place: Array, potentials: ChainPotentials) -> Array:
    """The state of a place of `last_first`."""
    if potentials.triples is None:
        return place
    S = potentials.emissions.shape[1]
    return place % S * S + place // S


def at_columns(table: Array, index: Array) -> Array:
    """[.., *P, B] of a table [.., M, 1 or B]: entry (.., index[*p, b], b); 0 <= index < M.

    A few columns are selected, as gathering does not vectorise on a CPU.
    """
    *front, M, width = table.shape
    if M > 4:
        place = index if width == 1 else index * width + lift(jnp.arange(width), index)
        rows = table.reshape(*front, M * width)
        return rows.at[..., place].get(mode="promise_in_bounds")
    ones = (1,) * (index.ndim - 1)
    columns = [table[..., m, :].reshape(*front, *ones, width) for m in range(M)]
    result = jnp.broadcast_to(columns[0], (*front, *index.shape))
    for m in range(1, M):
        result = jnp.where(index == m, columns[m], result)
    return result


def trace_back(
    rule: Best,
    potentials: ChainPotentials,
    length: Array,
    every: PyTree,
    path: tuple[Array, Array],
    ways: Array | None = None,
    noise: Array | None = None,
) -> Array:
    """Labels [T, *P, B] of paths, from the last position to the first.

    Args:
      rule, potentials, length, ways: as in `forward`; every: its second result.
      path: (state at the end, place there), each [*P, B] int32.
      noise: [T - 1, S, B] of `Sums`.
    """
    S = potentials.emissions.shape[1]
    c = 1 if potentials.triples is None else S

    def body(path: tuple[Array, Array], row: tuple) -> tuple[tuple, Array]:
        (step, values, own), (state, at) = row, path
        table, _ = table_and_addend(potentials, step)
        scores = at_columns(table.reshape(S, c * S, -1), state)
        label, before = state % S, state // S
        values = jax.tree.map(
            lambda leaf: at_columns(leaf.reshape(*leaf.shape[: rule.leading], S, c, -1), before),
            values,
        )
        way = None if step.ways is None else at_columns(step.ways, label)[None]
        found, place = rule.choose(values, scores, at, way, own)
        on = step.index + 1 < length
        moved = jnp.where(on, found * c + before, state), jnp.where(on, place, at)
        return moved, jnp.where(on, label, PADDING)

    rows, steps = (all_steps(potentials, ways), every, noise), jnp.max(length) - 1
    (state, _), labels = scan_first(body, path, rows, steps, reverse=True, rest=PADDING)
    return jnp.concatenate([jnp.where(length > 0, state % S, PADDING)[None], labels])
