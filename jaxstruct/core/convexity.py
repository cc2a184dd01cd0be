"""Which functions of potentials are known not to be convex: their gradients bound nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable)

_NOT_CONVEX: list[Callable] = []


def not_convex(function: Function) -> Function:
    """A decorator that says so of a likelihood."""
    _NOT_CONVEX.append(function)
    return function


def is_convex(function: Callable | None) -> bool:
    """Whether nobody has said that it is not; None, which stands for a hinge loss, is."""
    return not any(function is other for other in _NOT_CONVEX)
