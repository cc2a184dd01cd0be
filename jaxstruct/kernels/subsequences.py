"""Gapped subsequences with decay: the string subsequence kernel and its explicit features.

Source: Lodhi, Saunders, Shawe-Taylor, Cristianini, Watkins, Text Classification using String
Kernels, JMLR 2, 2002; thesis 4.6.1, reference [29].
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from jaxstruct.core.checks import checked_size, known
from jaxstruct.core.types import Array, Static
from jaxstruct.kernels.input import decay_parameter
from jaxstruct.kernels.strings import (
    Strings,
    check_letters,
    check_strings,
    marked_letters,
    marked_pair,
)

MOST_FEATURES = 1 << 20
"""The most explicit features a string; beyond it the kernel is the way."""


def subsequences_kernel(
    decay: float | Array, lengths: Static[tuple[int, int]], x: Strings, z: Strings
) -> Array:
    """Returns K(x, x') of `subsequences`: what that factory wraps."""
    return subsequences_against(decay, lengths, *marked_pair(x, z))[0]


def subsequences(length: int, decay: float | Array, *, shortest: int | None = None) -> Partial:
    """Makes K(x, x') = sum_u phi_u(x) phi_u(x'), phi_u(x) = sum_{i: x[i] = u} decay^(span of i).

    u runs over all strings of `length` letters, i over the increasing index tuples at which x
    reads u, and the span of i is i_last - i_first + 1: gaps are allowed, and cost as letters do
    (Lodhi et al. 2002, definition 1). Computed by their recursion over prefixes in
    O(length T T') instead of one feature for each u. Strings with fewer letters have K = 0.

    Padding matches nothing. The value has JAX's default float type and is a sum of terms >= 0.

    Args:
      length: letters of a subsequence, static.
      decay: 0 < decay <= 1, a leaf of the kernel. 1: every common subsequence counts alike.
      shortest: with it u has shortest .. length letters, summed; None: exactly `length`.

    Raises:
      ValueError: a value out of range, or decay^(2 length) too small for the float type.
    """
    length = checked_size("length", length)
    shortest = length if shortest is None else checked_size("shortest", shortest, 1, length)
    return Partial(subsequences_kernel, checked_decay(decay, length), Static((shortest, length)))


def checked_decay(decay: float | Array, length: int) -> float | Array:
    """Returns the decay, if known in (0, 1] and with decay^(2 length) a normal number."""
    decay, dtype = decay_parameter(decay), jnp.result_type(float)
    if known(decay) and decay ** (2 * length) < jnp.finfo(dtype).tiny:
        raise ValueError(
            f"decay: got {decay!r}, whose power 2 length = {2 * length} is below what {dtype} "
            "holds; raise decay, shorten length or use jax's x64 mode"
        )
    return decay


def subsequences_against(
    decay: float | Array, lengths: Static[tuple[int, int]], x: Array, z: Array
) -> Array:
    """Returns K [B] of one string, letters [T], with B strings, letters [S, B].

    M_q(i, j) is the weight of pairs of equal subsequences of q letters that end at x^i and z^j,
    without decay^(2 q): M_1 = [x^i = z^j], M_q(i, j) = M_1(i, j) C_(q-1)(i, j), and C_q is the
    sum of M_q(i', j') decay^(i - i' - 1 + j - j' - 1) over i' < i, j' < j. A scan over i carries
    the row C_q(i, .); a scan over j within it carries the part of the sum that row i adds.
    """
    shortest, longest = lengths.value
    dtype = jnp.result_type(float)
    decay = jnp.asarray(decay, dtype)

    def row(carry: tuple, letter: Array) -> tuple[tuple, None]:
        before, totals = carry  # C_q [S, B] of q < longest; sums of M_q [B] of q >= shortest

        def cell(carry: tuple, column: tuple) -> tuple[tuple, tuple]:
            within, totals = carry
            letters, sums = column
            match = (letters == letter).astype(dtype)
            ends = (match, *(match * part for part in sums))
            totals = tuple(a + b for a, b in zip(totals, ends[shortest - 1 :], strict=True))
            after = tuple(decay * a + b for a, b in zip(sums, within, strict=True))
            within = tuple(decay * a + b for a, b in zip(within, ends[:-1], strict=True))
            return (within, totals), after

        nothing = tuple(jnp.zeros(z.shape[1], dtype) for _ in before)
        (_, totals), after = jax.lax.scan(cell, (nothing, totals), (z, before))
        return (after, totals), None

    before = tuple(jnp.zeros(z.shape, dtype) for _ in range(longest - 1))
    totals = tuple(jnp.zeros(z.shape[1], dtype) for _ in range(shortest, longest + 1))
    (_, totals), _ = jax.lax.scan(row, (before, totals), x)
    value = jnp.zeros(z.shape[1], dtype)
    for q, total in enumerate(totals):
        value += decay ** (2 * (shortest + q)) * total
    return value


def subsequence_features(
    strings: Strings, length: int, decay: float | Array, number_of_letters: int
) -> Array:
    """Returns Phi [n, number_of_letters^length] with <Phi(x), Phi(x')> = `subsequences`.

    Feature u^1 .. u^length has the index sum_c u^c number_of_letters^(length - c). One pass over
    the letters, O(T number_of_letters^length) a string: the fast way for short alphabets, since a
    Gram matrix is then one matrix product.

    Args:
      strings: n strings, letters [n, T]. length, decay: as in `subsequences`.
      number_of_letters: of the alphabet, static.

    Raises:
      ValueError: more than 2^20 features, a letter outside the alphabet, or a bad decay.
    """
    length = checked_size("length", length)
    count = checked_size("number_of_letters", number_of_letters) ** length
    if count > MOST_FEATURES:
        raise ValueError(
            f"number_of_letters ** length is {count} features of subsequences, expected at most "
            f"{MOST_FEATURES}: use the kernel subsequences(...) with gram_matrix instead"
        )
    decay = checked_decay(decay, length)
    check_strings("strings", strings, "n")
    check_letters("strings", strings, number_of_letters)
    return _features(marked_letters(strings, -1), length, decay, number_of_letters)


@partial(jax.jit, static_argnums=(1, 3))
def _features(letters: Array, length: int, decay: float | Array, number_of_letters: int) -> Array:
    dtype = jnp.result_type(float)
    decay = jnp.asarray(decay, dtype)
    n = letters.shape[0]

    def step(carry: tuple, letter: Array) -> tuple[tuple, None]:
        ends, total = carry  # ends[q] [n, k^q]: begun subsequences, decayed up to here
        here = jax.nn.one_hot(letter, number_of_letters, dtype=dtype)  # 0 at padding
        longer = [_appended(decay * part, here) for part in (jnp.ones((n, 1), dtype), *ends)]
        kept = tuple(decay * a + b for a, b in zip(ends, longer[:-1], strict=True))
        return (kept, total + longer[-1]), None

    sizes = [number_of_letters**q for q in range(1, length + 1)]
    zeros = [jnp.zeros((n, size), dtype) for size in sizes]
    (_, total), _ = jax.lax.scan(step, (tuple(zeros[:-1]), zeros[-1]), letters.T)
    return total


def _appended(weights: Array, here: Array) -> Array:
    """[n, k^q] and [n, k] -> [n, k^(q + 1)]: subsequences with one more letter."""
    return (weights[:, :, None] * here[:, None, :]).reshape(len(weights), -1)
