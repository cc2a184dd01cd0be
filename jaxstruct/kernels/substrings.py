"""Kernels by common substrings: the k-spectrum, (k, m)-mismatches, substrings of all lengths.

The k-spectrum counts common substrings of k letters (Leslie, Eskin and Noble, The Spectrum Kernel,
Pacific Symposium on Biocomputing, 2002; thesis 4.6.1, reference [26]); mismatches are allowed in m
of them (Leslie, Eskin, Weston and Noble, Mismatch String Kernels for SVM Protein Classification,
NIPS 15, 2002; thesis reference [27]). Substrings of all lengths (thesis 4.6.1, [18]) are one
dynamic program over pairs of places. Source: Haussler, Convolution Kernels on Discrete Structures,
1999; Shawe-Taylor and Cristianini, Kernel Methods for Pattern Analysis, 2004, chapter 11.

Gapped subsequences, with decay, are those of the string subsequence kernel; its explicit features
are here, too.

Source: Lodhi, Saunders, Shawe-Taylor, Cristianini, Watkins, Text Classification using String
Kernels, JMLR 2, 2002; thesis 4.6.1, reference [29].
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
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
