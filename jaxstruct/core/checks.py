"""Validation that every folder shares: one line, which names the argument, what came and what fits.

All of them look at known values on the host, before anything compiles. The rule of the package: an
argument that does not fit raises ValueError, be it of another type, shape, dtype or value, for what
a user has to correct is one and the same. (A missing file raises FileNotFoundError, a missing
library ImportError.)

Beside them: the length of one example, as the oracles of every output type take it, and warnings
that name who called the package.
"""

from __future__ import annotations

import contextlib
import numbers
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from jaxstruct.core.messages import kind_and_text_of, text_of

DTYPES = ("float32", "float64")
FINEST = {"float32": 1e-5, "float64": 1e-12}
"""The smallest relative gap that a dtype certifies."""


def is_integer(value: object) -> bool:
    """Whether a value is an integer of Python or NumPy; a bool is none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))


def checked_size(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """A size, such as a number of labels, as a Python integer.

    Raises:
      ValueError: it is no integer (a float or a bool is none), or not in least..most.
    """
    if not is_integer(value):
        raise ValueError(
            f"{name} must be at least {least}, a Python integer, got {text_of(value)} "
            f"({type(value).__name__})"
        )
    size = int(value)
    if size < least:
        raise ValueError(f"{name} must be at least {least}, got {size}")
    if most is not None and size > most:
        raise ValueError(f"{name} must be at most {most}, got {size}")
    return size


def checked_number(name: str, value: Any, low: float = 0.0, *, strict: bool = False) -> float:
    """A finite real number, > low (strict) or >= low, as a Python float.

    Raises:
      ValueError: it is no number (text, a bool and arrays with axes are none) or out of range.
    """
    relation = f"{'>' if strict else '>='} {low:g}"
    scalar = np.asarray(value) if np.ndim(value) == 0 else None
    if scalar is None or scalar.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be finite and {relation}, one number, got {text_of(value)}")
    number = float(scalar)
    if not np.isfinite(number) or number < low or (strict and number == low):
        raise ValueError(f"{name} must be finite and {relation}, got {number!r}")
    return number


def check_flag(name: str, value: object) -> None:
    """Raise ValueError unless the value is True or False ("no" would count as True)."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {text_of(value)}")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise ValueError unless the value is one of some names."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {text_of(value)}; choose one of {tuple(choices)}")


def checked_dtype(value: Any) -> str:
    """The name of a dtype of weights.

    Raises:
      ValueError: it is neither float32 nor float64.
    """
    try:
        name = np.dtype(value).name if value is not None else "None"
    except TypeError:
        name = ""
    if name not in DTYPES:
        raise ValueError(f'dtype must be "float32" or "float64", got {text_of(value)}')
    return name


def as_array(name: str, value: object, expected: str) -> np.ndarray:
    """The value as a numpy array.

    Args:
      name: of the argument. value: array-like.
      expected: what it should be, for the message.

    Raises:
      ValueError: rows differ in length, so that there is no array of numbers.
    """
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.empty(0, object)
    if array.dtype == object:
        raise ValueError(f"{name} must be {expected}, got {text_of(value)}")
    return array


def check_count(name: str, count: int, of: str, wanted: int) -> None:
    """Raise ValueError unless there are as many things called `name` as examples called `of`."""
    if count != wanted:
        raise ValueError(f"{name} must be of n = {wanted} {of}, got {count}")


def check_one_each(name: str, lengths: np.ndarray, of: str, wanted: np.ndarray) -> None:
    """Raise ValueError unless each of n lists has as many entries as its example in another one.

    Args:
      lengths: [m] of the lists called `name`. wanted: [n] of those called `of`.
    """
    check_count(name, len(lengths), of, len(wanted))
    wrong = np.flatnonzero(lengths != wanted)
    if wrong.size:
        i, more = wrong[0], f"but {of}[{wrong[0]}] has {wanted[wrong[0]]}: one each"
        raise ValueError(f"{name}[{i}] has {lengths[i]} entries, {more}")


