"""Visits to single examples of classes, made for one kernel (`core.one_kernel`).

The planes of an example are read as they are: they differ in all that they are, a class.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from jaxstruct.core.buckets import rows_at
from jaxstruct.core.contract import Differences, LookedUp
from jaxstruct.core.row_loops import add_to_rows, sum_of_rows
from jaxstruct.core.types import Array, PyTree


def _values(w: PyTree, inputs: PyTree, outputs: Array, index: Array) -> Array:
    def of_one(at: Array) -> Array:
        return sum_of_rows(w["weights"], rows_at(inputs, at))[outputs[at]]

    return jax.lax.map(of_one, index)


def _add(w: PyTree, inputs: PyTree, outputs: Array, index: Array, coefficients: Array) -> PyTree:
    classes = w["weights"].shape[1]

    def of_one(number: Array, table: Array) -> Array:
        at, c = index[number], coefficients[number]

        def count(k: Array, u: Array) -> Array:
            y = outputs[at, k]
            return jax.lax.dynamic_update_slice_in_dim(u, (u[y] + c[k])[None], y, 0)

        u = jax.lax.fori_loop(0, outputs.shape[1], count, jnp.zeros(classes, c.dtype))
        return add_to_rows(table, rows_at(inputs, at), u)

    return {"weights": jax.lax.fori_loop(0, index.shape[0], of_one, w["weights"])}


def _look_up(
    plane_gram: Partial, theta: Array, inputs: PyTree, outputs: Array, at: Array, y_true: Array,
    y: Array, occupied: Array,
) -> LookedUp:  # fmt: skip
    x, own = rows_at(inputs, at), outputs[at]
    known = jnp.any((own == y) & occupied)
    squared = plane_gram(x, y_true, y[None], y)[0]
    scores, products = theta[own], plane_gram(x, y_true, own, y)
    return LookedUp(
        jnp.where(occupied, scores, 0), jnp.where(occupied, products, 0), squared, known
    )


def class_differences(plane_gram: Partial) -> Differences:
    """Of classes with weights of their own; plane_gram: of their space."""
    return Differences(None, None, _values, _add, None, Partial(_look_up, plane_gram))
