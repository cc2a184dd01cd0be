"""The k-spectrum: common substrings of k letters, as a kernel and as sparse counts.

Source: Leslie, Eskin, Noble, The Spectrum Kernel, Pacific Symposium on Biocomputing, 2002; thesis
4.6.1, reference [26].
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.checks import checked_size
from jaxstruct.core.static import Static
from jaxstruct.core.types import Array, SparseFeatures
from jaxstruct.kernels.strings import (
    Strings,
    check_letters,
    check_strings,
    marked_letters,
    marked_pair,
)
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


def spectrum_features(strings: Strings, length: int, number_of_letters: int) -> SparseFeatures:
    """Returns the counts #u(x) of all u of k = length letters, <Phi(x), Phi(x')> = `spectrum`.

    Feature u^1 .. u^k has the index sum_c u^c number_of_letters^(k - c) of d =
    number_of_letters^k; at most T - k + 1 are not 0. Indices are sorted and unique, padding has
    index d and value 0.

    Args:
      strings: n strings, letters [n, T]. length: k. number_of_letters: of the alphabet, static.

    Returns:
      SparseFeatures, indices [n, max(T - k + 1, 1)] int32 and values in JAX's default float type.

    Raises:
      ValueError: d does not fit into 32 bits, or a letter is not of the alphabet.
    """
    length = checked_size("length", length)
    d = checked_size("number_of_letters", number_of_letters) ** length
    if d > np.iinfo(np.int32).max:
        raise ValueError(
            f"number_of_letters ** length is {d}, which 32 bits do not hold: shorten length, or "
            "use the kernel spectrum(length) with gram_matrix"
        )
    check_strings("strings", strings, 2)
    check_letters("strings", strings, number_of_letters)
    return _counts(marked_letters(strings, -1), length, number_of_letters)


def window_codes(letters: Array, length: int, number_of_letters: int) -> Array:
    """Returns the feature index of each window [n, max(T - k + 1, 1)], d where there is none."""
    short = max(length - letters.shape[1], 0)
    letters = jnp.pad(letters, ((0, 0), (0, short)), constant_values=-1)
    count = letters.shape[1] - length + 1
    windows = [letters[:, c : c + count] for c in range(length)]
    codes = sum(w * number_of_letters ** (length - 1 - c) for c, w in enumerate(windows))
    whole = jnp.all(jnp.stack(windows) >= 0, axis=0)
    return jnp.where(whole, codes, number_of_letters**length)


@partial(jax.jit, static_argnums=(1, 2))
def _counts(letters: Array, length: int, number_of_letters: int) -> SparseFeatures:
    d, dtype = number_of_letters**length, jnp.result_type(float)

    def of_one(codes: Array) -> SparseFeatures:
        codes = jnp.sort(codes)
        first = jnp.concatenate([jnp.ones(1, bool), codes[1:] != codes[:-1]])
        place = jnp.cumsum(first) - 1
        indices = jnp.full_like(codes, d).at[place].set(codes)
        values = jnp.zeros(codes.shape, dtype).at[place].add((codes < d).astype(dtype))
        return SparseFeatures(indices, values)

    return jax.vmap(of_one)(window_codes(letters, length, number_of_letters))
