"""How a pass walks through the buckets of a task.

Planes never ride in the carry of a loop: they are closed over, what oracle calls find goes into a
buffer that nothing reads, and one scatter after the loop writes it. On a CPU loops over the rows in
its place took 2.5 s for 2.3 of OCR words, 3.2 for 2.5 of 300 Spanish sentences. Multipliers are
few: visits carry and write them.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxstruct.core.buckets import bucket_slices
from jaxstruct.core.types import AnyArray, Array, PyTree
from jaxstruct.solvers.n_slack.task import Task

TURNS = 16
"""Into how many parts a sweep over several buckets is cut, so that their examples mix: one bucket
after the other is a cyclic order, 77 to 90 rounds of OCR words where mixed ones take 35."""


def bucket_task(task: Task, number: int) -> Task:
    """One bucket as a task of its own, its inputs and outputs no longer in tuples."""
    own = bucket_slices(task.outputs)[number]
    terms = task.terms._replace(cap=task.terms.cap[own], ridge=task.terms.ridge[own])
    return Task(task.inputs[number], task.outputs[number], terms)


def interleave(
    spans: tuple[tuple[Array, Array], ...],
    turns: int,
    bodies: list[Callable],
    shared: PyTree,
    own: list[PyTree],
) -> tuple[PyTree, list[PyTree]]:
    """Run bodies[b] for first_b..last_b-1, the buckets taking turns; (shared, own) at the end.

    Visiting one bucket after the other would be a cyclic order, which takes twice as many rounds:
    the examples of all buckets must be mixed.

    Args:
      spans: (first_b, last_b). turns: static, into how many parts each span is cut.
      bodies: (at, shared, own_b) -> (shared, own_b).
      shared: what all bodies read and write. own: of each body.
    """

    def turn(number: Array, state: tuple) -> tuple:
        shared, after = state[0], []
        for (start, stop), body, own in zip(spans, bodies, state[1], strict=True):
            first = start + number * (stop - start) // turns
            last = start + (number + 1) * (stop - start) // turns
            shared, own = jax.lax.fori_loop(
                first, last, lambda at, pair, body=body: body(at, *pair), (shared, own)
            )
            after.append(own)
        return shared, after

    if len(bodies) == 1:
        turns = 1
    return jax.lax.fori_loop(0, turns, turn, (shared, own))


def into_buffers(body: Callable) -> Callable:
    """A body of `interleave` of (at, shared) -> (shared, results): results `at` go into buffers."""

    def put(at: Array, shared: PyTree, buffers: PyTree) -> tuple[PyTree, PyTree]:
        shared, results = body(at, shared)
        return shared, jax.tree.map(lambda to, new: to.at[at].set(new), buffers, results)

    return put


def empty_results(body: Callable, count: int, w: PyTree) -> PyTree:
    """Empty arrays for `count` results of a body."""
    _, shapes = jax.eval_shape(body, jnp.int32(0), w)
    return jax.tree.map(lambda leaf: jnp.zeros((count, *leaf.shape), leaf.dtype), shapes)


def visited_rows(order: Array, span: tuple[AnyArray, AnyArray]) -> Array:
    """The rows of the batches in a span, flat; out of range where a batch is not in it."""
    at = jnp.arange(order.shape[0])
    inside = (at >= span[0]) & (at < span[1])
    return jnp.where(inside[:, None], order, order.size).reshape(-1)
