"""What an array must be, in one line: its name, its axes, the kind of its numbers, their range.

    sizes = {"columns": 2}
    tokens = array("inputs.tokens", x.tokens, "n T columns", "integers", sizes)
    array("inputs.length", x.length, "n", "integers", sizes, range(1, sizes["T"] + 1))
    array("outputs", y, "n T", "integers", sizes, range(labels), length=x.length)

A letter stands for one size wherever it appears: the first array that has it binds it in `sizes`.
Everything runs on the host, in NumPy, before anything compiles; of a traced array shape and dtype
are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxstruct.core.checks import check_no_feature_twice, text_of
from jaxstruct.core.types import PyTree, SparseFeatures

KINDS = {"integers": "iu", "floats": "f", "bools": "b", "zeros and ones": "biu", "numbers": "biuf"}
"""Names of kinds of numbers, and what NumPy calls them."""
INT32 = range(-(2**31), 2**31)
Record = TypeVar("Record", bound=Any)
_ONE = "; use jax.vmap for a batch"


def array(
    name: str,
    value: Any,
    axes: str,
    kind: str | None = "integers",
    sizes: dict[str, int] | None = None,
    within: range | tuple[range, str] | None = None,
    *,
    length: Any = None,
    advice: str = "",
) -> Any:
    """The array, if it is what is declared: in NumPy, a traced one and one of any kind as it came.

    Args:
      name: of the argument.
      axes: a letter (or word) an axis, "n T d"; a number stands for itself, "T-1" for one less,
        and at least 0; "S S | T-1 S S" for either.
      kind: of `KINDS`, None for any, where the shape alone is looked at.
      sizes: by letter; those that it lacks are put in.
      within: where entries must lie; or a pair of it and what it means, "the padded length".
      length: [n], so that entries of axis 1 from there on must be -1, padding, and those before it
        `within`.
      advice: what to do, put behind messages.

    Raises:
      ValueError: the array has another shape or kind, or an entry that does not fit.
    """
    sizes = {} if sizes is None else sizes
    choices = [choice.split() for choice in axes.split("|")]
    wanted = " or ".join(_said(one, sizes) for one in choices) + (f" {kind}" if kind else "")
    found: Any = value
    if not isinstance(value, Tracer) and (kind is not None or not hasattr(value, "dtype")):
        try:
            found = np.asarray(value)
        except ValueError:  # rows that differ in length
            found = np.empty(0, object)
    kinds = KINDS.get(kind or "", found.dtype.kind)
    bound = [b for one in choices if (b := _bound(found.shape, one, sizes)) is not None]
    if not bound or found.dtype.kind not in kinds or found.dtype == object:
        came = f"{found.dtype} of shape {found.shape}"
        came = text_of(value) if found.dtype == object or isinstance(value, str) else came
        raise ValueError(f"{name} must be {wanted}, got {came}{advice}")
    sizes.update(bound[0])
    if within is not None and not isinstance(found, Tracer):
        entries, words = within if isinstance(within, tuple) else (within, "")
        _check_entries(name, found, entries, length, f", {words}{advice}" if words else advice)
    return found


def _check_entries(name: str, found: np.ndarray, within: range, length: Any, words: str) -> None:
    real = np.ones((), bool)
    if length is not None:
        real = np.arange(found.shape[1]) < np.asarray(length)[:, None]
        real = real.reshape(real.shape + (1,) * (found.ndim - 2))
        refuse(name, found, ~real & (found != -1), "-1 (padding) beyond the length")
    expected = f"{within[0]}..{within[-1]}" if within else "none"
    outside = (found < within.start) | (found >= within.stop)
    refuse(name, found, real & outside, expected + words)


def _size(letter: str, sizes: dict[str, int]) -> int | None:
    base, _, less = letter.partition("-")
    size = int(base) if base.isdigit() else sizes.get(base)
    return None if size is None else max(size - int(less or 0), 0)


def _said(letters: list[str], sizes: dict[str, int]) -> str:
    known = {a: _size(a, sizes) for a in letters if not a.isdigit()}
    axes = [a if known.get(a) is None else f"{a} = {known[a]}" for a in letters]
    return f"[{', '.join(axes)}]" if axes else "a scalar"


def _bound(
    shape: tuple[int, ...], letters: list[str], sizes: dict[str, int]
) -> dict[str, int] | None:
    """The sizes with those of a shape; None where it has others."""
    sizes = dict(sizes)
    for letter, size in zip(letters, shape, strict=False):
        if "-" not in letter and not letter.isdigit():
            sizes.setdefault(letter, size)
        if _size(letter, sizes) not in (None, size):
            return None
    return sizes if len(shape) == len(letters) else None


def refuse(
    name: str, found: np.ndarray, wrong: np.ndarray, expected: str | Callable[..., str]
) -> None:
    """Raise ValueError at the first place that is wrong: what is there, and what was expected.

    Args:
      wrong: bool of the first axes of `found`. expected: the words, or a function of the place.
    """
    if np.any(wrong):  # 0.6 million entries: 0.02 ms, argwhere 2.2 ms
        places = np.argwhere(wrong)
        place = tuple(places[0].tolist())
        words = expected if isinstance(expected, str) else expected(*place)
        at = f"{list(place)}" if place else ""
        entry = text_of(np.asarray(found[place]).tolist())
        raise ValueError(f"{name}{at} is {entry}: expected {words} ({len(places)} such)")


def features(
    name: str,
    value: PyTree,
    axes: str,
    sizes: dict[str, int],
    d: str = "number_of_features",
    kind: str | None = None,
) -> None:
    """Raise ValueError unless these are vectors of `sizes[d]` features, dense or sparse.

    Sparse ones are padded with the index `sizes[d]` and the value 0.

    Args:
      axes: those before the features; they are bound in `sizes`. kind: of dense ones.
    """
    if not isinstance(value, SparseFeatures):
        array(name, value, f"{axes} {d}", kind, sizes)
        return
    pad = sizes[d]
    indices = array(
        f"{name}.indices", value.indices, f"{axes} m", "integers", sizes,
        (range(pad + 1), f"features, and {pad} of padding"),
    )  # fmt: skip
    values = np.asarray(array(f"{name}.values", value.values, f"{axes} m", None, sizes))
    wrong = (indices == pad) & (values != 0)
    refuse(f"{name}.values", values, wrong, f"0 where the index is {pad}, of padding")
    check_no_feature_twice(f"{name}.indices", indices, values)
    del sizes["m"]  # which each array has of its own


def costs(
    name: str, value: object, axes: str, sizes: dict[str, int] | None = None, advice: str = ""
) -> np.ndarray:
    """Finite numbers >= 0 as float64; those of two axes are 0 on the diagonal. See `array`."""
    found = array(name, value, axes, "numbers", sizes, advice=advice).astype(np.float64)
    refuse(name, found, ~(np.isfinite(found) & (found >= 0)), f"finite numbers >= 0{advice}")
    if found.ndim == 2:
        wrong = np.eye(*found.shape, dtype=bool) & (found != 0)
        refuse(name, found, wrong, "0 on the diagonal: what is right costs nothing")
    return found


def checked_int32(name: str, value: object, axes: str, **options: Any) -> np.ndarray:
    """Integers that fit into 32 bits, as an int32 array; see `array`."""
    within = INT32, "what 32 bits hold"
    return array(name, value, axes, within=within, **options).astype(np.int32)


def checked_lengths(name: str, value: object, n: int | None, low: int, high: int) -> np.ndarray:
    """[n] lengths low..high as int32; n None for any number.

    Raises:
      ValueError: another shape, no integers (floats are none), or one that does not fit.
    """
    sizes, within = {} if n is None else {"n": n}, (range(low, high + 1), "the padded length")
    return array(name, value, "n", "integers", sizes, within).astype(np.int32)


def one_example(
    name: str, given: Record, sizes: dict[str, int], integers: Sequence[str] = (), /, **axes: str
) -> Record:
    """A record of arrays of ONE example: floats of one dtype, and integers of 32 bits.

    Shapes and dtypes alone are looked at, so it may be traced.

    Args:
      name: of the argument. sizes: as in `array`. integers: the fields that hold some.
      axes: of each field, as in `array`, the first one's not 0; a field that is None stays so.

    Raises:
      ValueError: a shape does not fit, or floats are no floating-point numbers, integers none.
    """
    given = jax.tree.map(jnp.asarray, given)
    leaves = {field: getattr(given, field) for field in axes if getattr(given, field) is not None}
    for field, leaf in leaves.items():
        array(f"{name}.{field}", leaf, axes[field], None, sizes, advice=_ONE)
        if field in integers and not jnp.issubdtype(leaf.dtype, jnp.integer):
            raise ValueError(f"{name}.{field} must be integers, got {leaf.dtype}")
    first = next(iter(axes))
    if 0 in leaves[first].shape:
        raise ValueError(
            f"{name}.{first} must be [{', '.join(axes[first].split())}], none of them 0, got shape "
            f"{leaves[first].shape}"
        )
    floats = [leaf for field, leaf in leaves.items() if field not in integers]
    dtype = jnp.result_type(*floats) if floats else jnp.float32
    if not jnp.issubdtype(dtype, jnp.floating):
        raise ValueError(f"{name} must be floating-point numbers, got {dtype}")
    kinds = {field: jnp.int32 if field in integers else dtype for field in leaves}
    return given._replace(**{field: leaves[field].astype(kinds[field]) for field in leaves})
