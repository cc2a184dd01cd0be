"""Who called the package, and what it is warned of."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

_lists: ContextVar[Mapping[type[Warning], list[Any]]] = ContextVar("lists", default={})  # noqa: B039


def callers_level() -> int:
    """The level, for `warnings.warn` in the function that asks, of who called the package."""
    frame, level = sys._getframe(1), 1
    package = __name__.partition(".")[0]
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    return level


@contextlib.contextmanager
def collected(kind: type[Warning]) -> Iterator[list[Any]]:
    """Within, the package warns nobody of this kind: the list gets the warnings.

    For who does one thing after the other, and has one warning to give of all.
    """
    found: list[Any] = []
    before = _lists.set({**_lists.get(), kind: found})
    try:
        yield found
    finally:
        _lists.reset(before)


def warn(words: str, kind: type[Warning] = UserWarning, *more: Any) -> None:
    """Warn, naming the line that called the package, or add to a list of `collected`.

    Args:
      more: what the class of the warning takes behind the words.
    """
    warning, found = kind(words, *more), _lists.get().get(kind)
    if found is None:
        warnings.warn(warning, stacklevel=callers_level())
    else:
        found.append(warning)
