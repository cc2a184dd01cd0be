"""Visits to single examples of classes, as loops that a CPU does in place.

The planes of an example are read as they are: they differ in all that they are, a class.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct.core.buckets import rows_at
from jaxstruct.core.contract import Differences
from jaxstruct.core.feature_scores import add_to_rows, sum_of_rows
from jaxstruct.core.loops import put
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
            return put(u, y, u[y] + c[k])

        u = jax.lax.fori_loop(0, outputs.shape[1], count, jnp.zeros(classes, c.dtype))
        return add_to_rows(table, rows_at(inputs, at), u)

    return {"weights": jax.lax.fori_loop(0, index.shape[0], of_one, w["weights"])}


CLASS_DIFFERENCES = Differences(None, None, _values, _add, None, None)
"""Of classes with weights of their own."""
