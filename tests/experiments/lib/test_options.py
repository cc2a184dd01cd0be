"""Flags follow from the options: of every command, and of records made for the tests."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import pytest
from absl import flags

import experiments
from experiments.lib.fields import Output
from experiments.lib.options import (
    check_options,
    define_flags,
    flag,
    flag_fields,
    size_reader,
)
from tests.experiments.scripts import parsed_options

COMMANDS = sorted(path.parent.name for path in Path(experiments.__path__[0]).glob("*/command.py"))
SHARED = {"output", "seed", "x64", "progress", "compilation_cache"}
WITH_LESS = {"killed_runs", "label_files", "make_store", "parse_sentences"}


class Options(NamedTuple):
    count: Annotated[int, flag("How many.", least=1, most=9)] = 3
    share: Annotated[float, flag("Of all.")] = 0.5
    whole: Annotated[bool, flag("Everything.")] = False
    way: Annotated[str, flag("Which.", ["there", "back"])] = "back"
    path: Annotated[str | None, flag("A file.")] = None
    cost: Annotated[float | None, flag("In all.")] = None
    shown: Annotated[bool | None, flag("Whether to show it.")] = None
    sizes: Annotated[Sequence[str], flag("Sizes.")] = ("1", "2")
    output: Output = "results"


def options_of(command: str) -> type:
    return importlib.import_module(f"experiments.{command}.command").Options


@pytest.mark.smoke
def test_flags_default_to_the_options():
    for command in COMMANDS:
        options = options_of(command)
        assert parsed_options(options) == options(), command
        assert command in WITH_LESS or set(options._fields) >= SHARED, command


def test_help_lists_every_field(monkeypatch):
    """absl's --help prints `main_module_help`, the key flags of the program that runs."""
    for command in COMMANDS:
        monkeypatch.setattr(sys, "argv", [f"experiments/{command}/__main__.py"])
        options, holder = options_of(command), flags.FlagValues()
        define_flags(options, holder)
        told = holder.main_module_help()
        starts = (line.split(":")[0].strip() for line in told.splitlines())
        assert set(options._fields) <= {n.removeprefix("--").removeprefix("[no]") for n in starts}
        for name, (_, about) in flag_fields(options).items():
            assert "".join(about.help.split()) in "".join(told.split()), (command, name)


@pytest.mark.smoke
def test_every_type_is_read():
    arguments = (
        "--count=4", "--share=0.25", "--whole", "--way=there", "--path=a b", "--cost=2",
        "--noshown", "--sizes=3,x", "--output=here",
    )  # fmt: skip
    expected = Options(4, 0.25, True, "there", "a b", 2.0, False, ("3", "x"), "here")
    assert parsed_options(Options, *arguments) == expected
    assert parsed_options(Options) == Options()


@pytest.mark.parametrize("argument", ["--count=0", "--count=10", "--way=up", "--share=x", "--no=1"])
def test_what_a_flag_does_not_allow_is_refused(argument):
    with pytest.raises(flags.Error):
        parsed_options(Options, argument)


def test_a_field_without_help_is_an_error():
    class Bare(NamedTuple):
        count: int = 1

    class Odd(NamedTuple):
        table: Annotated[dict, flag("No flag is one.")] = {}  # noqa: RUF012

    class Choice(NamedTuple):
        number: Annotated[int, flag("One of them.", ["1"])] = 1

    for wrong, message in ((Bare, "Bare.count"), (Odd, "Odd.table"), (Choice, "are of str")):
        with pytest.raises(TypeError, match=message):
            flag_fields(wrong)


def test_what_a_field_does_not_allow_is_refused_before_a_run():
    class Lists(NamedTuple):
        ratios: Annotated[Sequence[str], flag("C'.", each=float, above=0, some=True)] = ("1",)
        names: Annotated[Sequence[str], flag("Of whom.", ["a", "b"])] = ()
        sizes: Annotated[Sequence[str], flag("N.", each=size_reader("M x N", "5x6"))] = ()
        share: Annotated[float | None, flag("Of all.", least=0, most=1)] = None

    check_options(Lists())
    check_options(Lists(("1e-3", "2"), ("b", "a"), ("5x6",), 1.0))
    for wrong, message in (
        ({"ratios": ()}, "ratios: got none, expected at least one"),
        ({"ratios": ("1", "x")}, "ratios: got 'x', expected numbers > 0"),
        ({"ratios": ("0",)}, "ratios: got 0.0, expected a finite number > 0"),
        ({"ratios": ("nan",)}, "ratios: got nan"),
        ({"names": ("c",)}, "names: got 'c', expected some of a, b"),
        ({"sizes": ("5",)}, "sizes: got '5', expected M x N, as 5x6"),
        ({"sizes": ("5x0",)}, "sizes: got '5x0'"),
        ({"share": 1.5}, "share: got 1.5, expected a finite number >= 0 and <= 1"),
    ):
        with pytest.raises(ValueError, match=message):
            check_options(Lists()._replace(**wrong))
