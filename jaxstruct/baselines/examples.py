"""Training examples on the device, as the baselines read them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.chains.inputs import ChainInput
from jaxstruct.core.types import Array, PyTree


def on_device(tree: PyTree, dtype: jnp.dtype) -> PyTree:
    """Device arrays: floating-point leaves in the dtype of the run, integers in int32."""

    def put(leaf: np.ndarray) -> Array:
        kind = jnp.result_type(leaf)
        if jnp.issubdtype(kind, jnp.floating):
            return jnp.asarray(leaf, dtype)
        return jnp.asarray(leaf, jnp.int32 if jnp.issubdtype(kind, jnp.integer) else None)

    return jax.tree.map(put, tree)


def without_gram(inputs: PyTree) -> PyTree:
    """Inputs of a chain without their token Gram matrices: only dual solvers read these."""
    return inputs._replace(gram=None) if isinstance(inputs, ChainInput) else inputs
