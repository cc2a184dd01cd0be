"""Where functions come from: this package, or somebody else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import jax
from jax.tree_util import Partial

from jaxstruct.core.types import PyTree


def _functions_in(tree: PyTree) -> Iterator[Callable]:
    """Every function of a pytree of Partials, those bound to other functions, too."""
    for part in jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, Partial)):
        if isinstance(part, Partial):
            yield part.func
            yield from _functions_in((part.args, part.keywords))
        elif callable(part):
            yield part


def is_of_package(problem: PyTree) -> bool:
    """Whether every function of a problem is one of this package, whose tests prove its oracles.

    Parts of several structures of the package, joined by hand, count as its own.
    """
    modules = {
        str(getattr(f, "__module__", None)).partition(".")[0] for f in _functions_in(problem)
    }
    return modules == {__name__.partition(".")[0]}


def callers_level() -> int:
    """The level, for `warnings.warn` in the function that asks, of who called the package."""
    frame, level = sys._getframe(1), 1
    package = __name__.partition(".")[0]
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    return level
