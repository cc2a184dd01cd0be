"""Python values as plain JSON with type tags, arrays aside; nothing is ever unpickled.

None, True, integers, finite floats, texts and lists stand for themselves. The others are objects
of one key: {"tuple": [..]}, {"float": "inf"}, {"dict": [[key, value], ..]}, {"array": name} of
NumPy and {"device": name} of JAX, and {"record": [name, {field: value}]} of a few known records,
which check what they are made of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import jax
import numpy as np

from jaxstruct.core.archive import one_line
from jaxstruct.core.checks import kind_and_text_of, text_of
from jaxstruct.core.device import on_device

MOST_DEEP = 40
"""Levels of values within values."""


class Record(NamedTuple):
    """A record that files may hold.

    Fields:
      kind: its class. build: its fields by name -> the record, or ValueError.
      fields: the record -> its fields by name; None for those of a NamedTuple.
    """

    kind: type
    build: Callable[[dict[str, Any]], Any]
    fields: Callable[[Any], dict[str, Any]] | None = None


def check_fields(fields: Mapping[str, Any], names: tuple[str, ...]) -> None:
    """Raise ValueError unless these are the fields."""
    if set(fields) != set(names):
        raise ValueError(f"its fields are {sorted(fields)}, expected {sorted(names)}")


_ARRAYS = np.ndarray, jax.Array
_ALIKE = {float: (float, int), np.ndarray: _ARRAYS, jax.Array: _ARRAYS}
"""What may stand where a type is wanted; nowhere True where a number is."""


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotated type; of those that are no classes and tuples, any is."""
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    for one in options:
        whole, parts = get_origin(one) or one, get_args(one)
        if whole is Any or not isinstance(whole, type):
            return True
        if isinstance(value, tuple) and whole is tuple and parts[1:] == (...,):
            return all(_fits(part, parts[0]) for part in value)
        if isinstance(value, _ALIKE.get(whole, whole)) and (
            whole not in (int, float) or not isinstance(value, bool)
        ):
            return True
    return False


def record_of(
    kind: type,
    fields: Callable[[Any], dict[str, Any]] | None = None,
    check: Callable[[Any], object] = lambda record: None,
) -> Record:
    """How files hold a NamedTuple: its fields, which must be of the types of its annotations.

    Args:
      fields: see `Record`. check: raises ValueError of a record that does not hold together.
    """

    def build(fields: dict[str, Any]) -> Any:
        hints = get_type_hints(kind)
        check_fields(fields, tuple(hints))
        for name, value in fields.items():
            if not _fits(value, hints[name]):
                raise ValueError(f"{name} is a {type(value).__name__}")
        record = kind(**fields)
        check(record)
        return record

    return Record(kind, build, fields)


def to_plain(
    value: Any, name: str, arrays: dict[str, np.ndarray], records: Mapping[str, Record]
) -> Any:
    """The plain form of a value; its arrays are added to `arrays`, called by where they stand.

    Args:
      value: what is to be written. name: of it. arrays: name -> array, added to.
      records: by the name that files have for them.

    Raises:
      ValueError: it is of a kind that files do not hold, such as a function.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, str)) or type(value) is int:
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    for kind, record in records.items():
        if isinstance(value, record.kind):
            own = value._asdict() if record.fields is None else record.fields(value)
            return {"record": [kind, _plain_fields(own, name, arrays, records)]}
    if isinstance(value, (np.ndarray, jax.Array)):
        tag = "device" if isinstance(value, jax.Array) else "array"
        return {tag: _kept(np.asarray(value), name, arrays)}
    if type(value) in (list, tuple):
        items = [to_plain(one, f"{name}[{i}]", arrays, records) for i, one in enumerate(value)]
        return items if isinstance(value, list) else {"tuple": items}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {"dict": [*map(list, _plain_fields(value, name, arrays, records).items())]}
    raise ValueError(
        f"{name} is {kind_and_text_of(value)}, which a file does not hold: it holds texts, "
        "numbers, True and False, tuples and lists of these, and arrays"
    )


def _plain_fields(fields: Mapping[str, Any], name: str, arrays: dict, records: Mapping) -> dict:
    return {key: to_plain(value, f"{name}.{key}", arrays, records) for key, value in fields.items()}


def _kept(array: np.ndarray, name: str, arrays: dict[str, np.ndarray]) -> str:
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} is an array of {array.dtype}, expected real numbers or bool")
    key = name if name not in arrays else f"{name} {len(arrays)}"
    arrays[key] = array
    return key


def from_plain(
    plain: Any, arrays: dict[str, np.ndarray], records: Mapping[str, Record], depth: int = 0
) -> Any:
    """The value of a plain form; arrays that it names are taken out of `arrays`.

    Raises:
      ValueError: it is no plain form, a record does not hold together, or an array is not there.
    """
    if depth > MOST_DEEP:
        raise ValueError(f"values stand more than {MOST_DEEP} levels within one another")
    if plain is None or isinstance(plain, (bool, int, float, str)):
        return plain

    def read(part: Any) -> Any:
        return from_plain(part, arrays, records, depth + 1)

    if isinstance(plain, list):
        return [read(one) for one in plain]
    if not isinstance(plain, dict) or len(plain) != 1:
        raise ValueError(f"a value is {text_of(plain)}, expected an object of one key")
    ((tag, inside),) = plain.items()
    if tag == "tuple" and isinstance(inside, list):
        return tuple(read(one) for one in inside)
    if tag == "float" and inside in ("inf", "-inf", "nan"):
        return float(inside)
    if tag in ("array", "device") and isinstance(inside, str) and inside in arrays:
        own = arrays.pop(inside)
        return own if tag == "array" else _on_device(inside, own)
    if tag == "dict" and isinstance(inside, list):
        return _dict_of(inside, read)
    if tag == "record" and isinstance(inside, list) and len(inside) == 2:
        return _record_of(inside, read, records)
    raise ValueError(f"a value is {text_of(plain)}, which is none of this format, or not there")


def _on_device(name: str, stored: np.ndarray) -> jax.Array:
    """The array in the dtype that it was saved in."""
    array = on_device(stored)
    if array.dtype != stored.dtype:
        raise ValueError(
            f"{name} is in {stored.dtype}, which JAX is not set to hold: enable x64 mode as when "
            "it was saved"
        )
    return array


def _dict_of(pairs: list, read: Callable[[Any], Any]) -> dict[str, Any]:
    fine = all(isinstance(one, list) and len(one) == 2 and isinstance(one[0], str) for one in pairs)
    if not fine or len({one[0] for one in pairs}) != len(pairs):
        raise ValueError("a mapping has keys that are no texts, or that come twice")
    return {key: read(value) for key, value in pairs}


def _record_of(inside: list, read: Callable[[Any], Any], records: Mapping[str, Record]) -> Any:
    name, fields = inside
    if not isinstance(name, str) or name not in records or not isinstance(fields, dict):
        raise ValueError(f"a record is {text_of(name)}, which this version does not know")
    record = records[name]
    values = {key: read(value) for key, value in fields.items()}
    try:
        return record.build(values)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{name} does not hold together: {one_line(error)}") from error
