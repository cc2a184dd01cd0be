"""The best outputs that agree with what is known, random ones to begin with, and moves to others.

A solution moves to other completions: its planes Psi(h) - Psi(y) become Psi(h') - Psi(y).

With a = Psi(h), a' = Psi(h') and planes phi_k = a - Psi(y_k), the new ones are phi_k - (a - a'). So
one Gram column of each example, c_k = <phi_k, a - a'>, makes all of the new products:

    <phi'_k, phi'_l> = <phi_k, phi_l> - c_k - c_l + |a - a'|^2

Multipliers stay, and so the dual variables stay feasible; losses do, since they do not read h. The
plane of h', which vanishes, gives its slot to h.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.buckets import Buckets, bucket_slices, rows_of
from jaxstruct.core.compiling import program
from jaxstruct.core.contract import (
    Incomplete,
    Inference,
    Model,
    Oracles,
    Padding,
    Problem,
    Truth,
    output_of,
)
from jaxstruct.core.device import on_device
from jaxstruct.core.padding import bucketed
from jaxstruct.core.sizes import batch_rows
from jaxstruct.core.transposition import linear_leaves, with_linear_leaves
from jaxstruct.core.types import Array, PyTree, Static
from jaxstruct.solvers.n_slack.task import padded_rows
from jaxstruct.solvers.n_slack.working_sets import WorkingSets, bucket_of, join_buckets
from jaxstruct.solvers.solution import Solution
from jaxstruct.solvers.validation.checks import checked_buckets, checked_examples

BATCH = 32
"""Examples completed side by side, at most: 300 Spanish sentences take .08 s, .64 with 256."""


class Completed(NamedTuple):
    """Outputs that agree with what is known, of n examples.

    Fields:
      outputs: `Buckets` of `Truth`s, the known part beside each output.
      gain: [n] by how much F of each is above that of the output before it, >= 0.
    """

    outputs: Buckets
    gain: np.ndarray


@jax.jit
def _complete_batch(model: Model, w: PyTree, x: PyTree, y: Truth) -> tuple[PyTree, Array]:
    """(outputs [B], gains [B]); the output before stays where none is better."""

    def one(x: PyTree, y: Truth) -> tuple[PyTree, Array]:
        theta = model.potentials(w, x)
        found = model.complete(theta, y.numbers)
        gain = model.score(theta, found) - model.score(theta, y.output)
        kept = jax.tree.map(lambda new, old: jnp.where(gain > 0, new, old), found, y.output)
        return kept, jnp.maximum(gain, 0)

    return jax.vmap(one)(x, y)


@jax.jit
def _draw_batch(model: Model, w: PyTree, x: PyTree, y: Truth, keys: Array) -> tuple[PyTree, Array]:
    """Outputs that are best under potentials drawn from a normal distribution, and zeros."""

    def one(x: PyTree, y: Truth, key: Array) -> PyTree:
        theta = model.potentials(w, x)
        leaves = linear_leaves(theta)
        own = zip(jax.random.split(key, len(leaves)), leaves, strict=True)
        drawn = [jax.random.normal(key, leaf.shape, leaf.dtype) for key, leaf in own]
        return model.complete(with_linear_leaves(theta, drawn), y.numbers)

    return jax.vmap(one)(x, y, keys), jnp.zeros(len(keys), jnp.float32)


_complete_program, _draw_program = program(_complete_batch), program(_draw_batch)


def _each(run: Callable, inputs: PyTree, outputs: Truth, index: np.ndarray) -> tuple:
    """The answers of a program that takes batches of one bucket; index: its examples."""
    n = rows_of(inputs)
    size = batch_rows(n, BATCH)
    x, y, at = padded_rows((inputs, outputs, index), -(-n // size) * size)
    pieces = []
    for first in range(0, len(at), size):
        part = jax.tree.map(lambda leaf, at=first: leaf[at : at + size], (x, y, at))
        pieces.append(run(*part))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:n], *pieces)


def _gathered(run: Callable, inputs: Buckets, outputs: Buckets) -> Completed:
    parts, gain = [], np.zeros(sum(map(len, outputs.index)))
    for x, y, index in zip(inputs.parts, outputs.parts, outputs.index, strict=True):
        found, gain[index] = _each(run, x, y, index)
        parts.append(Truth(jax.tree.map(lambda leaf: leaf.astype(np.int32), found), y.numbers))
    return Completed(Buckets(tuple(parts), outputs.index), gain)


def _reads(problem: Problem) -> Model:
    none: Any = None
    return problem.model._replace(decode=none, loss=none)


def complete(problem: Problem, w: PyTree, inputs: Buckets, outputs: Buckets) -> Completed:
    """argmax of F(x_i, h; w) over the outputs h that agree with what is known of each example.

    Args:
      outputs: `Truth`s whose outputs agree; one of them stays where no other one has a larger F, so
        that ties and an oracle that is not exact never lower F.
    """

    def run(x: PyTree, y: Truth, at: np.ndarray) -> tuple:
        del at
        return _complete_program(_reads(problem), w, x, y)

    return _gathered(run, inputs, outputs)


def drawn(problem: Problem, inputs: Buckets, outputs: Buckets, seed: int) -> Buckets:
    """Outputs that agree, drawn at random: each the best under normal potentials of its own."""

    def run(x: PyTree, y: Truth, at: np.ndarray) -> tuple:
        keys = jax.vmap(partial(jax.random.fold_in, jax.random.key(seed)))(at)
        return _draw_program(_reads(problem), problem.initial_weights, x, y, keys)

    return _gathered(run, inputs, outputs).outputs


def some_that_agree(
    problem: Problem,
    inputs: PyTree,
    outputs: Incomplete,
    weights: np.ndarray | None,
    *,
    seed: int = 0,
    dual: bool = True,
) -> tuple[Buckets, Buckets]:
    """(inputs, `Truth`s whose outputs agree with what is known, as `drawn`), in buckets, checked.

    Args:
      weights: of the examples, or None. dual: of `checked_buckets`.

    Raises:
      ValueError: an argument does not fit, or an example has no output that agrees.
    """
    checked_examples(inputs, outputs.output, weights)
    truth = Truth(outputs.output, outputs.known)
    x, y = bucketed(problem.padding, inputs, truth, completed=dual)
    return checked_buckets(problem, x, drawn(problem, x, y, seed), weights)


ROWS = 64
"""Examples whose planes are moved side by side."""


def _moved(problem: Problem, x: PyTree, own: WorkingSets, h: PyTree) -> WorkingSets:
    """The working set of ONE example about the output h."""
    slots = jnp.arange(own.losses.shape[0])
    before = jax.tree.map(lambda leaf: leaf[0], own.outputs)
    same = jax.tree.map(
        lambda held, new: jnp.all((held == new[None]).reshape(len(slots), -1), axis=1),
        own.outputs,
        h,
    )
    same = jnp.all(jnp.stack(jax.tree.leaves(same)), axis=0) & own.occupied & (slots > 0)

    def put(held: Array, new: Array) -> Array:
        swap = same.reshape(-1, *(1,) * (held.ndim - 1))
        return jnp.where(swap, held[0], held).at[0].set(new)

    outputs = jax.tree.map(put, own.outputs, h)
    planes = own.occupied & (slots > 0)
    column = problem.space.plane_gram(x, before, own.outputs, h).astype(own.losses.dtype)
    squared = problem.space.plane_norms(x, before, jax.tree.map(lambda leaf: leaf[None], h))[0]
    column = jnp.where(planes & ~same, column, 0)
    norms = jnp.where(same, 0, own.norms) - 2 * column + squared
    both = planes[:, None] & planes[None]
    gram = own.gram
    if gram.shape[0]:
        gone = same[:, None] | same[None]
        gram = jnp.where(gone, 0, gram) - column[:, None] - column[None] + squared
        gram = jnp.where(both, gram, 0)
    bounds = own.losses
    if problem.model.known is not None:
        values = problem.space.plane_scores(problem.model.known(x), outputs)
        bounds = bounds - (values[0] - values)
    return own._replace(
        outputs=outputs,
        losses=jnp.where(same, 0, own.losses),
        bounds=jnp.where(planes, bounds, 0),
        multipliers=jnp.where(same, 0, own.multipliers),
        norms=jnp.where(planes, jnp.maximum(norms, 0), 0),
        gram=gram,
    )


@jax.jit
def _move_batch(problem: Problem, x: PyTree, own: WorkingSets, h: PyTree) -> WorkingSets:
    return jax.vmap(lambda *one: _moved(problem, *one))(x, own, h)


_move_program = program(_move_batch)


def _of_bucket(
    problem: Problem, own: WorkingSets, inputs: PyTree, h: PyTree, at: np.ndarray
) -> WorkingSets:
    """The working sets [N_b] of one bucket about the outputs h [N_b].

    Args:
      inputs: of its examples. at: [N_b] the example of each row.
    """
    held = jax.tree.map(lambda leaf: np.asarray(leaf)[:, 0], own.outputs)
    differ = jax.tree.map(lambda old, new: (old != new).reshape(len(at), -1).any(axis=1), held, h)
    which = np.flatnonzero(np.any(jax.tree.leaves(differ), axis=0))
    if not which.size:
        return own
    rows = padded_rows(which, -(-len(which) // ROWS) * ROWS)
    own = jax.tree.map(np.array, own)  # a copy, which the loop fills
    for first in range(0, len(rows), ROWS):
        some = rows[first : first + ROWS]
        x, part, new = (
            jax.tree.map(lambda leaf, at=place: np.asarray(leaf)[at], tree)
            for tree, place in ((inputs, at[some]), (own, some), (h, some))
        )
        moved = _move_program(problem, x, part, new)
        real = some[: max(0, min(ROWS, len(which) - first))]

        def put(held: np.ndarray, found: Array, real: np.ndarray = real) -> None:
            held[real] = np.asarray(found)[: len(real)]

        jax.tree.map(put, own, moved)
    return jax.tree.map(on_device, own)


def anchored(problem: Problem, solution: Solution, inputs: Buckets, outputs: Buckets) -> Solution:
    """The solution of margin re-scaling as one of other true outputs, for `fit(start=...)`.

    Args:
      solution: of `fit` on the same inputs, where each true output was another one that agrees.
      inputs, outputs: in buckets; outputs are `Truth`s.

    Returns:
      A Solution of which the state alone is of the new outputs.
    """
    none: Any = None
    reads = problem._replace(
        model=Model(problem.model.potentials, problem.model.score, none, none, problem.model.known),
        oracles=Oracles(), check=none, inference=Inference(), padding=Padding(), tested=Static(()),
    )  # fmt: skip
    sets, rows, parts = solution.state.sets, solution.details.rows, []
    of_buckets = zip(
        inputs.parts, outputs.parts, outputs.index, bucket_slices(sets.outputs), strict=True
    )
    for number, (x, y, index, own) in enumerate(of_buckets):
        order = np.argsort(index)
        place = order[np.searchsorted(index, np.maximum(rows[own], index.min()), sorter=order)]
        at = np.where(rows[own] >= 0, place, 0)  # padding is the first row again
        h = jax.tree.map(lambda leaf, at=at: np.asarray(leaf)[at].astype(np.int32), output_of(y))
        parts.append(_of_bucket(reads, bucket_of(sets, number), x, h, at))
    return solution._replace(state=solution.state._replace(sets=join_buckets(parts)))
