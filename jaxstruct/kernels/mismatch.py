"""The (k, m)-mismatch kernel: substrings of k letters that may differ in m of them.

Source: Leslie, Eskin, Weston, Noble, Mismatch String Kernels for SVM Protein Classification, NIPS
15, 2002; thesis 4.6.1, reference [27].
"""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.checks import checked_size
from jaxstruct.core.static import Static
from jaxstruct.core.types import Array
from jaxstruct.kernels.strings import Strings, marked_pair


def mismatch_kernel(table: Array, length: Static[int], x: Strings, z: Strings) -> Array:
    """Returns K(x, x') of `mismatch`: what that factory wraps."""
    return mismatch_against(table, length, *marked_pair(x, z))[0]


def mismatch(length: int, mismatches: int, number_of_letters: int) -> Partial:
    """Makes K(x, x') = sum_{u of k letters} phi_u(x) phi_u(x'), k = length, m = mismatches.

    phi_u(x) is the number of windows of k letters of x that differ from u in at most m places.
    Two windows at Hamming distance d share `shared_neighbours(k, m, letters)[d]` words u, so K is
    a sum over pairs of windows, O(k T T'), for any alphabet. Padding is in no window; 0 where a
    string is shorter than k. JAX's default float type.

    Args:
      length: k. mismatches: m, 0 <= m < k; 0 is `spectrum`. number_of_letters: of the alphabet.

    Raises:
      ValueError: a value out of range.
    """
    table = shared_neighbours(length, mismatches, number_of_letters)
    return Partial(mismatch_kernel, np.array(table, float), Static(length))


def shared_neighbours(length: int, mismatches: int, number_of_letters: int) -> list[int]:
    """Returns, for d = 0 .. k, how many words lie within m places of both of two words.

    The two words of k letters differ in d places. Of these a word u may agree with the first in
    a, with the second in b, with neither in d - a - b (then it has letters - 2 choices); of the
    other k - d places it changes e (letters - 1 choices): m >= d - a + e and m >= d - b + e.
    """
    k = checked_size("length", length)
    m = checked_size("mismatches", mismatches, 0, k - 1)
    size = checked_size("number_of_letters", number_of_letters)

    def words(d: int) -> int:
        return sum(
            math.comb(d, a) * math.comb(d - a, b) * max(size - 2, 0) ** (d - a - b)
            * math.comb(k - d, e) * (size - 1) ** e
            for a, b, e in itertools.product(range(d + 1), range(d + 1), range(k - d + 1))
            if a + b <= d and d - min(a, b) + e <= m
        )  # fmt: skip

    return [words(d) for d in range(k + 1)]


def mismatch_against(table: Array, length: Static[int], x: Array, z: Array) -> Array:
    """Returns K [B] of one string, letters [T], with B strings, letters [S, B]."""
    k, dtype = length.value, jnp.result_type(float)
    table = jnp.asarray(table, dtype)
    if min(x.shape[0], z.shape[0]) < k:
        return jnp.zeros(z.shape[1], dtype)
    count = z.shape[0] - k + 1
    windows = [z[c : c + count] for c in range(k)]  # [S - k + 1, B] each
    whole = jnp.all(jnp.stack(windows) >= 0, axis=0)

    def step(total: Array, letters: Array) -> tuple[Array, None]:
        unlike = sum((windows[c] != letters[c]).astype(jnp.int32) for c in range(k))
        counted = whole & jnp.all(letters >= 0)
        return total + jnp.sum(jnp.where(counted, table[unlike], 0), axis=0), None

    starts = x.shape[0] - k + 1
    rows = jnp.stack([x[c : c + starts] for c in range(k)], axis=1)
    return jax.lax.scan(step, jnp.zeros(z.shape[1], dtype), rows)[0]
