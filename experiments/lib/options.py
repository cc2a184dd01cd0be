"""The options of a command: one record, from which its flags, their help and its values follow.

A command keeps its options in a NamedTuple. Each field is a flag of the same name; its annotation
holds the type, and in `flag` the help text and what is allowed:

    class Options(NamedTuple):
        examples: Annotated[int, flag("Learn from the first so many; 0 for all.", least=0)] = 0
        output: Output = "results"

Types: bool, int, float, str (with choices: one of them), Sequence[str] (separated by commas), and
each of the first four with `| None`. The fields that many commands share are at the end.
"""

from __future__ import annotations

import collections.abc
import sys
import types
import typing
from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar, cast

from absl import flags

Options = TypeVar("Options", bound=NamedTuple)

AnyOptions: TypeAlias = Any
"""The options of any command, a NamedTuple that has the fields which are read."""


class Flag(NamedTuple):
    """What a flag says of itself.

    Fields:
      help: one or two sentences.
      choices: the only words that a str may be; empty: any.
      least, most: bounds of a number, None where there is none.
    """

    help: str
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None


def flag(
    help: str,
    choices: Iterable[str] = (),
    least: float | None = None,
    most: float | None = None,
) -> Flag:
    """The second argument of a field's `Annotated`; see `Flag`."""
    return Flag(help, tuple(choices), least, most)


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
        if told.choices:
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
    """The record with the values of its flags, which have been parsed."""
    values = (getattr(holder, name) for name in options._fields)
    return options._make(tuple(value) if isinstance(value, list) else value for value in values)


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
    if told[0].choices and kind is not str:
        raise TypeError(f"{options.__qualname__}.{name}: choices are of str, got {kind}")
    return kind, told[0]


Output = Annotated[str, flag("Folder of the results: JSON, CSV and PNG.")]
Seed = Annotated[int, flag("Seed of every random choice.")]
X64 = Annotated[
    bool, flag("Compute in float64 (sets jax_enable_x64); needed below tolerance 1e-5.")
]
CompilationCache = Annotated[
    bool,
    flag("Keep compiled programs on disk, so that the next run does not compile them again."),
]
ShowProgress = Annotated[
    bool | None, flag("Show progress on standard error. Default: only where that is a terminal.")
]
Tolerance = Annotated[float, flag("Relative duality gap to stop at.")]
Variant = Annotated[
    str,
    flag(
        "Solver: step 10a (full: all working sets) or 10b (subspace: one example's) of algorithm "
        "3; auto: full for small sets.",
        ["auto", "full", "subspace"],
    ),
]
WorkingSets = Annotated[
    str,
    flag(
        "Working sets grown by the oracle, as in algorithm 3, or holding every output from the "
        "start; auto: every output where there are few.",
        ["auto", "grown", "enumerated"],
    ),
]
Capacity = Annotated[int, flag("Cutting planes an example, at the start.")]
