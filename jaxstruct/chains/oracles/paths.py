"""Tracing paths back through the recursion of `chain_steps`, batch last.

Predecessors are computed again from the prefix scores of the forward run, for the one state that a
path is in; storing them for all states would cost more than it saves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from jaxstruct.chains.oracles import steps as chain_steps
from jaxstruct.chains.oracles.steps import Step, at_columns, chosen, flat_index
from jaxstruct.chains.potentials import PADDING, ChainPotentials
from jaxstruct.core.loops import scan_first
from jaxstruct.core.types import Array, PyTree


class State(NamedTuple):
    """Where paths stand: y^t and, in a chain of second order, y^{t-1} (else 0), each [.., B]."""

    label: Array
    before: Array


def last_state(index: Array, potentials: ChainPotentials) -> State:
    """The state of an index of `last_labels_first`."""
    if potentials.triples is None:
        return State(index, jnp.zeros_like(index))
    S = potentials.emissions.shape[1]
    return State(index // S, index % S)


def last_labels_first(alpha: Array) -> Array:
    """[c S, E, B]: whole-sequence scores ordered by the last label, then by the one before it."""
    swapped = jnp.swapaxes(alpha, 0, 1)
    return swapped.reshape(-1, *alpha.shape[2:])


def _column_into(table: Array, state: State) -> Array:
    S, c, _, _ = table.shape
    return state.label if c == 1 else state.before * S + state.label


def entries_into(table: Array, state: State) -> Array:
    """[S, .., B]: the entries of a step's table into a state; axis 0: from which label."""
    S, c, _, width = table.shape
    return at_columns(table.reshape(S, c * S, width), _column_into(table, state))


def into(table: Array, state: State) -> Callable[[Array | int], Array]:
    """s -> [.., B]: the same entries one at a time, which is faster for a few labels."""
    S, c, _, width = table.shape
    if S > chain_steps.UNROLLED:
        entries = entries_into(table, state)
        return lambda s: entries[s]
    rows = table.reshape(S, c * S * width)
    column = flat_index(_column_into(table, state), width)
    return lambda s: rows[s].at[column].get(mode="promise_in_bounds")


def backward(
    potentials: ChainPotentials,
    length: Array,
    alphas: PyTree,
    last: tuple[State, PyTree],
    choose: Callable,
) -> Array:
    """Labels [T, .., B] of the paths that end in the states given, from the last to the first.

    Args:
      potentials, length: as in `forward`.
      alphas: of `forward`.
      last: the states at the last positions, and what else names a path there (a level, a rank).
      choose: (state, what else, alpha, table, index) -> the label [.., B] of axis 0 that a path
        comes from when the step `index` led it to `state`, and what else names it there.
    """
    second = potentials.triples is not None

    def body(path: tuple[State, PyTree], inputs: tuple[Step, PyTree]) -> tuple[PyTree, Array]:
        step, alpha = inputs
        state, rest = path
        table, _ = chain_steps.table_and_addend(potentials, step)
        label, rest = choose(state, rest, alpha, table, step.index)
        moved = State(state.before, label) if second else State(label, state.before)
        inside = step.index + 1 < length
        label = chosen(inside, state.label, jnp.full_like(state.label, PADDING))
        return chosen(inside, (moved, rest), path), label

    rows = (chain_steps.all_steps(potentials), alphas)
    steps = jnp.max(length) - 1
    (first, _), labels = scan_first(body, last, rows, steps, reverse=True, rest=PADDING)
    first_label = chosen(length > 0, first.label, jnp.full_like(first.label, PADDING))
    return jnp.concatenate([first_label[None], labels])
