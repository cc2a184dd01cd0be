"""The k-spectrum: common substrings of k letters.

Source: Leslie, Eskin, Noble, The Spectrum Kernel, Pacific Symposium on Biocomputing, 2002; thesis
4.6.1, reference [26].
"""

from __future__ import annotations

import jax.numpy as jnp
from jax.tree_util import Partial

from jaxstruct.core.checks import checked_size
from jaxstruct.core.static import Static
from jaxstruct.core.types import Array
from jaxstruct.kernels.strings import Strings, marked_pair
from jaxstruct.kernels.substrings import common_runs


def spectrum_kernel(length: Static[int], x: Strings, z: Strings) -> Array:
    """Returns K(x, x') of `spectrum`: what that factory wraps."""
    return spectrum_against(length, *marked_pair(x, z))[0]


def spectrum(length: int) -> Partial:
    """Makes K(x, x') = sum_{u of k = length letters} #u(x) #u(x').

    #u(x) is how often u stands in x without gaps, overlaps counted. 0 where a string is shorter
    than k. Padding matches nothing. JAX's default float type.

    Raises:
      ValueError: length is no positive integer.
    """
    return Partial(spectrum_kernel, Static(checked_size("length", length)))


def spectrum_against(length: Static[int], x: Array, z: Array) -> Array:
    """Returns K [B] of one string, letters [T], with B strings, letters [S, B]."""
    dtype = jnp.result_type(float)

    def add(total: Array, runs: Array) -> Array:
        return total + jnp.sum(runs >= length.value, axis=0).astype(dtype)

    return common_runs(x, z, add, jnp.zeros(z.shape[1], dtype))