def check_no_feature_twice(name: str, indices: np.ndarray, values: np.ndarray) -> None:
    """Raise ValueError where a row of sparse features names a feature twice.

    Entries of value 0 name nothing, as padding does not.

    Args:
      name: of the argument. indices: [.., m] integers. values: [.., m].
    """
    indices, values = np.asarray(indices), np.asarray(values)
    if indices.shape[-1] < 2:
        return
    shape, step = indices.shape[:-1], max(1, (1 << 22) // indices.shape[-1])
    rows, of_rows = (each.reshape(-1, indices.shape[-1]) for each in (indices, values))
    for at in range(0, len(rows), step):  # in blocks, so that memory stays small
        some, real = rows[at : at + step], of_rows[at : at + step] != 0
        unsure = np.flatnonzero(~((some[:, 1:] > some[:, :-1]) | ~real[:, 1:]).all(axis=1))
        used = np.sort(np.where(real[unsure], some[unsure], -1), axis=1)
        twice = np.argwhere((used[:, 1:] == used[:, :-1]) & (used[:, 1:] >= 0))
        if twice.size:
            row, place = twice[0]
            row_index = np.unravel_index(at + unsure[row], shape)
            raise ValueError(
                f"{name}{''.join(f'[{i}]' for i in row_index)} names feature {used[row, place]} "
                "twice: add the values of a feature up, so that every index stands in a row once"
            )


def checked_example_weights(weights: object, n: int, name: str = "example_weights") -> np.ndarray:
    """[n] float64 weights v_i of examples, ones where None is given.

    Raises:
      ValueError: other things than numbers, another shape, or not finite, >= 0 and not all zero.
    """
    if weights is None:
        return np.ones(n)
    array = np.asarray(weights)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if array.shape != (n,):
        raise ValueError(f"{name} must be [n = {n}], got shape {array.shape}")
    if not np.isfinite(array).all() or (array < 0).any() or not (array > 0).any():
        raise ValueError(f"{name} must be finite, >= 0 and not all zero")
    return array.astype(np.float64)


def as_numbers(name: str, value: object, expected: str) -> np.ndarray:
    """The value as a float64 array.

    Args:
      name: of the argument. value: array-like. expected: what it should be, for the message.

    Raises:
      ValueError: rows differ in length, or what they hold are no real numbers.
    """
    array = as_array(name, value, expected)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be {expected}, got {text_of(value)} of dtype {array.dtype}")
    return array.astype(np.float64)


def as_list(name: str, value: Any, expected: str, *, letters: bool = False) -> list:
    """The elements of a sequence, array or other iterable.

    Args:
      name: of the argument. value: iterable. expected: what it should be, for the message.
      letters: whether a text may stand for the list of its letters.

    Raises:
      ValueError: it is none, or a text or a mapping, whose elements are hardly meant.
    """
    refused = (bytes, Mapping) if letters else (str, bytes, Mapping)
    try:
        if not isinstance(value, refused):
            return list(value)
    except TypeError:
        pass
    raise ValueError(f"{name} must be {expected}, got {text_of(value)}")


def distinct_texts(name: str, value: object) -> tuple[str, ...]:
    """The texts of a list or tuple, each there once."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{name} must be texts, got {text_of(value)}")
    if len(set(value)) != len(value):
        raise ValueError(f"{name} has a text twice")
    return tuple(value)


class NoOutput(ValueError):
    """Raised of inputs that have no output at all, such as a sequence that the rules leave none.

    Attributes:
      which: [k] the numbers of these inputs, rising. reasons: why each of them has none.
    """

    def __init__(self, which: Sequence[int] | np.ndarray, reasons: Sequence[str]) -> None:
        """Of inputs `which`, at least one, in any order, and the reasons in the same."""
        order = sorted(range(len(reasons)), key=lambda i: which[i])
        self.which, self.reasons = np.asarray(which)[order], [reasons[i] for i in order]
        also = f" ({len(order)} such inputs)" if len(order) > 1 else ""
        super().__init__(f"inputs[{self.which[0]}] has no output: {self.reasons[0]}{also}")


def check_record(name: str, value: object, kind: type, maker: str) -> None:
    """Raise ValueError unless the value is of a kind, which `maker` makes."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIO" else "a"
        raise ValueError(
            f"{name} must be {article} {kind.__name__} (see {maker}), got {kind_and_text_of(value)}"
        )


_lists: ContextVar[Mapping[type[Warning], list[Any]]] = ContextVar("lists", default={})  # noqa: B039


def callers_level() -> int:
    """The level, for `warnings.warn` in the function that asks, of who called the package."""
    frame, level = sys._getframe(1), 1
    package = __name__.partition(".")[0]
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    return level


@contextlib.contextmanager
def collected(kind: type[Warning]) -> Iterator[list[Any]]:
    """Within, the package warns nobody of this kind: the list gets the warnings.

    For who does one thing after the other, and has one warning to give of all.
    """
    found: list[Any] = []
    before = _lists.set({**_lists.get(), kind: found})
    try:
        yield found
    finally:
        _lists.reset(before)


def warn(words: str, kind: type[Warning] = UserWarning, *more: Any) -> None:
    """Warn, naming the line that called the package, or add to a list of `collected`.

    Args:
      more: what the class of the warning takes behind the words.
    """
    warning, found = kind(words, *more), _lists.get().get(kind)
    if found is None:
        warnings.warn(warning, stacklevel=callers_level())
    else:
        found.append(warning)


def known(value: Any) -> bool:
    """Whether a value can be looked at: while tracing it cannot."""
    return not isinstance(value, Tracer)


def checked_length(length: Any, most: int | None = None, least: int = 0) -> Array:
    """The length of one chain (or sentence) as an int32 scalar.

    Args:
      length: a scalar; its value is looked at where it is known, while tracing it is not.
      most, least: of a length that is known; None for any.

    Raises:
      ValueError: it is no scalar or no integer, or it is known and not in least..most.
    """
    length = np.asarray(length) if known(length) else length
    if length.ndim:
        raise ValueError(f"length must be a scalar, got shape {length.shape}; use jax.vmap")
    if not jnp.issubdtype(length.dtype, jnp.integer):
        raise ValueError(f"length must be an integer, got {length.dtype}")
    if known(length) and most is not None and not least <= int(length) <= most:
        raise ValueError(f"length must be in {least}..{most}, the positions, got {int(length)}")
    return jnp.asarray(length, jnp.int32)
