"""What the chain oracles check before they compile: shapes and dtypes, while tracing."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct.chains.potentials import ChainPotentials
from jaxstruct.core.lengths import checked_length
from jaxstruct.core.types import Array


def _check_shape(name: str, leaf: Array | None, *shapes: tuple[str, tuple[int, ...]]) -> None:
    if leaf is not None and leaf.shape not in [shape for _, shape in shapes]:
        expected = " or ".join(f"{letters} = {list(shape)}" for letters, shape in shapes)
        raise ValueError(f"potentials.{name} must be {expected}, got shape {leaf.shape}")


def checked_potentials(potentials: ChainPotentials) -> ChainPotentials:
    """Potentials of one chain as arrays of one floating dtype.

    Raises:
      ValueError: a shape does not fit the emissions, T or S is 0, or the potentials are not
        floating-point numbers.
    """
    potentials = jax.tree.map(jnp.asarray, potentials)
    emissions, transitions, start, stop, triples = potentials
    if emissions.ndim != 2 or 0 in emissions.shape:
        raise ValueError(
            f"potentials.emissions must be [T, S] of one chain, T >= 1 and S >= 1, got shape "
            f"{emissions.shape}; use jax.vmap for a batch"
        )
    T, S = emissions.shape
    pairs, threes = (S, S), (S, S, S)
    _check_shape("transitions", transitions, ("[S, S]", pairs), ("[T - 1, S, S]", (T - 1, *pairs)))
    varying = ("[T - 2, S, S, S]", (max(T - 2, 0), *threes))
    _check_shape("triples", triples, ("[S, S, S]", threes), varying)
    _check_shape("start", start, ("[S]", (S,)))
    _check_shape("stop", stop, ("[S]", (S,)))
    dtype = jnp.result_type(*jax.tree.leaves(potentials))
    if not jnp.issubdtype(dtype, jnp.floating):
        raise ValueError(f"potentials must be floating-point numbers, got {dtype}")
    return jax.tree.map(lambda leaf: leaf.astype(dtype), potentials)


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
    if y_true.shape != (T,):
        raise ValueError(f"y_true must be [T] = [{T}], got shape {y_true.shape}")
    if not jnp.issubdtype(y_true.dtype, jnp.integer):
        raise ValueError(f"y_true must be integer labels, got {y_true.dtype}")
    return y_true.astype(jnp.int32)
