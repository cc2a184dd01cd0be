"""The options of a command: one record, from which its flags, their help and its values follow.

A command keeps its options in a NamedTuple. Each field is a flag of the same name; its annotation
holds the type, and in `flag` the help text and what is allowed:

    class Options(NamedTuple):
        examples: Annotated[int, flag("Learn from the first so many; 0 for all.", least=0)] = 0
        output: fields.Output = "results"

Types: bool, int, float, str, Sequence[str] (separated by commas), and each of the first four with
`| None`. `check_options` refuses what a field does not allow. `experiments.lib.fields` has the
fields that many commands share.
"""

from __future__ import annotations

import collections.abc
import math
import sys
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from absl import flags

Options = TypeVar("Options", bound=NamedTuple)

AnyOptions: TypeAlias = Any
"""The options of any command, a NamedTuple that has the fields which are read."""


class Flag(NamedTuple):
    """What a flag says of itself, and which values it allows.

    Fields:
      help: one or two sentences.
      choices: the only words that a str, or an element of a list, may be; empty: any.
      least, most: bounds of a number, None where there is none.
      above: a number must be larger than this.
      each: reads an element of a list, such as float; a ValueError says that it does not fit.
      some: a list may not be empty.
      folder: it is one that results go to, which `prepare` makes and tries.
    """

    help: str
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    above: float | None = None
    each: Callable[[str], Any] = str
    some: bool = False
    folder: bool = False


def flag(help: str, choices: Iterable[str] = (), **allowed: Any) -> Flag:
    """The second argument of a field's `Annotated`; `allowed` are the other fields of `Flag`."""
    return Flag(help, tuple(choices), **allowed)


def define_flags(options: type, holder: flags.FlagValues = flags.FLAGS) -> None:
    """Define a flag for each field of `options`, with the field's default.

    All are key flags of the program that runs, so that --help shows them.

    Args:
      options: a NamedTuple whose fields all have defaults. holder: gets the flags.

    Raises:
      TypeError: a field without `flag`, or of a type that no flag has.
    """
    for name, (kind, told) in flag_fields(options).items():
        default = options._field_defaults[name]
        shared: dict[str, Any] = {"flag_values": holder, "module_name": sys.argv[0]}
        if told.choices and kind is str:
            flags.DEFINE_enum(name, default, list(told.choices), told.help, **shared)
        elif kind is str:
            flags.DEFINE_string(name, default, told.help, **shared)
        elif kind is bool:
            flags.DEFINE_boolean(name, default, told.help, **shared)
        elif kind is int:
            least, most = cast(int | None, told.least), cast(int | None, told.most)
            flags.DEFINE_integer(name, default, told.help, least, most, **shared)
        elif kind is float:
            flags.DEFINE_float(name, default, told.help, told.least, told.most, **shared)
        else:
            flags.DEFINE_list(name, list(default), told.help, **shared)


def read_flags(options: type[Options], holder: flags.FlagValues = flags.FLAGS) -> Options:
    """The record with the values of its flags, which have been parsed.

    Raises:
      ValueError: a value that its field does not allow.
    """
    values = (getattr(holder, name) for name in options._fields)
    read = options._make(tuple(value) if isinstance(value, list) else value for value in values)
    check_options(read)
    return read


def check_options(options: AnyOptions) -> None:
    """Refuse a value that its field does not allow.

    Raises:
      ValueError: the message names the field, the value and what was expected.
    """
    for name, (kind, told) in flag_fields(type(options)).items():
        value = getattr(options, name)
        if value is None or kind is bool:
            continue
        if kind is not collections.abc.Sequence:
            _check_value(name, value, told)
            continue
        if told.some and not value:
            raise ValueError(f"{name}: got none, expected at least one")
        for text in value:
            _check_value(name, _element(name, text, told), told)


def _element(name: str, text: str, told: Flag) -> Any:
    """An element of a list, read."""
    try:
        return told.each(text)
    except ValueError as error:
        if told.each not in (int, float):
            raise ValueError(f"{name}: {error}") from None
    kind = "integers" if told.each is int else "numbers"
    raise ValueError(f"{name}: got {text!r}, expected {kind}{_range(told)}")


def _check_value(name: str, value: Any, told: Flag) -> None:
    if told.choices and value not in told.choices:
        raise ValueError(f"{name}: got {value!r}, expected some of {', '.join(told.choices)}")
    if not isinstance(value, int | float):
        return
    if not (
        math.isfinite(value)
        and (told.least is None or value >= told.least)
        and (told.most is None or value <= told.most)
        and (told.above is None or value > told.above)
    ):
        raise ValueError(f"{name}: got {value!r}, expected a finite number{_range(told)}")


def _range(told: Flag) -> str:
    """>= 1 and <= 9, or such."""
    bounds = ((">=", told.least), (">", told.above), ("<=", told.most))
    texts = [f"{sign} {bound:g}" for sign, bound in bounds if bound is not None]
    return f" {' and '.join(texts)}" if texts else ""


def size_reader(shape: str, example: str) -> Callable[[str], tuple[int, ...]]:
    """Reads words such as 9x50 into positive integers.

    Args:
      shape: what the numbers are, such as "labels x length". example: such a word.

    Returns:
      word -> numbers; it raises ValueError for other words.
    """

    def read(text: str) -> tuple[int, ...]:
        parts = text.split("x")
        if len(parts) != shape.count(" x ") + 1 or not all(_positive(part) for part in parts):
            raise ValueError(f"got {text!r}, expected {shape}, as {example}")
        return tuple(map(int, parts))

    return read


def _positive(text: str) -> bool:
    return text.isdecimal() and int(text) > 0


def flag_fields(options: type) -> dict[str, tuple[type, Flag]]:
    """Field -> its type, one of bool, int, float, str and Sequence, and its `Flag`.

    Raises:
      TypeError: a field without `flag`, or of a type that no flag has.
    """
    hints = typing.get_type_hints(options, include_extras=True)
    return {name: _flag_field(options, name, hints[name]) for name in options._fields}


def _flag_field(options: type, name: str, hint: Any) -> tuple[type, Flag]:
    told = [each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Flag)]
    if not told:
        raise TypeError(
            f"{options.__qualname__}.{name}: got {hint}, expected Annotated[type, flag(help)]"
        )
    kind = hint.__origin__
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        (kind,) = set(typing.get_args(kind)) - {types.NoneType}
    kind = typing.get_origin(kind) or kind
    if kind not in (bool, int, float, str, collections.abc.Sequence):
        raise TypeError(f"{options.__qualname__}.{name}: no flag has the type {kind}")
    if told[0].choices and kind not in (str, collections.abc.Sequence):
        raise TypeError(f"{options.__qualname__}.{name}: choices are of str, got {kind}")
    return kind, told[0]
