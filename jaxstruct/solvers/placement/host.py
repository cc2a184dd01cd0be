"""A training on the CPU beside a card, where it is sooner there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from jaxstruct.core.device import runs_on_cpu
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import PyTree

FOR_A_CARD = 1 << 22
"""Numbers of features from which a training is left to a card. One H100 (JAX 0.11.2) took 1.9 s
where a core beside it took 3.0 of 15.7 million (20,000 x 784), but 2.2 s for .25 of .1 million
(digits), 5.3 for 1.25 of handwritten words; in between nothing was measured."""


def host() -> Any:
    """The CPU of this machine; None where JAX may not use it."""
    try:
        return jax.devices("cpu")[0]
    except RuntimeError:  # JAX_PLATFORMS leaves it out
        return None


@contextlib.contextmanager
def training_device(inputs: PyTree) -> Iterator[None]:
    """Within, programs run where a training on these inputs is sooner: see the module.

    The device stays as it is where `jax.default_device` says one, or where arrays of JAX are among
    the inputs, since the caller has put those somewhere.
    """
    leaves = [leaf.rows if isinstance(leaf, Ragged) else leaf for leaf in jax.tree.leaves(inputs)]
    chosen = jax.config.jax_default_device is not None
    placed = chosen or any(isinstance(leaf, jax.Array) for leaf in leaves)
    small = sum(map(np.size, leaves)) < FOR_A_CARD
    beside = host() if small and not placed and not runs_on_cpu() else None
    with contextlib.nullcontext() if beside is None else jax.default_device(beside):
        yield
