"""Docstrings name all that a fitted estimator has."""

from __future__ import annotations

import inspect
import re

import pytest

from jaxstruct import estimators


def _own_bases(cls: type) -> list[type]:
    return [base for base in cls.__mro__ if base.__module__.startswith("jaxstruct.")]


def _section(cls: type, name: str) -> str:
    """What follows a heading of a docstring; from Python 3.13 on its indentation is gone."""
    return inspect.cleandoc(cls.__doc__).partition(f"\n{name}")[2]


@pytest.mark.parametrize("name", estimators.__all__)
def test_every_fitted_attribute_has_an_entry(name) -> None:
    bases = _own_bases(getattr(estimators, name))
    code = "\n".join(  # of functions beside a class, too, but not beside one that is never fitted
        inspect.getsource(inspect.getmodule(base) if _section(base, "Attributes") else base)
        for base in bases
    )
    assigned = re.findall(
        r"^ +((?:(?:self|estimator)\.\w+, )*(?:self|estimator)\.\w+) = ", code, re.M
    )
    fitted = {one for line in assigned for one in re.findall(r"\.([A-Za-z]\w*_)\b", line)}
    fitted |= {key for base in bases for key, value in vars(base).items()
               if isinstance(value, property) and key.endswith("_")}  # fmt: skip
    sections = "\n".join(_section(base, "Attributes") for base in bases)
    entries = {one for names in re.findall(r"(\w+_(?:, \w+_)*): ", sections)
               for one in names.split(", ")}  # fmt: skip
    assert fitted and fitted <= entries
