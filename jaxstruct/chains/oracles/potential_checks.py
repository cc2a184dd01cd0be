"""What the chain oracles check before they compile: shapes and dtypes, while tracing."""

from __future__ import annotations

import jax.numpy as jnp

from jaxstruct.chains.potentials import ChainPotentials
from jaxstruct.core.lengths import checked_length
from jaxstruct.core.spec import array, one_example
from jaxstruct.core.types import Array


def checked_potentials(potentials: ChainPotentials) -> ChainPotentials:
    """Potentials of one chain as arrays of one floating dtype.

    Raises:
      ValueError: a shape does not fit the emissions, T or S is 0, or the potentials are not
        floating-point numbers.
    """
    return one_example(
        "potentials", potentials, {}, emissions="T S", transitions="S S | T-1 S S", start="S",
        stop="S", triples="S S S | T-2 S S S",
    )  # fmt: skip


def checked_chain(potentials: ChainPotentials, length: Array) -> tuple[ChainPotentials, Array]:
    """Potentials and length of one chain.

    Raises:
      ValueError: as `checked_potentials` and `checked_length`.
    """
    potentials = checked_potentials(potentials)
    return potentials, checked_length(length, potentials.emissions.shape[0])


def checked_labels(y_true: Array, potentials: ChainPotentials) -> Array:
    """Labels of one chain, [T] int32.

    Raises:
      ValueError: they are not [T] integers.
    """
    y_true, T = jnp.asarray(y_true), potentials.emissions.shape[0]
    array("y_true", y_true, "T", None, {"T": T})
    if not jnp.issubdtype(y_true.dtype, jnp.integer):
        raise ValueError(f"y_true must be integer labels, got {y_true.dtype}")
    return y_true.astype(jnp.int32)
