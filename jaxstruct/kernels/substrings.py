"""Common substrings of all lengths (thesis 4.6.1, [18]): one dynamic program over pairs of places.

Source: Haussler, Convolution Kernels on Discrete Structures, 1999; Shawe-Taylor and Cristianini,
Kernel Methods for Pattern Analysis, 2004, chapter 11.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from jaxstruct.core.checks import checked_size
from jaxstruct.core.static import Static
from jaxstruct.core.types import Array
from jaxstruct.kernels.input import decay_parameter
from jaxstruct.kernels.strings import Strings, marked_pair


def substrings_kernel(
    decay: float | Array, lengths: Static[tuple[int, int | None]], x: Strings, z: Strings
) -> Array:
    """Returns K(x, x') of `substrings`: what that factory wraps."""
    return substrings_against(decay, lengths, *marked_pair(x, z))[0]


def substrings(
    decay: float | Array = 1.0, *, shortest: int = 1, longest: int | None = None
) -> Partial:
    """Makes K(x, x') = sum_u decay^(2 |u|) #u(x) #u(x'), u of shortest .. longest letters.

    #u(x) is how often u stands in x without gaps, overlaps counted. O(T T') a pair. Padding
    matches nothing; the empty substring is not counted. JAX's default float type.

    Args:
      decay: 0 < decay <= 1, a leaf of the kernel; 1: all lengths count alike.
      shortest, longest: letters of u, static; longest None: no limit.

    Raises:
      ValueError: a value out of range.
    """
    decay = decay_parameter(decay)
    shortest = checked_size("shortest", shortest)
    longest = None if longest is None else checked_size("longest", longest, shortest)
    return Partial(substrings_kernel, decay, Static((shortest, longest)))


def common_runs(x: Array, z: Array, add: Callable, total: Array) -> Array:
    """Returns `total` after `add(total, runs)` for each letter of x, runs [S, B] int32.

    runs[j, b] is the number of letters of the longest common suffix of x^1 .. x^i and
    z_b^1 .. z_b^j, x [T] and z [S, B]: that many common substrings end at this pair of places.
    """

    def step(carry: tuple[Array, Array], letter: Array) -> tuple[tuple[Array, Array], None]:
        runs, total = carry
        before = jnp.concatenate([jnp.zeros_like(runs[:1]), runs[:-1]])
        runs = jnp.where(z == letter, before + 1, 0)
        return (runs, add(total, runs)), None

    (_, total), _ = jax.lax.scan(step, (jnp.zeros(z.shape, jnp.int32), total), x)
    return total


def substrings_against(
    decay: float | Array, lengths: Static[tuple[int, int | None]], x: Array, z: Array
) -> Array:
    """Returns K [B] of one string, letters [T], with B strings, letters [S, B]."""
    shortest, longest = lengths.value
    dtype = jnp.result_type(float)
    decay = jnp.asarray(decay, dtype)
    sizes = jnp.arange(min(x.shape[0], z.shape[0]) + 1)
    counts = (sizes >= shortest) & (sizes <= (sizes.shape[0] if longest is None else longest))
    of_run = jnp.cumsum(jnp.where(counts, decay ** (2 * sizes), 0))

    def add(total: Array, runs: Array) -> Array:
        return total + jnp.sum(of_run[runs], axis=0)

    return common_runs(x, z, add, jnp.zeros(z.shape[1], dtype))
