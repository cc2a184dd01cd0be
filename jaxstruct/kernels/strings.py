"""Strings as padded integer arrays: what the string kernels are computed on.

A point is a `Strings` (letters [T], length []), a set of n points carries a leading axis on both
leaves. Positions at or past `length` are padding: whatever they hold, they match nothing, so a
string has the same kernel values at every width.

Kernel matrices take one string of X against many of Z at a time. A string kernel `f_kernel(*leaves,
x, z)` has a batch-last twin `f_against(*leaves, x [T], z [S, B]) -> [B]`. Its state, a few rows of
[S, B], fits a cache; memory beyond the result does not grow with the number of strings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.checks import as_list, check_record, checked_size, known, text_of
from jaxstruct.core.sizes import size_class
from jaxstruct.core.spec import array
from jaxstruct.core.types import AnyArray, Array

PADDING = -1
"""What `encode_strings` writes past the end of a string."""
UNLIKE = (-1, -2)
"""Two marks for padding on the two sides of a kernel: they differ, so that no padding matches."""


class Strings(NamedTuple):
    """One string x^1 .. x^length of letters 0, 1, .., or n of them with a leading axis.

    Fields:
      letters: [T] int32; positions from `length` on are padding.
      length: [] int32, 0 for the empty string.
    """

    letters: AnyArray
    length: AnyArray


def encode_strings(texts: Iterable, alphabet: Iterable, width: int | None = None) -> Strings:
    """Returns n texts as `Strings`, letters [n, T] (padding -1) and length [n], NumPy int32.

    Args:
      texts: n strings, or lists of symbols.
      alphabet: the letters in the order of their numbers, a string or a list of symbols.
      width: T, at least the longest text; None: its size class (8, 12, 16, 24, ..), so that
        other texts of about the same lengths compile nothing.

    Raises:
      ValueError: a letter that is not of the alphabet, one that is in it twice, or a text longer
        than the width.
    """
    symbols = as_list("alphabet", alphabet, "a string or a list of symbols", letters=True)
    numbers = {symbol: i for i, symbol in enumerate(symbols)}
    if len(numbers) != len(symbols) or not symbols:
        raise ValueError(f"alphabet must be different symbols, got {text_of(alphabet)}")
    rows = [
        _numbers_of(f"texts[{i}]", text, numbers)
        for i, text in enumerate(as_list("texts", texts, "a list of strings"))
    ]
    longest = max(map(len, rows), default=0)
    width = size_class(longest) if width is None else checked_size("width", width)
    if longest > width:
        raise ValueError(f"width must be at least {longest}, the longest text, got {width}")
    letters = np.full((len(rows), width), PADDING, np.int32)
    for row, own in zip(letters, rows, strict=True):
        row[: len(own)] = own
    return Strings(letters, np.array([len(row) for row in rows], np.int32))


def _numbers_of(name: str, text: Any, numbers: dict) -> list[int]:
    symbols = as_list(name, text, "a string or a list of symbols", letters=True)
    unknown = [symbol for symbol in symbols if symbol not in numbers]
    if unknown:
        raise ValueError(
            f"{name} has the letter {text_of(unknown[0])}, which is none of the "
            f"{len(numbers)} letters of the alphabet: add it to the alphabet or leave it out"
        )
    return [numbers[symbol] for symbol in symbols]


def check_strings(name: str, strings: Strings, lead: str) -> None:
    """Raises ValueError unless `strings` is one string (lead "") or a set of them (lead "n")."""
    check_record(name, strings, Strings, "jaxstruct.kernels.encode_strings")
    sizes, advice = {}, "" if lead else "; for sets of strings use gram_matrix"
    array(f"{name}.letters", strings.letters, f"{lead} T", sizes=sizes, advice=advice)
    within = (range(sizes["T"] + 1), "the padded length") if lead else None
    array(f"{name}.length", strings.length, lead, "integers", sizes, within)


def check_letters(name: str, strings: Strings, number_of_letters: int) -> None:
    """Raises ValueError where a known letter is not in 0 .. number_of_letters - 1."""
    if not (known(strings.letters) and known(strings.length)):
        return
    letters, length = map(np.asarray, strings)
    real = letters[np.arange(letters.shape[-1]) < length[..., None]]
    if real.size and not 0 <= real.min() <= real.max() < number_of_letters:
        raise ValueError(
            f"{name}: got letters {real.min()}..{real.max()}, expected 0..{number_of_letters - 1}:"
            " raise number_of_letters"
        )


def marked_letters(strings: Strings, mark: int) -> Array:
    """Returns the letters [.., T] int32, with `mark` (negative) where there is no letter."""
    letters = jnp.asarray(strings.letters, jnp.int32)
    length = jnp.asarray(strings.length, jnp.int32)
    place = jnp.arange(letters.shape[-1]).reshape((1,) * (letters.ndim - 1) + (-1,))
    real = (place < length[..., None]) & (letters >= 0)
    return jnp.where(real, letters, mark)


def marked_pair(x: Any, z: Any) -> tuple[Array, Array]:
    """Returns the letters [T] and [S, 1] of two strings, checked, padding marked unlike."""
    check_strings("x", x, "")
    check_strings("x'", z, "")
    return marked_letters(x, UNLIKE[0]), marked_letters(z, UNLIKE[1])[:, None]


LANES = 1024
"""Strings of Z that one string of X meets together."""


def string_gram(against: Callable, kernel: Partial, X: Strings, Z: Strings) -> Array:
    """Returns [K(x_i, z_j)] [n, m]; where Z is X only the upper half is computed.

    Raises:
      ValueError: X or Z is no set of strings.
    """
    check_strings("X", X, "n")
    check_strings("Z", Z, "n")
    if len(X.letters) == 0 or len(Z.letters) == 0:
        return jnp.zeros((len(X.letters), len(Z.letters)))
    return _tiles(Partial(against, *kernel.args), X, Z, Z is X)


@partial(jax.jit, static_argnames="same")
def _tiles(against: Partial, X: Strings, Z: Strings, same: bool) -> Array:
    rows, columns = marked_letters(X, UNLIKE[0]), marked_letters(Z, UNLIKE[1])
    n, m = len(rows), len(columns)
    lanes = min(LANES, m)
    count = -(-m // lanes)
    columns = jnp.pad(columns, ((0, count * lanes - m), (0, 0)), constant_values=UNLIKE[1])
    columns = columns.reshape(count, lanes, -1).transpose(0, 2, 1)  # [count, S, lanes]
    i, c = np.indices((n, count)).reshape(2, -1)
    if same:
        upper = (c + 1) * lanes > i
        i, c = i[upper], c[upper]
    values = jax.lax.map(lambda at: against(rows[at[0]], columns[at[1]]), (i, c))
    gram = jnp.zeros((n, count, lanes), values.dtype).at[i, c].set(values)
    gram = gram.reshape(n, -1)[:, :m]
    return jnp.triu(gram) + jnp.triu(gram, 1).T if same else gram
