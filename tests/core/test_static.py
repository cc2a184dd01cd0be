"""Static options: no leaves, and another value is another program."""

from __future__ import annotations

import dataclasses

import chex
import jax
import jax.numpy as jnp
import pytest

from jaxstruct.core.types import Static, static


@static
class Options:
    name: str
    most: int = 3


@pytest.mark.parametrize("one, other", [(Static(2), Static(3)), (Options("a"), Options("a", 4))])
def test_another_value_compiles_anew(one, other) -> None:
    assert not jax.tree.leaves(one)
    chex.clear_trace_counter()
    program = jax.jit(chex.assert_max_traces(lambda option, x: x + len(repr(option)), n=1))
    x = jnp.zeros(())
    program(one, x), program(dataclasses.replace(one), x)
    with pytest.raises(AssertionError, match="traced"):
        program(other, x)


def test_it_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Options("a").most = 5
