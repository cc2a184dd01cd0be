"""What the chain oracles check before they compile: shapes and dtypes, while tracing."""

from __future__ import annotations

import jax.numpy as jnp

from jaxstruct.chains.potentials import ChainPotentials
from jaxstruct.core.lengths import checked_length
from jaxstruct.core.spec import array, one_example
from jaxstruct.core.types import Array


def checked_chain(potentials: ChainPotentials, length: Array) -> tuple[ChainPotentials, Array]:
    """Potentials of one chain, as arrays of one floating dtype, and its length.

    Raises:
      ValueError: a shape does not fit the emissions, T or S is 0, or the potentials are not
        floating-point numbers; as `checked_length`.
    """
    potentials = one_example(
        "potentials", potentials, {}, emissions="T S", transitions="S S | T-1 S S", start="S",
        stop="S", triples="S S S | T-2 S S S",
    )  # fmt: skip
    return potentials, checked_length(length, potentials.emissions.shape[0])


def checked_labels(y_true: Array, potentials: ChainPotentials) -> Array:
    """Labels of one chain, [T] int32.

    Raises:
      ValueError: they are not [T] integers.
    """
    found = array("y_true", y_true, "T", "integers", {"T": potentials.emissions.shape[0]})
    return jnp.asarray(found, jnp.int32)
