"""The options of a command: one record, from which its flags, their help and its values follow.

A command declares them in a frozen dataclass. Each field is a flag of the same name; `flag` gives
its default, its help text and what is allowed:

    class Options(fields.Common):
        examples: int = flag(0, "Learn from the first so many; 0 for all.", least=0)
        compilation_cache: bool = False

A field that a base class has keeps that one's help, and takes another default. Types: bool, int,
float, str, Sequence[str] (separated by commas), and each of the first four with `| None`.
`check_options` refuses what a field does not allow. `experiments.lib.fields` has the fields that
many commands share.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import math
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar, cast, dataclass_transform

from absl import flags

T = TypeVar("T")

AnyOptions: TypeAlias = Any
"""The options of any command, a `BaseOptions` that has the fields which are read."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
class BaseOptions:
    """The options of some command; a class that inherits it is a frozen dataclass of keywords."""

    def __init_subclass__(cls) -> None:
        """Make the class a dataclass."""
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)

    @property
    def command(self) -> str:
        """The command that these are of: its name under `experiments`."""
        return type(self).__module__.split(".")[1]

    def replace(self, **changes: Any) -> Self:
        """The same options but for these."""
        return dataclasses.replace(cast(Any, self), **changes)

    def values(self) -> dict[str, Any]:
        """Field -> value."""
        return {name: getattr(self, name) for name in names(type(self))}


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


def flag(default: T, help: str, choices: Iterable[str] = (), **allowed: Any) -> T:
    """A field of a `BaseOptions`; `allowed` are the other fields of `Flag`."""
    about = Flag(help, tuple(choices), **allowed)
    return dataclasses.field(default=default, metadata={"flag": about})


def names(options: type[BaseOptions]) -> tuple[str, ...]:
    """The fields, which are the flags."""
    return tuple(field.name for field in dataclasses.fields(cast(Any, options)))


def define_flags(options: type[BaseOptions], holder: flags.FlagValues = flags.FLAGS) -> None:
    """Define a flag for each field of `options`, with the field's default.

    All are key flags of the program that runs, so that --help shows them.

    Args:
      options: a class whose fields all have defaults. holder: gets the flags.

    Raises:
      TypeError: a field without `flag`, or of a type that no flag has.
    """
    defaults = options().values()
    for name, (kind, about) in flag_fields(options).items():
        default = defaults[name]
        shared: dict[str, Any] = {"flag_values": holder, "module_name": sys.argv[0]}
        if about.choices and kind is str:
            flags.DEFINE_enum(name, default, list(about.choices), about.help, **shared)
        elif kind is str:
            flags.DEFINE_string(name, default, about.help, **shared)
        elif kind is bool:
            flags.DEFINE_boolean(name, default, about.help, **shared)
        elif kind is int:
            least, most = cast(int | None, about.least), cast(int | None, about.most)
            flags.DEFINE_integer(name, default, about.help, least, most, **shared)
        elif kind is float:
            flags.DEFINE_float(name, default, about.help, about.least, about.most, **shared)
        else:
            flags.DEFINE_list(name, list(default), about.help, **shared)


def read_flags(options: type[AnyOptions], holder: flags.FlagValues = flags.FLAGS) -> AnyOptions:
    """The record with the values of its flags, which have been parsed.

    Raises:
      ValueError: a value that its field does not allow.
    """
    values = {name: getattr(holder, name) for name in names(options)}
    read = options(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})
    check_options(read)
    return read


def check_options(options: AnyOptions) -> None:
    """Refuse a value that its field does not allow.

    Raises:
      ValueError: the message names the field, the value and what was expected.
    """
    for name, (kind, about) in flag_fields(type(options)).items():
        value = getattr(options, name)
        if value is None or kind is bool:
            continue
        if kind is not collections.abc.Sequence:
            _check_value(name, value, about)
            continue
        if about.some and not value:
            raise ValueError(f"{name}: got none, expected at least one")
        for text in value:
            _check_value(name, _element(name, text, about), about)


def _element(name: str, text: str, about: Flag) -> Any:
    """An element of a list, read."""
    try:
        return about.each(text)
    except ValueError as error:
        if about.each not in (int, float):
            raise ValueError(f"{name}: {error}") from None
    kind = "integers" if about.each is int else "numbers"
    raise ValueError(f"{name}: got {text!r}, expected {kind}{_range(about)}")


def _check_value(name: str, value: Any, about: Flag) -> None:
    if about.choices and value not in about.choices:
        raise ValueError(f"{name}: got {value!r}, expected some of {', '.join(about.choices)}")
    if not isinstance(value, int | float):
        return
    if not (
        math.isfinite(value)
        and (about.least is None or value >= about.least)
        and (about.most is None or value <= about.most)
        and (about.above is None or value > about.above)
    ):
        raise ValueError(f"{name}: got {value!r}, expected a finite number{_range(about)}")


def _range(about: Flag) -> str:
    """>= 1 and <= 9, or such."""
    bounds = ((">=", about.least), (">", about.above), ("<=", about.most))
    texts = [f"{sign} {bound:g}" for sign, bound in bounds if bound is not None]
    return f" {' and '.join(texts)}" if texts else ""


def flag_fields(options: type[BaseOptions]) -> dict[str, tuple[type, Flag]]:
    """Field -> its type, one of bool, int, float, str and Sequence, and its `Flag`.

    Raises:
      TypeError: a field without `flag`, or of a type that no flag has.
    """
    hints = typing.get_type_hints(options)
    return {name: _flag_field(options, name, hints[name]) for name in names(options)}


def _about(options: type, name: str) -> Flag | None:
    """What `flag` said of a field, here or in the nearest base class."""
    for each in options.__mro__:
        own: Mapping[str, Any] = vars(each).get("__dataclass_fields__", {})
        if name in own and "flag" in own[name].metadata:
            return own[name].metadata["flag"]
    return None


def _flag_field(options: type, name: str, hint: Any) -> tuple[type, Flag]:
    about = _about(options, name)
    if about is None:
        raise TypeError(f"{options.__qualname__}.{name}: expected flag(default, help), got neither")
    kind = hint
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        (kind,) = set(typing.get_args(kind)) - {types.NoneType}
    kind = typing.get_origin(kind) or kind
    if kind not in (bool, int, float, str, collections.abc.Sequence):
        raise TypeError(f"{options.__qualname__}.{name}: no flag has the type {kind}")
    if about.choices and kind not in (str, collections.abc.Sequence):
        raise TypeError(f"{options.__qualname__}.{name}: choices are of str, got {kind}")
    return kind, about
