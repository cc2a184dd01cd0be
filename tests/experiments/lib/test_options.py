"""Flags follow from the options: of every command, and of records made for the tests."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from absl import flags

from experiments.lib.fields import Output
from experiments.lib.options import BaseOptions, check_options, flag
from tests.experiments.scripts import parsed_options


class Options(Output):
    count: int = flag(3, "How many.", least=1, most=9)
    share: float = flag(0.5, "Of all.")
    whole: bool = flag(False, "Everything.")
    way: str = flag("back", "Which.", ["there", "back"])
    path: str | None = flag(None, "A file.")
    cost: float | None = flag(None, "In all.")
    shown: bool | None = flag(None, "Whether to show it.")
    sizes: Sequence[str] = flag(("1", "2"), "Sizes.")


@pytest.mark.smoke
def test_every_type_is_read():
    arguments = (
        "--count=4", "--share=0.25", "--whole", "--way=there", "--path=a b", "--cost=2",
        "--noshown", "--sizes=3,x", "--output=here",
    )  # fmt: skip
    expected = Options(
        count=4, share=0.25, whole=True, way="there", path="a b", cost=2.0, shown=False,
        sizes=("3", "x"), output="here",
    )  # fmt: skip
    assert parsed_options(Options, *arguments) == expected
    assert parsed_options(Options) == Options()


@pytest.mark.parametrize("argument", ["--count=0", "--count=10", "--way=up", "--share=x", "--no=1"])
def test_what_a_flag_does_not_allow_is_refused(argument):
    with pytest.raises(flags.Error):
        parsed_options(Options, argument)


def _size(text: str) -> str:
    if "x" not in text:
        raise ValueError(f"not {text}")
    return text


def test_what_a_field_does_not_allow_is_refused_before_a_run():
    class Lists(BaseOptions):
        ratios: Sequence[str] = flag(("1",), "C'.", each=float, above=0, some=True)
        names: Sequence[str] = flag((), "Of whom.", ["a", "b"])
        sizes: Sequence[str] = flag((), "N.", each=_size)
        share: float | None = flag(None, "Of all.", least=0, most=1)

    check_options(Lists())
    check_options(Lists(ratios=("1e-3", "2"), names=("b", "a"), sizes=("5x6",), share=1.0))
    for wrong, message in (
        ({"ratios": ()}, "ratios: got none, expected at least one"),
        ({"ratios": ("1", "x")}, "ratios: got 'x', expected numbers > 0"),
        ({"ratios": ("0",)}, "ratios: got 0.0, expected a finite number > 0"),
        ({"ratios": ("nan",)}, "ratios: got nan"),
        ({"names": ("c",)}, "names: got 'c', expected some of a, b"),
        ({"sizes": ("5",)}, "sizes: not 5"),
        ({"share": 1.5}, "share: got 1.5, expected a finite number >= 0 and <= 1"),
    ):
        with pytest.raises(ValueError, match=message):
            check_options(Lists().replace(**wrong))
